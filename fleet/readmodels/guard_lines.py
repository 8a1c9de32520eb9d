"""Every guard that a workflow's next claim must pass, each with its verdict and one sentence.

Decides the order (who may at all, then what is known, then room and time) and asks the guards' own functions, never
its own copy of them. Refuses to grant or to write anything: it is a look at this moment, for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from fleet.health import detector_changes
from fleet.health.models import Incident, NodeVerdict, Signal, Verdict
from fleet.inventory.models import Cluster, Mode, Node
from fleet.lifecycle import approving, owners, requester
from fleet.lifecycle.machine import OUT_STATES
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.planner import mode_on
from fleet.lifecycle.playbooks import CLAIMS, HOLD
from fleet.lifecycle.watched import unwatched
from fleet.policy import selectors as policy
from fleet.policy import windows
from fleet.policy.rules import APPLIES, FLOOR, RATE, CapRule, Decision, Place, decide, span
from fleet.readmodels import words
from fleet.readmodels.words import Word


@dataclass(frozen=True, slots=True)
class GuardLine:
    """`code` names the guard; `text` is in the reader's language or a stored sentence; `until` of a block."""

    code: str
    name: Word
    ok: bool
    text: str
    until: datetime | None = None


MODE_WORD: dict[str, Word] = {"observe": lazy("Observe"), "recommend": lazy("Recommend"), "automate": lazy("Automate")}
NAMES: dict[str, Word] = {
    "mode": lazy("Mode"),
    "switch": lazy("Kill switch"),
    "breaker": lazy("Breaker"),
    "role": lazy("Role"),
    "approval": lazy("Approvals"),
    "owner": lazy("Other owners"),
    "freshness": lazy("Freshness"),
    "detector": lazy("Detector"),
    "window": lazy("Windows and freezes"),
    "caps": lazy("Caps"),
    "rate": lazy("Rate"),
    "floor": lazy("Capacity floor"),
}


def read(workflow: Workflow, now: datetime) -> list[GuardLine]:
    """The guards of its current step, or of the next one that needs a claim; [] when none is left.

    The workflow has node, pool, cluster and incident loaded. A fixed number of queries.
    """
    verb = next((str(item["verb"]) for item in workflow.plan[workflow.step :] if item["verb"] in CLAIMS), "")
    if not verb:
        return []
    return [*_who(workflow), *_known(workflow, now), *_room(workflow, verb, now)]


def _line(code: str, decision: Decision | None, fine: str) -> GuardLine:
    if decision is None or decision.allowed:
        return GuardLine(code, NAMES[code], True, fine)
    return GuardLine(code, NAMES[code], False, decision.text, decision.until)


def _no(code: str, text: str, fine: str, until: datetime | None = None) -> GuardLine:
    return GuardLine(code, NAMES[code], not text, text or fine, until if text else None)


def _who(workflow: Workflow) -> Iterator[GuardLine]:
    """May it act at all: mode, the role of who asked, approvals, other owners."""
    yield mode_line(workflow.node, workflow.incident, workflow.cluster)
    by = workflow.created_by
    mine = by == requester.OURS or by.startswith(f"{requester.OURS}:")
    said = requester.refusal(by, workflow.cluster, 1)
    yield _no("role", said, _("Muster asks for it itself.") if mine else _("%(by)s may have it done.") % {"by": by})
    if workflow.state == "waiting" or approving.lacking(workflow):
        waits = workflow.blocked_text or _("It waits for a person's approval.")
        yield _no("approval", waits, "", workflow.blocked_until)
    else:
        agreed = _("People agreed to exactly this plan.") if workflow.needs_approval else _("None is needed.")
        yield _no("approval", "", agreed)
    other = owners.in_the_way(owners.of_row(workflow.node.owners))
    yield _no("owner", owners.waiting_for(other) if other else "", _("Nobody else works on the node."))


def mode_line(node: Node, incident: Incident | None, cluster: Cluster) -> GuardLine:
    """The least of cluster, pool and rule; the rule is named where it is the one that limits."""
    mode = mode_on(node, incident, cluster)
    said = {"mode": str(MODE_WORD[mode]).lower()}
    if incident is not None and mode != mode_on(node, None, cluster):
        said["rule"] = incident.rule
        shut = _("The rule %(rule)s is in mode observe: nothing is written.")
        fine = _("The rule %(rule)s is in mode %(mode)s.")
    else:
        shut, fine = _("The mode is observe: nothing is written."), _("The mode is %(mode)s.")
    return _no("mode", shut % said if mode == Mode.OBSERVE else "", fine % said)


