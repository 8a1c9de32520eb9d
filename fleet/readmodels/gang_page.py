"""Everything the page of one gang shows, in a fixed number of queries.

Decides which members come first (those that keep it from running) and how its timeline is told. Refuses gangs of
clusters that the reader may not see: they do not exist for him; and to judge again: reasons, blockers and conditions
are read as they were stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from fleet.gangs.models import Ending, GangMoment, GangRow
from fleet.lifecycle.suspending.models import Suspension
from fleet.readmodels import fleet_map, gang_conditions, gang_list, gang_names, gang_reasons, gang_suspended, phrases
from fleet.readmodels.fleet_map import NodeRow
from fleet.readmodels.gang_list import GangLine, Visible
from fleet.readmodels.gang_words import CONDITIONS

MOMENTS = 200
MEMBERS_A_PAGE = 100
NODES_ASKED = 2_000
STATE_ORDER = ("gated", "pending", "placed", "ending", "running", "ready", "ended")


@dataclass(frozen=True, slots=True)
class MemberLine:
    key: str
    node: str
    state: str
    role: str
    gpus: int
    waits: str
    stuck: str
    sick_device: str

    @property
    def name(self) -> str:
        return self.key.rsplit("/", 1)[-1]

    @property
    def says(self) -> str:
        return self.stuck or self.sick_device or self.waits


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline. `raw` is what its system said then."""

    at: datetime
    kind: str
    lead: str
    text: str
    raw: str
    nodes: tuple[str, ...]
    tone: str


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object that speaks of the gang, in its system's own words: (text, since, source)."""

    system: str
    kind: str
    name: str
    phase: str
    said: tuple[tuple[str, str | None, str], ...]


@dataclass(slots=True)
class GangView:
    line: GangLine
    guarantee: str
    created_at: datetime | None
    first_seen_at: datetime
    gone_at: datetime | None
    members: list[MemberLine]
    nodes: dict[str, NodeRow]  # of its members and blockers, by name; those that are known
    objects: list[ObjectSeen]
    moments: list[Moment]
    ending: Ending | None

    @property
    def places(self) -> list[str]:
        """Names of nodes that hold members."""
        return sorted({member.node for member in self.members if member.node})

    @property
    def nowhere(self) -> int:
        return sum(1 for member in self.members if not member.node)


def read(pk: int, visible: Visible, now: datetime) -> GangView | None:
    """Seven queries, two more where it is suspended."""
    rows = GangRow.objects.filter(**gang_list.scope(visible), pk=pk)
    found = gang_list.lines(rows, now)
    if not found:
        return None
    line = found[0]
    rest = rows.values("members", "objects_seen", "guarantee", "created_at", "first_seen_at", "gone_at").get()
    line.conditions = gang_conditions.of_gangs([(line.cluster_id, line.key)]).get((line.cluster_id, line.key), [])
    members = sorted((MemberLine(*one) for one in rest["members"]), key=_trouble_first)
    mine = {"cluster_id": line.cluster_id, "gang_key": line.key}
    stored = GangMoment.objects.filter(**mine).order_by("-at", "-pk")[:MOMENTS]
    suspended = gang_suspended.of(line.cluster_id, line.jobs(rest["objects_seen"]))
    line.ours = next((gang_suspended.stands(one) for one in suspended if one.ended_at is None), "")
    moments = [*(moment(row, line.queue) for row in stored), *(m for one in suspended for m in _of_suspension(one))]
    return GangView(
        line=line,
        guarantee=rest["guarantee"],
        created_at=rest["created_at"],
        first_seen_at=rest["first_seen_at"],
        gone_at=rest["gone_at"],
        members=members,
        nodes=_nodes(line, members),
        objects=[_object(one) for one in rest["objects_seen"]],
        moments=sorted(moments, key=lambda one: one.at, reverse=True)[:MOMENTS],
        ending=Ending.objects.filter(**mine).order_by("-at").first(),
    )


def _of_suspension(row: Suspension) -> list[Moment]:
    """Its lines in the timeline. Nodes are named in the sentence of its beginning."""
    told = [Moment(row.suspended_at or row.begun_at, "suspension", gang_suspended.began(row), "", "", (), "")]
    if row.ended_at is not None:
        why = phrases.told(row.text) if row.state == Suspension.LEFT else ""
        told.append(Moment(row.ended_at, "suspension", gang_suspended.ended(row), why, "", (), ""))
    return told


