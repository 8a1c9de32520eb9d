"""What a changed policy would do: to those that wait now, to those that are out now, and to the last thirty days.

Decides by the guards' own function on the present counts; of the past it knows the claims, not who was out for other
reasons, so it says how many claims would have met a full cap at their moment. Reads only. Refuses to guess about rates
of the past beyond its window and about floors: those need counts that are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.inventory.selectors import active_clusters
from fleet.lifecycle.grants import GUARD_CODES
from fleet.lifecycle.machine import OUT_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import CLAIMS
from fleet.policy import selectors
from fleet.policy.document import LEVELS, Policy
from fleet.policy.models import Claim
from fleet.policy.rules import IN_FLIGHT, Place, ScopeKey, Tally, decide
from fleet.readmodels.policy_page import Use, use_of

DAYS = 30
MOST_CLAIMS = 50_000
CAP_CODES = tuple(code for code in GUARD_CODES if code.startswith("cap_") or code in ("rate", "floor", "asking"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workflow that a limit keeps. `text` is why it would still wait, "" if it would go on."""

    workflow: Workflow
    before: str
    text: str


@dataclass(frozen=True, slots=True)
class Effects:
    """`over`: scopes in which more are out than the new limit allows; nobody is put back, nobody follows either."""

    waiting: list[Waiting]
    over: list[Use]
    claims: int  # of the last thirty days, as far as they were read
    blocked_before: int
    blocked_after: int

    @property
    def freed(self) -> list[Waiting]:
        return [one for one in self.waiting if one.before and not one.text]


def read(old: Policy, new: Policy, visible: frozenset[str] | None, now: datetime) -> Effects:
    fleet = selectors.read_fleet(now, OUT_STATES)
    names = dict(active_clusters().values_list("pk", "name"))
    shown = {node for node, pk in fleet.cluster_of.items() if visible is None or names.get(pk) in visible}
    claims, before, after = _past(old, new, fleet.places, fleet.tally.sizes, now)
    return Effects(_waiting(old, new, fleet, shown, names, now), _over(new, fleet, shown, now), claims, before, after)


def _waiting(
    old: Policy, new: Policy, fleet: selectors.Fleet, shown: set[int], names: dict[int, str], now: datetime
) -> list[Waiting]:
    """Everybody whom a limit keeps, in the order in which grants are made; who is let through counts for the next."""
    rows = Workflow.objects.filter(state=WorkflowState.BLOCKED, blocked_code__in=CAP_CODES, node__in=shown)
    rows = rows.select_related("node", "cluster").order_by("-step", "created_at", "pk")
    found = []
    tallies = {True: _copy(fleet.tally), False: _copy(fleet.tally)}
    for workflow in rows:
        kind, place = CLAIMS.get(workflow.verb), fleet.places.get(workflow.node_id)
        if kind is None or place is None:
            continue
        said = {}
        for newer, policy in ((False, old), (True, new)):
            decision = decide(kind, place, policy.caps(names[workflow.cluster_id]), tallies[newer], now)
            said[newer] = decision.text
            if decision.allowed:
                tallies[newer].add(kind, place)
                if kind == IN_FLIGHT:
                    tallies[newer].begin(place, now)
        found.append(Waiting(workflow, said[False], said[True]))
    return found


def _copy(tally: Tally) -> Tally:
    members = {key: dict(nodes) for key, nodes in tally.members.items()}
    return Tally(tally.sizes, members, dict(tally.clears_at), {key: list(at) for key, at in tally.begun.items()})


def _over(new: Policy, fleet: selectors.Fleet, shown: set[int], now: datetime) -> list[Use]:
    rules = {cluster: new.limits(cluster) for cluster in {key[1] for key in fleet.tally.sizes}}
    found = []
    for key in fleet.tally.sizes:
        for rule in rules[key[1]].values():
            use = use_of(rule, key, fleet, shown, now) if rule.scope == key[0] else None
            if use is not None and (use.used < use.limit if use.floor else use.used > use.limit):
                found.append(use)
    return sorted(found, key=lambda use: (use.scope, use.cluster, use.key))


def _past(
    old: Policy, new: Policy, places: dict[int, Place], sizes: Mapping[ScopeKey, int], now: datetime
) -> tuple[int, int, int]:
    """(claims, those that would have met a full cap under the old policy, under the new one)."""
    rows = list(
        Claim.objects.filter(claimed_at__gt=now - timedelta(days=DAYS), kind__in=LEVELS)
        .order_by("-claimed_at")
        .values_list("claimed_at", "released_at", "kind", "node_id")[:MOST_CLAIMS]
    )
    tally = Tally(sizes)
    moments = sorted(
        [(at, 1, kind, node) for at, _, kind, node in rows]
        + [(until, 0, kind, node) for _, until, kind, node in rows if until is not None],
        key=lambda moment: (moment[0], moment[1]),
    )
    blocked = [0, 0]
    caps = {
        name: ([c for c in old.caps(name) if c.kind in LEVELS], [c for c in new.caps(name) if c.kind in LEVELS])
        for name in {place.scopes[1][1] for place in places.values()}
    }
    for _, begins, kind, node in moments:
        place = places.get(node)
        if place is None:
            continue
        if not begins:
            for key in place.scopes:
                tally.members.get((kind, key), {}).pop(node, None)
            continue
        for index, rules in enumerate(caps[place.scopes[1][1]]):
            blocked[index] += not decide(kind, Place(node, place.name, place.scopes), rules, tally, now).allowed
        tally.add(kind, place)
    return len(rows), blocked[0], blocked[1]