def _known(workflow: Workflow, now: datetime) -> Iterator[GuardLine]:
    """Is what it goes by fresh, and the node's own?"""
    blind = unwatched(workflow.cluster_id, now)
    row = NodeVerdict.objects.filter(node_id=workflow.node_id).first()
    if not blind and (row is None or row.verdict == Verdict.UNKNOWN):
        blind = (row.reason if row else "") or _("Nothing is known of the node: no fresh data.")
    at = row.telemetry_at if row else None
    age = words.duration(max(0.0, (now - at).total_seconds())) if at else ""
    yield _no("freshness", blind, _("Measured %(age)s ago.") % {"age": age} if age else _("The cluster is watched."))
    yield _detector(workflow, now)


def _detector(workflow: Workflow, now: datetime) -> GuardLine:
    incident = workflow.incident
    if incident is None:
        return _no("detector", "", _("A person asked: no check is behind it."))
    if incident.part_of_id is not None or incident.node_id is None:
        shared = _("Many nodes share the fault: nothing is done to any one of them for it.")
        return _no("detector", shared, "")
    if incident.state == Incident.OPEN and incident.plan_after is not None and incident.plan_after > now:
        waits = _("It is awaited whether other nodes fail the same check.")
        return _no("detector", waits, "", incident.plan_after)
    others = Signal.objects.filter(cluster_id=workflow.cluster_id, rule=incident.rule, cleared_at=None)
    count = others.exclude(node_id=workflow.node_id).values("node_id").distinct().count()
    lately = detector_changes.lately(workflow.cluster_id, now)
    changed = lately.rules.get(incident.rule) or "; ".join(lately.nodes.get(workflow.node.name, ()))
    fine = _("%(n)s other nodes fail the check %(check)s.") % {"n": count, "check": incident.rule}
    return _no("detector", "", f"{fine} {_('Changed lately: %(what)s.') % {'what': changed}}" if changed else fine)


def _room(workflow: Workflow, verb: str, now: datetime) -> Iterator[GuardLine]:
    """Switch, breaker, times, and the limits with their numbers."""
    switch = policy.stopped()
    yield _line("switch", policy.told(switch, now) if switch else None, _("Nobody has stopped new disruption."))
    yield _breaker(workflow, now)
    pool, incident = workflow.node.pool, workflow.incident
    urgent = incident is not None and incident.severity == "unhealthy"
    times = policy.windows_of(workflow.cluster_id)
    timely = windows.decide(times, pool.name if pool else "", urgent, now) if verb != HOLD else None
    free, open_now = _("A hold disturbs no work, so no window binds it."), _("No freeze, and no window is shut.")
    yield _line("window", timely, free if verb == HOLD else open_now)
    fleet = policy.read_fleet(now, OUT_STATES)
    place = fleet.places.get(workflow.node_id)
    kind, caps = CLAIMS[verb], policy.caps_of(workflow.cluster_id)
    if place is None:
        yield _no("caps", _("The node is not in the managed set."), "")
        return
    for code, mine in _limits(kind, caps):
        found = decide(kind, place, mine, fleet.tally, now) if mine else None
        yield _line(code, found, _numbers(mine, place, fleet) if mine else _("None is set."))


def _limits(kind: str, caps: Sequence[CapRule]) -> Iterator[tuple[str, list[CapRule]]]:
    applying = [cap for cap in caps if cap.kind in APPLIES[kind]]
    yield "caps", [cap for cap in applying if cap.kind not in (RATE, FLOOR)]
    yield "rate", [cap for cap in applying if cap.kind == RATE]
    yield "floor", [cap for cap in applying if cap.kind == FLOOR]


def _numbers(caps: Sequence[CapRule], place: Place, fleet: policy.Fleet) -> str:
    """The fullest of the caps that have room; of rates and floors only that there is room."""
    best: tuple[float, str] | None = None
    for cap in caps:
        for key in place.scopes:
            limit = cap.limit(fleet.tally.sizes.get(key, 0)) if key[0] == cap.scope else None
            if limit is None or cap.kind in (RATE, FLOOR):
                continue
            used = len(fleet.tally.used(cap.kind, key, without=place.node_id))
            scope = words.word(words.SCOPES, key[0])
            named = f"{scope} {key[2]}".strip() if key[0] != "fleet" else scope
            text = _("There is room: %(where)s has %(used)s of %(limit)s.") % {
                "where": named, "used": used, "limit": limit,
            }  # fmt: skip
            if best is None or used / limit > best[0]:
                best = used / limit, text
    return best[1] if best else _("There is room.")


def _breaker(workflow: Workflow, now: datetime) -> GuardLine:
    found = policy.open_breaker(workflow.cluster_id, now)
    rule = policy.breaker_rule(workflow.cluster_id)
    if not rule.enabled:
        return _line("breaker", found, _("It is switched off."))
    held = len(set(policy.held_lately(workflow.cluster_id, now - timedelta(seconds=rule.window)).values()))
    fine = _("Closed: %(held)s nodes were held within %(window)s.") % {
        "held": held, "window": span(timedelta(seconds=rule.window)),
    }  # fmt: skip
    return _line("breaker", found, fine)
