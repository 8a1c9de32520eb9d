"""What waits for people's approval, what was decided, and why a person may not vote.

Decides the title of each request, what it would touch, and the sentence beside a button that does not work. Refuses to
show requests of clusters that the reader may not see; what concerns the whole site is shown to who sees all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.access.rights import APPROVE, POLICY
from fleet.inventory.models import Cluster
from fleet.lifecycle import ballots, forcing
from fleet.policy import approvals
from fleet.policy.models import Approval, ApprovalVote
from fleet.readmodels import words

DECIDED = 50  # the newest that the page lists
May = Callable[[str, str], bool]
"""(right, cluster) -> has the reader it there; cluster "" asks for the whole site."""


@dataclass(frozen=True, slots=True)
class Request:
    """`refusal` is "" when the reader may vote."""

    row: Approval
    cluster: str
    title: str
    about: str  # workflow, batch, policy, ...
    about_id: int
    votes: list[ApprovalVote]
    refusal: str

    @property
    def kind(self) -> str:
        return words.word(words.APPROVAL_KINDS, self.row.kind)

    @property
    def state(self) -> str:
        return words.word(words.APPROVAL_STATES, self.row.state)

    @property
    def agreed(self) -> int:
        return len({vote.by for vote in self.votes if vote.yes})

    @property
    def steps(self) -> list[str]:
        return [words.word(words.VERBS, str(verb)).lower() for verb in self.row.summary.get("verbs", [])]

    @property
    def nodes(self) -> list[str]:
        told = self.row.summary
        return [str(name) for name in told.get("nodes", [told["node"]] if told.get("node") else [])]

    @property
    def more_nodes(self) -> int:
        return max(0, int(self.row.summary.get("count", 0)) - len(self.nodes))

    @property
    def gangs(self) -> list[str]:
        """Gangs with members on the nodes, if the plan takes their pods away."""
        told = self.row.summary
        if "drain" not in told.get("verbs", []):
            return []
        return [str(gang) for gang in told.get("gangs", [told["gang"]] if told.get("gang") else [])]

    @property
    def pods(self) -> int:
        told = self.row.summary.get("pods", 0)
        return len(told) if isinstance(told, list) else int(told)

    @property
    def named_pods(self) -> list[str]:
        """The pods that it is about, where it is about single ones."""
        told = self.row.summary.get("pods", 0)
        return [str(pod) for pod in told] if isinstance(told, list) else []

    @property
    def workflow(self) -> int | None:
        """The workflow that it lets go on."""
        return self.about_id if self.about in ("workflow", *forcing.SUBJECTS.values()) else None

    @property
    def changes(self) -> list[str]:
        """What a policy would allow more than before."""
        return [
            f"{item.get('what')}: {item.get('old') or '–'} → {item.get('new') or '–'}"
            for item in self.row.summary.get("loosens", [])
        ]


def in_view(visible: frozenset[str] | None) -> QuerySet[Approval]:
    rows = Approval.objects.prefetch_related("votes")
    if visible is None:
        return rows
    ids = Cluster.objects.filter(name__in=visible, removed_at=None).values("pk")
    return rows.filter(cluster_id__in=ids)


def pending(visible: frozenset[str] | None, person: str, may: May, now: datetime) -> list[Request]:
    """The oldest first: it expires first."""
    rows = list(in_view(visible).filter(state=Approval.PENDING).order_by("expires_at", "pk"))
    return _requests(rows, person, may, now)


def decided(visible: frozenset[str] | None, person: str, may: May, now: datetime) -> list[Request]:
    """The newest first."""
    rows = in_view(visible).exclude(state=Approval.PENDING).order_by("-decided_at", "-pk")
    return _requests(list(rows[:DECIDED]), person, may, now)


def one(pk: int, visible: frozenset[str] | None, person: str, may: May, now: datetime) -> Request | None:
    return next(iter(_requests(list(in_view(visible).filter(pk=pk)), person, may, now)), None)


def _requests(rows: list[Approval], person: str, may: May, now: datetime) -> list[Request]:
    clusters = dict(Cluster.objects.filter(pk__in={row.cluster_id for row in rows}).values_list("pk", "name"))
    current = ballots.hashes(row for row in rows if row.state == Approval.PENDING)
    found = []
    for row in rows:
        cluster = clusters.get(row.cluster_id or 0, "")
        votes = sorted(row.votes.all(), key=lambda vote: vote.at)
        about, number = ballots.thing(row)
        said = _refusal(row, votes, person, may, cluster, current.get(row.pk), now)
        found.append(Request(row, cluster, title_of(row.summary, row.subject), about, number, votes, said))
    return found


def right_for(row: Approval) -> str:
    """A looser policy takes who sets policies."""
    return POLICY if row.kind == approvals.LOOSEN else APPROVE


def _refusal(
    row: Approval, votes: list[ApprovalVote], person: str, may: May, cluster: str, current: str | None, now: datetime
) -> str:
    if row.state != Approval.PENDING:
        return words.word(words.APPROVAL_STATES, row.state)
    right = right_for(row)
    if not may(right, cluster):
        role = "policy" if right == POLICY else "approver"
        if not cluster:
            return _("Needs the role %(role)s for the whole site.") % {"role": role}
        return _("Needs the role %(role)s in cluster %(cluster)s.") % {"role": role, "cluster": cluster}
    asked = approvals.Ask(row.plan_hash, row.requested_by, row.needed, row.expires_at)
    told = [approvals.Vote(vote.by, vote.yes) for vote in votes]
    return approvals.may_vote(asked, told, person, row.plan_hash if current is None else current, now)


def title_of(summary: dict[str, Any], subject: str) -> str:
    """What is asked for, as a title."""
    if summary.get("action"):
        return title_of_batch(str(summary["action"]), int(summary.get("count", 0)), str(summary.get("playbook", "")))
    playbook, node = str(summary.get("playbook", "")), str(summary.get("node", ""))
    if playbook.startswith("manual-"):
        return f"{words.word(words.VERBS, playbook.removeprefix('manual-').replace('-', '_'))} {node}"
    if playbook:
        return _("%(playbook)s on %(node)s") % {"playbook": playbook.capitalize(), "node": node}
    if summary.get("version"):
        return _("Policy %(version)s") % {"version": summary["version"]}
    return subject


def title_of_batch(action: str, count: int, playbook: str) -> str:
    """Of one action, or one playbook (`NAME@VERSION`), on many nodes."""
    if playbook:
        named = {"playbook": playbook.partition("@")[0], "n": count}
        return ngettext("Playbook %(playbook)s on %(n)s node", "Playbook %(playbook)s on %(n)s nodes", count) % named
    verb = words.word(words.VERBS, action)
    return ngettext("%(verb)s %(n)s node", "%(verb)s %(n)s nodes", count) % {"verb": verb, "n": count}
