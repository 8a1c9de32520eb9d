"""Reads caps, claims and the kill switch, and counts who is out.

Decides what counts as unavailable: out for any reason, people's cordons and unknown verdicts included. Writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Avg, F

from fleet.health.models import Verdict
from fleet.inventory.models import Node
from fleet.policy.models import Cap, Claim, Switch
from fleet.policy.rules import FLEET, IN_FLIGHT, SCOPES, TAKE_OUT, CapRule, Place, ScopeKey, Tally

USUAL = {"hold": timedelta(minutes=30), "take_out": timedelta(minutes=20), "in_flight": timedelta(minutes=10)}
NODE_FIELDS = (
    "pk", "name", "cluster_id", "cluster__name", "pool__name", "rack", "leaf", "nvlink_domain", "pods",
    "foreign_hold", "ready", "verdict_row__verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every managed node's place, and who is out although no workflow of ours took it out."""

    places: dict[int, Place]
    cluster_of: dict[int, int]
    tally: Tally


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
            found[cap.kind, cap.scope] = CapRule(cap.kind, cap.scope, cap.absolute, cap.percent)
    return sorted(found.values(), key=lambda cap: SCOPES.index(cap.scope) if cap.scope in SCOPES else 99, reverse=True)


def stopped() -> Switch | None:
    """The kill switch's row while it is on."""
    return Switch.objects.filter(stopped=True).first()


def scopes_of(cluster: str, pool: str | None, rack: str, leaf: str, nvlink: str) -> tuple[ScopeKey, ...]:
    """The scopes of a node. Keys carry the cluster's name: two clusters' racks of one name are two racks."""
    inside = (("pool", pool or ""), ("rack", rack), ("leaf", leaf), ("nvlink", nvlink))
    return (FLEET, ("cluster", cluster, cluster), *((scope, cluster, key) for scope, key in inside if key))


def read_fleet(now: datetime, out_states: Iterable[str]) -> Fleet:
    """Places and counts of the whole fleet in four queries. `out_states` are the lifecycle states that mean out."""
    places: dict[int, Place] = {}
    cluster_of: dict[int, int] = {}
    sizes: Counter[ScopeKey] = Counter()
    out: list[int] = []
    out_states = frozenset(out_states)
    rows = Node.objects.filter(managed=True, gone_at=None).values_list(*NODE_FIELDS, "lifecycle__state")
    for pk, name, cluster_id, cluster, pool, rack, leaf, nvlink, pods, foreign, ready, verdict, state in rows:
        place = Place(pk, name, scopes_of(cluster, pool, rack, leaf, nvlink), serves=pods > 0)
        places[pk], cluster_of[pk] = place, cluster_id
        sizes.update(place.scopes)
        unseen = verdict in (None, Verdict.UNKNOWN, Verdict.LOST)
        if foreign or not ready or unseen or state in out_states:
            out.append(pk)
    tally = Tally(sizes)
    for pk in out:
        tally.add(TAKE_OUT, places[pk])
    _count_claims(tally, places, now)
    return Fleet(places, cluster_of, tally)


def _count_claims(tally: Tally, places: dict[int, Place], now: datetime) -> None:
    usual = usual_durations()
    for kind, node_id, claimed_at in Claim.objects.filter(released_at=None).values_list(
        "kind", "node_id", "claimed_at"
    ):
        place = places.get(node_id)
        if place is None:
            continue
        tally.add(kind, place)
        clears = claimed_at + usual[kind]
        for key in place.scopes:
            known = tally.clears_at.get((kind, key))
            if clears > now and (known is None or clears < known):
                tally.clears_at[kind, key] = clears


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
            limit = cap.limit(fleet.tally.sizes.get(key, 0)) if key[0] == cap.scope else None
            if limit is None:
                continue
            names = tuple(sorted(fleet.tally.used(cap.kind, key).values()))
            found.append(CapUsage(cap.kind, cap.scope, key[2], len(names), limit, names))
    return found


def in_flight_claim(workflow_id: int, kind: str = IN_FLIGHT) -> bool:
    return Claim.objects.filter(workflow_id=workflow_id, kind=kind, released_at=None).exists()
