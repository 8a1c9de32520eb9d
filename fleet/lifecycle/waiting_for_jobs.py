"""When a job's end or its next checkpoint is worth waiting for.

Decides, over the work on one node, at which moment stopping it costs the fewest GPU-hours: work done since the last
checkpoint is lost, and waiting costs the GPUs that stand idle on a held node and what a degraded node takes from its
gang. Pure. Refuses to wait for what nothing announces, and beyond the limit that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleet.lifecycle.playbook_file import seconds
from fleet.ports.cluster import PodSeen

SAVED, INTERVAL, END = "muster.dev/last-checkpoint", "muster.dev/checkpoint-interval", "muster.dev/expected-end"
"""Annotations of a pod that its owner, or whatever watches its checkpoints, may write: two times and a duration."""
WRITING = timedelta(seconds=60)
"""An announced checkpoint is taken to be on disk a minute after it was due; one that is told of is there already."""
WORTH = 0.1
"""GPU-hours that a wait must save: less is not worth keeping a node for."""
DRAG = 0.1
"""Share of its gang's GPUs that a degraded node is taken to cost for each hour that it stays. Our choice: the slowest
rank sets the pace of all, and a node on its way out may stop them at any time."""
_SKEW = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Work:
    """One gang, or one pod of its own. `saved_at`: work before it is safe; `sure`: a checkpoint was told of.

    `gpus` of the whole gang; `interval` seconds; `odd` names an annotation that cannot be read.
    """

    name: str
    gpus: int
    saved_at: datetime
    sure: bool = False
    interval: float | None = None
    ends_at: datetime | None = None
    odd: str = ""

    def next_save(self, now: datetime) -> datetime | None:
        """The first announced checkpoint that is not on disk yet."""
        if not self.interval:
            return None
        passed = (now - WRITING - self.saved_at).total_seconds()
        return self.saved_at + timedelta(seconds=self.interval * max(1, math.floor(passed / self.interval) + 1))

    def lost(self, at: datetime, now: datetime) -> float:
        """GPU-hours of work that stopping it at `at` loses, as known at `now`."""
        if self.ends_at is not None and at >= self.ends_at:
            return 0.0
        saved, due = self.saved_at, self.next_save(now)
        if self.interval and due is not None and at >= due + WRITING:
            more = math.floor((at - due - WRITING).total_seconds() / self.interval)
            saved = due + timedelta(seconds=self.interval * more)
        return self.gpus * max(0.0, (at - saved).total_seconds()) / 3600

    def rests(self, now: datetime) -> list[tuple[datetime, str]]:
        """The moments at which it could be stopped with little loss, each with its word."""
        due = self.next_save(now)
        found = [(due + WRITING, "checkpoint")] if due is not None else []
        return found + ([(self.ends_at, "end")] if self.ends_at is not None and self.ends_at > now else [])


@dataclass(frozen=True, slots=True)
class Sum:
    """GPU-hours: stopping the work now, stopping it at `at`, and what the wait costs. `at` None: now is best."""

    now: float
    at: datetime | None = None
    then: float = 0.0
    waiting: float = 0.0
    name: str = ""
    what: str = ""

    @property
    def saves(self) -> float:
        return self.now - self.then - self.waiting if self.at else 0.0


def weigh(work: Sequence[Work], idle: int, degraded: bool, now: datetime, latest: datetime) -> Sum:
    """The best moment between now and `latest`. `idle` GPUs of the node have no work and get none while it is held."""
    lost_now = sum(one.lost(now, now) for one in work)
    toll = idle + (DRAG * sum(one.gpus for one in work) if degraded else 0.0)
    best = Sum(lost_now)
    for one in work:
        for at, what in one.rests(now):
            if not now < at <= latest:
                continue
            waiting = toll * (at - now).total_seconds() / 3600
            found = Sum(lost_now, at, sum(other.lost(at, now) for other in work), waiting, one.name, what)
            if found.saves >= WORTH and found.saves > best.saves:
                best = found
    return best


def sentence(best: Sum, work: Sequence[Work], latest: datetime) -> str:
    """What is waited for and what it is worth, for the person who reads the page."""
    gpus = sum(one.gpus for one in work)
    word = "checkpoint" if best.what == "checkpoint" else "end"
    return (
        f"Waits for the {word} of {best.name}, expected at {best.at:%H:%M} UTC. Stopping its work now loses "
        f"{best.now:.1f} GPU-h ({gpus} GPUs, {_since(work)}); then {best.then:.1f} GPU-h, and waiting costs "
        f"{best.waiting:.1f} GPU-h. Not longer than until {latest:%H:%M} UTC."
    )


def unannounced(work: Sequence[Work], best: Sum) -> str:
    """What stopping it now loses, where there is nothing worth waiting for; "" without GPUs at work."""
    holding = [one for one in work if one.gpus]
    if not holding:
        return ""
    odd = f" {holding[0].odd}" if holding[0].odd else ""
    sure = "" if all(one.sure for one in holding) else "up to "
    return f"Stopping its work now loses {sure}{best.now:.1f} GPU-h ({_since(holding)}).{odd}"


def _since(work: Sequence[Work]) -> str:
    oldest = min(work, key=lambda one: one.saved_at)
    told = "last checkpoint" if oldest.sure else "no checkpoint is told of, running"
    return f"{told} {'at' if oldest.sure else 'since'} {oldest.saved_at:%H:%M} UTC"


def work_of(
    pods: Iterable[PodSeen],
    spread: Mapping[str, int],
    whole_node: int,
    now: datetime,
    elsewhere: Iterable[PodSeen] = (),
) -> list[Work]:
    """The work on a node, gang by gang. `spread` tells on how many nodes a gang runs, which scales its GPUs here;
    `whole_node` stands in for a pod that asks by resource claims, whose GPUs are not told. `elsewhere` are the gangs'
    pods on other nodes: often one rank alone tells of the checkpoints of all."""
    groups: dict[str, list[PodSeen]] = {}
    for pod in pods:
        groups.setdefault(pod.gang or pod.key, []).append(pod)
    others: dict[str, list[PodSeen]] = {}
    for pod in elsewhere:
        others.setdefault(pod.gang, []).append(pod)
    return [
        _work(name, group, others.get(name, []), max(1, spread.get(name, 1)), whole_node, now)
        for name, group in groups.items()
    ]


def _work(
    name: str, here_pods: Sequence[PodSeen], others: Sequence[PodSeen], nodes: int, whole_node: int, now: datetime
) -> Work:
    here = sum(pod.gpus for pod in here_pods)
    if not here and any(pod.claims for pod in here_pods):
        here = whole_node
    pods = [*here_pods, *others]
    odd: list[str] = []
    saved = [at for pod in pods if (at := _time(pod, SAVED, odd)) and at <= now + _SKEW]
    lengths = [length for pod in pods if (length := _length(pod, odd))]
    ends = [at for pod in pods if (at := _time(pod, END, odd) or pod.ends_at)]
    begun = min((pod.started_at for pod in pods if pod.started_at), default=now)
    interval = min(lengths, default=None)
    since = min(max(saved), now) if saved else begun
    if interval and not saved:  # only the pace is told: its checkpoints are counted from the start
        steps = math.floor(max(0.0, (now - WRITING - begun).total_seconds()) / interval)
        since = begun + timedelta(seconds=interval * steps)
    end = max(ends, default=None)
    sure = bool(saved) or since > begun
    return Work(name, here * nodes, since, sure, interval, end, odd[0] if odd else "")


def _time(pod: PodSeen, key: str, odd: list[str]) -> datetime | None:
    """RFC 3339 or seconds since 1970."""
    value = pod.annotations.get(key, "").strip()
    if not value:
        return None
    try:
        if value.replace(".", "", 1).isdigit():
            return datetime.fromtimestamp(float(value), UTC)
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        odd.append(f"Its annotation {key} is no time: {value[:40]!r}.")
        return None


def _length(pod: PodSeen, odd: list[str]) -> float | None:
    value = pod.annotations.get(INTERVAL, "").strip()
    found = seconds(value) if value else None
    if value and found is None:
        odd.append(f"Its annotation {INTERVAL} is no duration: {value[:40]!r}.")
    return found
