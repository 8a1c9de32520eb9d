"""Two axes that pull apart: how much of the GPUs works, and how long gangs wait, over one time axis.

Decides geometry, ticks and the sentence that stands for the picture. Refuses to join what lies on both sides of a gap.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from dashboard import spans
from fleet.readmodels.queue_minutes import Bucket

WIDTH, HEIGHT = 720.0, 120.0
Y_TICKS = 2
NICE = (60, 300, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 72 * 3600, 168 * 3600)


@dataclass(frozen=True, slots=True)
class Tick:
    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Pulling:
    """Path data of areas and lines; the y ticks of both panels; the x ticks that both share."""

    works: str
    held: str
    median: str
    longest: str
    top_wait: str
    share_ticks: tuple[Tick, ...]
    wait_ticks: tuple[Tick, ...]
    nodes_ticks: tuple[Tick, ...]
    packed: str
    whole: str
    times: tuple[Tick, ...]
    text: str


def draw(buckets: Sequence[Bucket], since: datetime, until: datetime, step: timedelta) -> Pulling | None:
    """None where nothing was recorded."""
    if not buckets:
        return None
    runs = _runs(buckets, step)
    across = _across(since, until)
    top = _top(max((one.longest or 0.0) for one in buckets))
    most = max(1.0, *(max(one.free_nodes, one.packed_nodes) for one in buckets))

    def share(value: float) -> float:
        return HEIGHT * (1 - min(1.0, value))

    def wait(value: float) -> float:
        return HEIGHT * (1 - min(1.0, value / top))

    def nodes(value: float) -> float:
        return HEIGHT * (1 - value / most)

    return Pulling(
        works=_areas(runs, across, lambda _one: HEIGHT, lambda one: share(one.works), step),
        held=_areas(runs, across, lambda one: share(one.works), lambda one: share(one.works + one.held), step),
        median=_line(runs, across, lambda one: None if one.median is None else wait(one.median)),
        longest=_line(runs, across, lambda one: None if one.longest is None else wait(one.longest)),
        top_wait=spans.span(top),
        share_ticks=tuple(Tick(share(part), f"{part:.0%}") for part in (0.0, 0.5, 1.0)),
        wait_ticks=tuple(Tick(wait(top * n / Y_TICKS), spans.span(top * n / Y_TICKS)) for n in range(Y_TICKS + 1)),
        nodes_ticks=(Tick(HEIGHT, "0"), Tick(0.0, f"{most:,.0f}")),
        packed=_line(runs, across, lambda one: nodes(one.packed_nodes)),
        whole=_line(runs, across, lambda one: nodes(one.free_nodes)),
        times=_times(since, until, across),
        text=said(buckets),
    )


def said(buckets: Sequence[Bucket]) -> str:
    """The picture in one sentence: both means, and both at the end."""
    works = sum(one.works for one in buckets) / len(buckets)
    held = sum(one.held for one in buckets) / len(buckets)
    longest = max((one.longest or 0.0) for one in buckets)
    last = buckets[-1]
    facts = {
        "mean": f"{works:.0%}", "held": f"{held:.0%}", "now": f"{last.works:.0%}", "longest": spans.span(longest),
        "wait": spans.span(last.median) if last.median is not None else _("none"),
    }  # fmt: skip
    return (
        _(
            "On average %(mean)s of the GPUs worked and %(held)s were held for nothing; at the end %(now)s worked. "
            "The longest wait was %(longest)s; the median wait at the end is %(wait)s."
        )
        % facts
    )


def _runs(buckets: Sequence[Bucket], step: timedelta) -> list[list[Bucket]]:
    found: list[list[Bucket]] = []
    for one in buckets:
        if found and one.at - found[-1][-1].at <= 2 * step:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _across(since: datetime, until: datetime) -> Callable[[datetime], float]:
    whole = max(1.0, (until - since).total_seconds())
    return lambda at: round(WIDTH * min(1.0, max(0.0, (at - since).total_seconds() / whole)), 1)


def _areas(
    runs: Sequence[Sequence[Bucket]],
    across: Callable[[datetime], float],
    low: Callable[[Bucket], float],
    high: Callable[[Bucket], float],
    step: timedelta,
) -> str:
    parts = []
    for run in runs:
        above = [f"{across(one.at)} {high(one):.1f}" for one in run]
        below = [f"{across(one.at)} {low(one):.1f}" for one in reversed(run)]
        end = across(run[-1].at + step)
        parts.append(f"M{'L'.join(above)}L{end} {high(run[-1]):.1f}L{end} {low(run[-1]):.1f}L{'L'.join(below)}Z")
    return "".join(parts)


def _line(
    runs: Sequence[Sequence[Bucket]], across: Callable[[datetime], float], height: Callable[[Bucket], float | None]
) -> str:
    parts = []
    for run in runs:
        pen = "M"
        for one in run:
            y = height(one)
            if y is None:
                pen = "M"
                continue
            parts.append(f"{pen}{across(one.at)} {y:.1f}")
            pen = "L"
        if len(parts) and len(run) == 1 and pen == "L":
            parts.append("h1")
    return "".join(parts)


def _top(longest: float) -> float:
    """A round end of the axis above the longest wait."""
    return float(next((nice for nice in NICE if nice >= longest), longest))


def _times(since: datetime, until: datetime, across: Callable[[datetime], float]) -> tuple[Tick, ...]:
    span = until - since
    every = next(
        (gap for gap in (timedelta(hours=h) for h in (1, 4, 6, 24, 96, 168)) if span / gap <= 7), timedelta(days=7)
    )
    first = since.replace(minute=0, second=0, microsecond=0)
    first = first.replace(hour=0) if every >= timedelta(days=1) else first - timedelta(hours=first.hour % 4)
    ticks = []
    at = first
    while at <= until:
        if at >= since:
            form = "%m-%d" if every >= timedelta(days=1) else "%H:%M"
            ticks.append(Tick(across(at), at.strftime(form)))
        at += every
    return tuple(ticks)
