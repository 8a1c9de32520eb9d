"""The conditions of gangs, watched: found at each look, opened and ended in rows, told to live pages.

Decides what is remembered between two looks (how groups scale, since when placement groups wait and heads are down),
and that a gang of which nothing changed and no clock counts is not judged again. Refuses to end a condition for want of
evidence: while a dashboard does not answer, what it showed last stays open, and says when it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleet.bus.outbox import Notice, publish
from fleet.gangs.board import Board
from fleet.gangs.conditionrows import Changes, ConditionLedger, Same
from fleet.gangs.conditions.condition import Condition, rank
from fleet.gangs.conditions.oscillation import WINDOW, Swings
from fleet.gangs.conditions.placement import WAITING, Waits
from fleet.gangs.conditions.rayfacts import cluster_of
from fleet.gangs.conditions.starvation import deadlocks
from fleet.gangs.conditions.survey import Evidence, of_gang
from fleet.gangs.form import NOT_WANTED, Gang
from fleet.gangs.headsdown import HeadsDown
from fleet.observer.session import Session
from fleet.ports.ray import RayReading

LOOK_EVERY = 4.0
SICK_EVERY = 5.0
UNKNOWN_FOR = timedelta(hours=1)
"""So long a condition stays open of which nothing can be told."""
NAMED_AT_MOST = 20  # gangs named in hints of one look; of more, pages are told that many changed
TOPIC = "gang"
_JOBS, _GROUPS, _TRAIN = ("actors", "jobs", "placement_groups"), ("placement_groups",), ("train",)
BY_READING: Mapping[str, tuple[str, ...]] = {
    "placement_stale": _JOBS,
    "placement_pending": _GROUPS,
    "gpus_of_node": ("nodes",),
    "gpus_infeasible": ("nodes", "placement_groups", "cluster_status"),
    **dict.fromkeys(
        ("train_too_large", "failures_none", "failures_spent", "elastic_missing", "elastic_beyond_max"), _TRAIN
    ),
    **dict.fromkeys(("spot_too_small", "spot_minimum"), _TRAIN),
}
"""Conditions that only a dashboard shows, and the parts of its answer that show them."""
BY_WINDOW = frozenset({"autoscaler_swings", "autoscaler_churns"})
Worker = tuple[str, datetime]  # its group, and when it was made


@dataclass(slots=True)
class _Seen:
    """A gang at the last look: the object itself, which the roster keeps while nothing of it changes."""

    gang: Gang
    ray: bool
    workers: dict[str, Worker] = field(default_factory=dict)
    conditions: list[Condition] | None = None
    sick: tuple[tuple[str, str], ...] = ()


class GangWatch:
    def __init__(
        self,
        session: Session,
        readings: Callable[[], Mapping[str, RayReading]],
        sick: Callable[[], Mapping[str, str]],
        starved: Callable[[Iterable[str]], None],
    ) -> None:
        """`starved` is told which gangs wait although their members are placed."""
        self._session, self._readings, self._sick_now, self._starved = session, readings, sick, starved
        self._ledger = ConditionLedger(session.cluster_id)
        self._heads = HeadsDown(session.cluster_id)
        self._swings, self._waits = Swings(), Waits()
        self._seen: dict[str, _Seen] = {}
        self._read_at: dict[str, datetime] = {}
        self._sick: Mapping[str, str] = {}
        self._sick_at = self._looked_at = float("-inf")
        self._begun_at: datetime | None = None
        self._changes, self._made = Changes(), dict[Same, int]()
        self.conditions: list[Condition] = []  # of the last look, the worst first

    def look(self, board: Board, now: datetime) -> bool:
        """Whether there is something to write. Reads rows once after a start, and faults of nodes now and then."""
        mono = self._session.clock.monotonic()
        if mono - self._looked_at < LOOK_EVERY:
            return False
        if not self._ledger.loaded:
            self._session.once(self._load)
            self._begun_at = now
        if mono - self._sick_at >= SICK_EVERY:
            self._sick, self._sick_at = self._sick_now(), mono
        self._looked_at = mono
        readings = self._readings()
        ray = self._remember(board, readings, now)
        self._heads.look(board, ray, now)
        evidence = Evidence(now, readings, self._sick, self._heads.since, self._swings, self._waits)
        self.conditions = sorted([*deadlocks(board), *self._judged(evidence)], key=rank)
        self._starved(
            one.gang for one in self.conditions
            if one.code == "placement_pending" and board.gangs[one.gang].state in ("running", "starting")
        )  # fmt: skip
        self._changes = self._ledger.compare(self.conditions, self._unknown(board, readings, now), now)
        return bool(self._changes) or self._heads.changed

    def store(self, now: datetime) -> None:
        self._made = self._ledger.store(self._changes, now)
        self._heads.store()
        publish(self._session.cluster_id, self._notices(), now)

    def settle(self, now: datetime) -> None:
        self._ledger.settle(self._changes, self._made, now)
        self._heads.settle()
        self._changes, self._made = Changes(), {}

    def _load(self) -> None:
        self._ledger.load()
        self._heads.load()

    def _notices(self) -> list[Notice]:
        gangs = dict.fromkeys(gang for _, gang, _ in (*self._changes.opened, *self._changes.ended))
        if len(gangs) > NAMED_AT_MOST:
            return [Notice(TOPIC, "")]
        return [Notice(TOPIC, gang[:128]) for gang in gangs]

    # -- what is remembered --------------------------------------------------------------------------------------

    def _remember(self, board: Board, readings: Mapping[str, RayReading], now: datetime) -> list[str]:
        """Feed the windows with what changed; the keys of gangs that are Ray's."""
        for key in [key for key in self._seen if key not in board.gangs]:
            del self._seen[key]
            self._read_at.pop(key, None)
            self._swings.forget(key)
            self._waits.forget(key)
        for key, gang in board.gangs.items():
            known = self._seen.get(key)
            if known is None or known.gang is not gang:
                self._seen[key] = self._scaled(key, gang, known, now)
        for key, reading in readings.items():
            if key in self._seen and self._read_at.get(key) != reading.at and not _unread(reading, _GROUPS):
                self._read_at[key] = reading.at
                waits = any(group.state in WAITING for group in reading.placement_groups)
                self._swings.placement(key, waits, reading.at)
        return [key for key, seen in self._seen.items() if seen.ray]

    def _scaled(self, key: str, gang: Gang, known: _Seen | None, now: datetime) -> _Seen:
        cluster = cluster_of(gang)
        if cluster is None or cluster.ray is None:
            return _Seen(gang, ray=False)
        if not cluster.ray.autoscaling:
            return _Seen(gang, ray=True)
        self._swings.scaled(key, cluster.ray, now)
        workers = {one.uid or one.key: (one.role, one.created_at) for one in gang.members if one.created_at}
        for gone in known.workers.keys() - workers.keys() if known is not None else ():
            role, made = known.workers[gone]  # type: ignore[union-attr]
            self._swings.worker_gone(key, role, made, now)
        return _Seen(gang, ray=True, workers=workers)

    # -- judging -------------------------------------------------------------------------------------------------

    def _judged(self, evidence: Evidence) -> Iterable[Condition]:
        """Gangs of Ray at each look, for their conditions grow with time; others when they or their nodes changed."""
        all_sick = evidence.sick
        for seen in self._seen.values():
            sick = tuple((node, all_sick[node]) for node in seen.gang.nodes if node in all_sick) if all_sick else ()
            if seen.ray or seen.conditions is None or seen.sick != sick:
                seen.sick, seen.conditions = sick, list(of_gang(seen.gang, evidence))
            yield from seen.conditions

    def _unknown(self, board: Board, readings: Mapping[str, RayReading], now: datetime) -> Callable[[Same], bool]:
        begun = self._begun_at or now

        def unknown(same: Same) -> bool:
            code, key, _ = same
            gang = board.gangs.get(key)
            if gang is None or gang.state in NOT_WANTED or now - self._ledger.open[same].at > UNKNOWN_FOR:
                return False
            if code in BY_WINDOW:
                return now - begun < WINDOW
            parts = BY_READING.get(code)
            return parts is not None and (key not in readings or _unread(readings[key], parts))

        return unknown


def _unread(reading: RayReading, parts: Iterable[str]) -> bool:
    return any(part in place for place in reading.unread for part in parts)
