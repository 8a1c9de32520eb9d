"""Rounds of questions to a cluster's metrics API, on the observer's event loop.

Decides when the API is asked at all: by setting, or where nothing announces an exporter. The waiting and the decoding
happen in threads of the adapter; the frame is written here, one metric in a turn of the loop, so that a pushed kernel
line never waits for more. Refuses to hide trouble: an API that fails or is incomplete is a stated problem of the
cluster, and what it no longer shows grows stale.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleet.health.rules.catalogue import DEFAULTS
from fleet.inventory.models import MetricsSource
from fleet.observer.conditions import Conditions
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.observer.world import World
from fleet.ports.errors import PortError, TemporaryError
from fleet.ports.metrics import MetricsReader, Vector
from fleet.telemetry import promql
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.history import GPU_MEASURES, TRAFFIC
from fleet.telemetry.names import METRICS
from fleet.telemetry.promql import Question
from fleet.telemetry.services import Refusal

log = logging.getLogger(__name__)
TICK, LONGEST_PAUSE = 0.5, 120.0
ALWAYS = (*GPU_MEASURES.values(), *TRAFFIC.values(), "node_time_seconds", "node_boot_time_seconds")


def rule_reads() -> frozenset[str]:
    """What the rules read of exporters, as they stand now."""
    return frozenset(name for rule in DEFAULTS.values() for name in rule.reads if name in METRICS)


@dataclass(slots=True)
class Announced:
    """Whether a pod or the list of targets announces an exporter; None until all pods are known. Cheap to ask again."""

    world: World
    listed: Callable[[], bool] = lambda: False
    _version: int = -1
    _known: bool = False

    def __call__(self) -> bool | None:
        if self.listed():
            return True
        if not self.world.pods_synced.is_set():
            return None
        version = self.world.exporters_version
        if version != self._version:
            self._known, self._version = bool(self.world.exporters()), version
        return self._known


@dataclass(slots=True)
class Querier:
    """`scraped` tells whether there are exporters to scrape; None while that is not known yet."""

    session: Session
    gleaner: Gleaner
    conditions: Conditions
    refusals: Refusals
    reader: Callable[[], MetricsReader | None]
    scraped: Callable[[], bool | None]
    reads: Iterable[str]
    counts: Counter[str] = field(default_factory=Counter)
    rounds: int = 0

    def wanted(self) -> bool:
        cluster = self.session.cluster
        if not cluster.prometheus_url or cluster.metrics_source == MetricsSource.SCRAPE:
            return False
        return cluster.metrics_source == MetricsSource.QUERY or self.scraped() is False

    async def run(self) -> None:
        """Until the session ends."""
        due = self.session.clock.monotonic()
        while not self.session.stopping():
            if self.wanted() and self.session.clock.monotonic() >= due:
                pause = await self.once()
                due = max(due + self.session.interval, self.session.clock.monotonic() + pause)
            await asyncio.sleep(TICK)

    async def once(self) -> float:
        """One round; the least seconds until the next."""
        session = self.session
        try:
            reader = self.reader()
            if reader is None:
                return session.interval
            partial = await self._round(reader)
        except PortError as error:
            self.counts["failed"] += 1
            self.conditions.state("metrics_api", f"{error}"[:400], session.clock.now())
            asked = error.retry_after if isinstance(error, TemporaryError) else None
            return min(asked or session.interval / 2, LONGEST_PAUSE)
        except Exception:
            log.exception("a round of queries failed; it goes on")
            self.conditions.state(
                "metrics_api", "The answers of the metrics API could not be taken.", session.clock.now()
            )
            return session.interval
        finally:
            self._tell_refused()
        if partial:
            text = f"The metrics API answers in part only: {partial}"
            self.conditions.state("metrics_api", text[:400], session.clock.now())
        else:
            self.conditions.mend("metrics_api")
        self.rounds += 1
        return 0.0

    async def _round(self, reader: MetricsReader) -> str:
        """Heartbeats first: whatever is sampled between the two is then younger than it is said to be, not older."""
        clock, gleaner = self.session.clock, self.gleaner
        beats, values = promql.questions({*self.reads, *ALWAYS}, self.session.cluster.prometheus_match)
        answers = await self._ask(reader, beats)
        mono, wall = clock.monotonic(), clock.now().timestamp()
        gleaner.begin(list(zip(beats, answers, strict=True)), mono, wall)
        warnings = [text for answer in answers if answer.partial for text in answer.warnings or ("no reason given",)]
        for question, answer in zip(values, await self._ask(reader, values), strict=True):
            gleaner.take(question, answer)
            if answer.partial:
                warnings += answer.warnings or ("no reason given",)
            await asyncio.sleep(0)
        self.counts["samples"] += gleaner.finish(mono, wall)
        self.counts["queries"] += len(beats) + len(values)
        return warnings[0] if warnings else ""

    async def _ask(self, reader: MetricsReader, questions: list[Question]) -> list[Vector]:
        return await asyncio.to_thread(reader.instants, [question.expression for question in questions])

    def _tell_refused(self) -> None:
        for (reason, who), (count, text) in self.gleaner.take_refused().items():
            self.refusals.add(Refusal("query", reason, who), text, count)