def _nodes(line: GangLine, members: Sequence[MemberLine]) -> dict[str, NodeRow]:
    names = {member.node for member in members if member.node} | {str(one["node"]) for one in line.blockers}
    if not names:
        return {}
    return {row.name: row for row in fleet_map.rows(None, line.cluster, *sorted(names)[:NODES_ASKED])}


def _trouble_first(member: MemberLine) -> tuple[bool, int, str]:
    place = STATE_ORDER.index(member.state) if member.state in STATE_ORDER else len(STATE_ORDER)
    return not (member.stuck or member.sick_device), place, member.key


def _object(raw: Mapping[str, Any]) -> ObjectSeen:
    namespace, name = raw.get("namespace", ""), raw.get("name", "")
    said = tuple((phrases.told(str(text)), at, str(source)) for _code, text, at, source in raw.get("said", []))
    system = gang_names.word(gang_names.SYSTEMS, raw.get("system", ""))
    return ObjectSeen(system, raw.get("kind", ""), f"{namespace}/{name}" if namespace else name,
                      raw.get("phase", ""), said)  # fmt: skip


def moment(row: GangMoment, queue: str = "") -> Moment:
    """The words of one stored moment; what is not known is told as it was stored."""
    facts: dict[str, Any] = row.facts or {}
    raw, nodes = str(facts.get("raw") or ""), tuple(str(node) for node in facts.get("nodes") or ())
    if row.kind == "state":
        lead, text, tone = _of_state(row.what, facts)
    elif row.kind == "reason":
        words = gang_reasons.told(row.what, {"raw": raw}, [{"node": node} for node in nodes], queue)
        lead, text, tone = _("It waits: %(reason)s.") % {"reason": words.name}, "", "hot"
    elif row.kind == "condition":
        lead, text, tone = _of_condition(row, facts)
    elif row.kind == "gone":
        lead, text, tone = _("It is gone."), _("Neither an object nor a pod tells of it any more."), ""
    elif row.kind == "ending":
        lead, text, tone = (
            _("Its job failed: %(status)s.") % {"status": row.what},
            _("What was known then is in the black box."),
            "hot",
        )
    elif row.kind == "kept":
        lead, text, tone = _of_kept(row.what, facts)
    else:
        lead, text, tone = row.what, "", ""
    return Moment(row.at, row.kind, lead, text, phrases.told(raw), nodes, tone)


def _of_kept(what: str, facts: Mapping[str, Any]) -> tuple[str, str, str]:
    """How long its Ray cluster stays for people to look, and what became of that."""
    named = {"job": facts.get("job", ""), "until": str(facts.get("until", ""))[:16].replace("T", " ")}
    named["incident"] = f"INC-{facts.get('incident', '')}"
    match what:
        case "kept":
            lead = _("Muster keeps RayJob %(job)s until %(until)s UTC, while %(incident)s is open.")
        case "returned":
            lead = _("%(incident)s is over: RayJob %(job)s has its own time again.")
        case "left":
            lead = _("Muster no longer keeps RayJob %(job)s.")
        case _:
            lead = _("Muster asks to keep RayJob %(job)s until %(until)s UTC, while %(incident)s is open.")
    return lead % named, "", ""


def _of_state(state: str, facts: Mapping[str, Any]) -> tuple[str, str, str]:
    word = gang_names.word(gang_names.STATES, state)
    text = ""
    if "placed" in facts:
        text = _("%(placed)s of %(minimum)s placed, %(gpus)s GPUs held.") % {
            "placed": facts["placed"], "minimum": facts.get("minimum", 0), "gpus": facts.get("gpus_held", 0),
        }  # fmt: skip
    return f"{word[:1].upper()}{word[1:]}.", text, "go" if state in ("starting", "running") else ""


def _of_condition(row: GangMoment, facts: Mapping[str, Any]) -> tuple[str, str, str]:
    if row.what not in CONDITIONS:
        return row.what, "", ""
    name = str(CONDITIONS[row.what].name)
    about = str(facts.get("about") or "")
    if facts.get("ended"):
        return _("Over: %(condition)s.") % {"condition": name}, about, ""
    told = gang_conditions.words(row.what, row.gang_key, about, {k: v for k, v in facts.items() if k != "about"})
    return f"{name}.", told.sentence, "hot"
