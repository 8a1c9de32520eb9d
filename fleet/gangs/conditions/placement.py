"""Placement groups that outlived their job, and such as wait for bundles that do not come.

Decides a stale one by Ray's own words: detached, its job over, used by no living actor. Decides a pending one only when
it has been so for a while and no member is on its way, for every start begins with one. Refuses to call a group stale
where the jobs or the actors could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from fleet.gangs.conditions.condition import Condition, found
from fleet.ports.ray import PlacementGroup, RayReading

GRACE = timedelta(seconds=20)
WAITING = ("PENDING", "RESCHEDULING")


def stale(key: str, reading: RayReading) -> Iterator[Condition]:
    if any(word in place for place in reading.unread for word in ("actor", "jobs", "placement_groups")):
        return
    over = {job.id: job.status for job in reading.jobs if job.over}
    for group in reading.placement_groups:
        if group.state == "REMOVED" or not group.detached or group.id in reading.live_actor_groups:
            continue
        if group.job in over:
            yield found(
                "placement_stale",
                key,
                "warning",
                group.name or group.id,
                id=group.id,
                job=group.job,
                status=over[group.job],
                gpus=group.gpus if group.nodes or group.state == "CREATED" else 0,
                state=group.state,
            )


class Waits:
    """Since when placement groups wait, as they were seen. Small: what no longer waits is forgotten with each look."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, datetime]] = {}

    def look(self, key: str, reading: RayReading) -> Mapping[str, datetime]:
        """Ids of those that wait -> since when. A reading that could not ask for them changes nothing."""
        known = self._since.get(key, {})
        if not any("placement_groups" in place for place in reading.unread):
            waiting = (group.id for group in reading.placement_groups if group.state in WAITING)
            known = {id_: known.get(id_, reading.at) for id_ in waiting}
            self._since[key] = known
        return known

    def forget(self, key: str) -> None:
        self._since.pop(key, None)


def pending(
    key: str, reading: RayReading, since: Mapping[str, datetime], *, coming: bool = False
) -> Iterator[Condition]:
    """`coming`: a member of the gang is bound and not ready yet, so the room may be on its way."""
    for group in () if coming else reading.placement_groups:
        begun = since.get(group.id)
        if group.state in WAITING and begun is not None and reading.at - begun >= GRACE:
            yield found(
                "placement_pending",
                key,
                "warning",
                group.name or group.id,
                id=group.id,
                waits=round((reading.at - begun).total_seconds()),
                bundles=len(group.bundles),
                gpus=group.gpus,
                scheduling=group.scheduling or group.state,
            )


def asks_at_once(group: PlacementGroup) -> float:
    """GPUs that it needs on one node: all of them where its bundles must share it, else those of its greediest."""
    if group.strategy == "STRICT_PACK":
        return group.gpus
    return max((amount for bundle in group.bundles for name, amount in bundle if name == "GPU"), default=0.0)
