"""Reads limits, claims, windows and what halts a cluster, and counts who is out.

Decides what counts as unavailable: out for any reason, people's cordons and unknown verdicts included. Writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Avg, F, Max, Q

from fleet.health.models import Verdict
from fleet.inventory.models import Node
from fleet.policy import breaker, windows
from fleet.policy.document import in_order
from fleet.policy.models import Breaker, BreakerRule, Cap, Claim, RoleCap, Switch, Window
from fleet.policy.rules import FLEET, IN_FLIGHT, TAKE_OUT, CapRule, Decision, Place, ScopeKey, Tally

STOPPED_ASKS = timedelta(minutes=5)
USUAL = {"hold": timedelta(minutes=30), "take_out": timedelta(minutes=20), "in_flight": timedelta(minutes=10)}
NODE_FIELDS = (
    "pk", "name", "cluster_id", "cluster__name", "pool__name", "rack", "leaf", "nvlink_domain", "pods",
    "foreign_hold", "ready", "verdict_row__verdict", "tenant",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every managed node's place, and who is out although no workflow of ours took it out."""

    places: dict[int, Place]
    cluster_of: dict[int, int]
    tally: Tally


ANY_HALT = """SELECT EXISTS (SELECT FROM policy_switch WHERE stopped)
                  OR EXISTS (SELECT FROM policy_breaker WHERE cluster_id = %s AND state <> %s)"""


@dataclass(frozen=True, slots=True)
class CapUsage:
    kind: str
    scope: str
    key: str
    used: int
    limit: int
    names: tuple[str, ...]


def caps_of(cluster_id: int) -> list[CapRule]:
    """The cluster's caps; a cap of its own replaces the default of the same kind and scope."""
    found: dict[tuple[str, str], CapRule] = {}
    for cap in Cap.objects.filter(cluster_id__isnull=True) | Cap.objects.filter(cluster_id=cluster_id):
        if cap.cluster_id is not None or (cap.kind, cap.scope) not in found:
            found[cap.kind, cap.scope] = CapRule(cap.kind, cap.scope, cap.absolute, cap.percent, cap.window)
    return in_order(found.values())


def role_caps() -> dict[str, int]:
    """Role -> nodes that one action may touch, where the installation says something else than usual."""
    return dict(RoleCap.objects.values_list("role", "nodes"))


def stopped() -> Switch | None:
    """The kill switch's row while it is on."""
    return Switch.objects.filter(stopped=True).first()


def told(switch: Switch, now: datetime) -> Decision:
    """What the thrown switch answers to everybody."""
    text = f"All new disruption was stopped by {switch.by}: {switch.reason or 'no reason was given yet'}."
    return Decision("stopped", text.replace("..", "."), now + STOPPED_ASKS)


def halt(cluster_id: int, now: datetime) -> Decision | None:
    """What stops all new disruption in the cluster: the kill switch, or its breaker. None when nothing does."""
    with connection.cursor() as cursor:  # asked between any two evictions, and hardly ever answered with yes
        cursor.execute(ANY_HALT, [cluster_id, Breaker.CLOSED])
        if not cursor.fetchone()[0]:
            return None
    switch = stopped()
    return told(switch, now) if switch is not None else open_breaker(cluster_id, now)


def open_breaker(cluster_id: int, now: datetime) -> Decision | None:
    """What the cluster's breaker says while it is open or cools down; None while it is closed."""
    row = Breaker.objects.filter(cluster_id=cluster_id).exclude(state=Breaker.CLOSED).first()
    if row is None or (row.state == Breaker.COOLING and row.until is not None and row.until <= now):
        return None
    if row.state == Breaker.COOLING:
        return Decision("breaker", f"The breaker was reset by {row.by} and cools down: {row.text}", row.until)
    return Decision("breaker", f"The breaker is open since {row.since:%H:%M} UTC: {row.text}", now + STOPPED_ASKS)


def breaker_rule(cluster_id: int) -> breaker.TripRule:
    """The cluster's own rule, else the default one."""
    rows = BreakerRule.objects.filter(cluster_id=cluster_id) | BreakerRule.objects.filter(cluster_id__isnull=True)
    row = rows.order_by(F("cluster_id").asc(nulls_last=True)).first()
    return as_trip_rule(row) if row else breaker.TripRule()


def as_trip_rule(row: BreakerRule) -> breaker.TripRule:
    return breaker.TripRule(**{name: getattr(row, name) for name in breaker.TripRule.__dataclass_fields__})


def held_lately(cluster_id: int, since: datetime) -> dict[int, int]:
    """Workflows that were granted a hold since then, with their nodes, whether or not those are held still."""
    rows = Claim.objects.filter(cluster_id=cluster_id, kind="hold", claimed_at__gt=since)
    return dict(rows.values_list("workflow_id", "node_id"))


def windows_of(cluster_id: int) -> list[windows.Window]:
    """Freezes and openings that concern the cluster."""
    rows = Window.objects.filter(cluster_id=cluster_id) | Window.objects.filter(cluster_id__isnull=True)
    return [as_window(row) for row in rows]


def as_window(row: Window) -> windows.Window:
    days = frozenset(int(day) for day in row.days if day.isdigit())
    return windows.Window(
        row.kind, row.name, row.zone, days, row.start, row.minutes, row.pool, row.begins, row.ends, row.urgent_passes
    )


def scopes_of(
    cluster: str, pool: str | None, rack: str, leaf: str, nvlink: str, tenant: str = ""
) -> tuple[ScopeKey, ...]:
    """The scopes of a node. Keys carry the cluster's name: two clusters' racks of one name are two racks."""
    inside = (("tenant", tenant), ("pool", pool or ""), ("rack", rack), ("leaf", leaf), ("nvlink", nvlink))
    return (FLEET, ("cluster", cluster, cluster), *((scope, cluster, key) for scope, key in inside if key))


def read_fleet(now: datetime, out_states: Iterable[str]) -> Fleet:
    """Places and counts of the whole fleet in four queries. `out_states` are the lifecycle states that mean out."""
    places: dict[int, Place] = {}
    cluster_of: dict[int, int] = {}
    sizes: Counter[ScopeKey] = Counter()
    out: list[int] = []
    out_states = frozenset(out_states)
    there = Q(gone_at=None) | Q(lifecycle__state__in=out_states)  # one that we install anew may be gone meanwhile
    rows = Node.objects.filter(there, managed=True).values_list(*NODE_FIELDS, "lifecycle__state")
    for pk, name, cluster_id, cluster, pool, rack, leaf, nvlink, pods, foreign, ready, verdict, tenant, state in rows:
        scopes = scopes_of(cluster, pool, rack, leaf, nvlink, tenant)
        place = Place(pk, name, scopes, serves=pods > 0, ready=ready is True)
        places[pk], cluster_of[pk] = place, cluster_id
        sizes.update(place.scopes)
        unseen = verdict in (None, Verdict.UNKNOWN, Verdict.LOST)
        if foreign or not ready or unseen or state in out_states:
            out.append(pk)
    tally = Tally(sizes)
    for pk in out:
        tally.add(TAKE_OUT, places[pk])
    _count_claims(tally, places, now)
    _count_begun(tally, places, now)
    return Fleet(places, cluster_of, tally)


def _count_claims(tally: Tally, places: dict[int, Place], now: datetime) -> None:
    """A node that left the managed set, or was relabelled, in the middle of its repair makes no room by that."""
    usual = usual_durations()
    rows = list(Claim.objects.filter(released_at=None).values_list("kind", "node_id", "claimed_at"))
    gone = _places_of_gone({node_id for _, node_id, _ in rows if node_id not in places})
    for kind, node_id, claimed_at in rows:
        place = places.get(node_id) or gone.get(node_id)
        if place is None:
            continue
        tally.add(kind, place)
        if kind != IN_FLIGHT:  # who came later may be under its verb all the same; who is not gives its share back
            tally.shares[kind, node_id] = claimed_at
        clears = claimed_at + usual[kind]
        for key in place.scopes:
            known = tally.clears_at.get((kind, key))
            if clears > now and (known is None or clears < known):
                tally.clears_at[kind, key] = clears


def _count_begun(tally: Tally, places: dict[int, Place], now: datetime) -> None:
    """Disruptive verbs begun within the longest window of any rate; nothing is read while there is no rate."""
    longest = Cap.objects.filter(kind="rate").aggregate(longest=Max("window"))["longest"]
    if longest is None:
        return
    since = now - timedelta(seconds=longest)
    begun = list(Claim.objects.filter(kind=IN_FLIGHT, claimed_at__gt=since).values_list("node_id", "claimed_at"))
    gone = _places_of_gone({node_id for node_id, _ in begun if node_id not in places})
    for node_id, at in begun:
        place = places.get(node_id) or gone.get(node_id)
        if place is not None:
            tally.begin(place, at)


def _places_of_gone(node_ids: set[int]) -> dict[int, Place]:
    """Where nodes stood that have left or are not managed any more: what was done to them counts all the same."""
    if not node_ids:
        return {}
    fields = ("pk", "name", "cluster__name", "pool__name", "rack", "leaf", "nvlink_domain", "tenant")
    rows = Node.objects.filter(pk__in=node_ids).values_list(*fields)
    return {pk: Place(pk, name, scopes_of(*scopes)) for pk, name, *scopes in rows}


def usual_durations() -> dict[str, timedelta]:
    """How long a claim of each kind usually lasts: the mean of what was released, else a stated guess."""
    done = (
        Claim.objects.filter(released_at__isnull=False)
        .values("kind")
        .annotate(mean=Avg(F("released_at") - F("claimed_at")))
        .values_list("kind", "mean")
    )
    return {**USUAL, **{kind: mean for kind, mean in done if mean}}


def cap_usage(fleet: Fleet, node_id: int, caps: Iterable[CapRule]) -> list[CapUsage]:
    """Each cap that `node_id` counts against, with who uses it."""
    place = fleet.places.get(node_id)
    if place is None:
        return []
    found = []
    for cap in caps:
        for key in place.scopes:
            limit = cap.limit(fleet.tally.sizes.get(key, 0)) if key[0] == cap.scope and cap.kind in USUAL else None
            if limit is None:
                continue
            names = tuple(sorted(fleet.tally.used(cap.kind, key).values()))
            found.append(CapUsage(cap.kind, cap.scope, key[2], len(names), limit, names))
    return found


def in_flight_claim(workflow_id: int) -> bool:
    return Claim.objects.filter(workflow_id=workflow_id, kind=IN_FLIGHT, released_at=None).exists()
