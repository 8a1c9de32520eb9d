"""Readings of a cluster's fabric managers and exporters, on the observer's event loop.

Decides when each is asked and what of its answer is missing. Links, alarms, counters and the aggregation manager are
four questions: one that fails is a stated problem of the cluster and takes nothing else with it. The waiting happens in
threads; the frame is written here. Refuses to conclude anything from silence: a manager that does not answer says
nothing of any node, and an alarm that was raised stands until it is told to be over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fleet.inventory.targets import FabricSource
from fleet.observer.conditions import Conditions
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.observer.targetlist import TargetList
from fleet.ports.errors import PortError
from fleet.ports.fabric import FabricReader
from fleet.telemetry import fabrictext
from fleet.telemetry.fabricintake import FabricIntake
from fleet.telemetry.fabrictext import SharpSeen, Told
from fleet.telemetry.frame import Frame
from fleet.telemetry.services import Refusal

log = logging.getLogger(__name__)
TICK = 0.5
SHARP_SILENT = 180.0
"""An aggregation manager tells every 60 s; three times that is our choice."""
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Source:
    """One manager or exporter, with what is known of its cables."""

    source: FabricSource
    reader: FabricReader
    intake: FabricIntake
    due: float
    task: asyncio.Task[None] | None = None
    told: Counter[str] = field(default_factory=Counter)  # what of the intake's counts was told


@dataclass(slots=True)
class Fabric:
    session: Session
    frame: Frame
    listed: TargetList
    conditions: Conditions
    refusals: Refusals
    reader: Callable[[FabricSource], FabricReader]
    counts: Counter[str] = field(default_factory=Counter)
    _sources: dict[FabricSource, _Source] = field(default_factory=dict)
    _version: int = -1
    _stated: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until the session ends."""
        while not self.session.stopping():
            self._refresh()
            mono = self.session.clock.monotonic()
            for known in self._sources.values():
                if known.due <= mono and (known.task is None or known.task.done()):
                    known.due = mono + known.source.every
                    known.task = asyncio.create_task(self._read(known))  # a slow one keeps no other waiting
            await asyncio.sleep(TICK)

    async def once(self) -> None:
        """Every source one time."""
        self._refresh()
        for known in self._sources.values():
            await self._read(known)

    def _refresh(self) -> None:
        """The list, or the names that nodes are known by, have changed: cables are joined anew at the next reading."""
        if self._version == self.listed.version:
            return
        self._version = self.listed.version
        mono, ports = self.session.clock.monotonic(), self.listed.targets.ports()
        before, self._sources = self._sources, {}
        for source in self.listed.targets.fabric:
            old = before.get(source)
            if old is None:
                interval = max(source.every, self.session.interval)
                intake = FabricIntake(self.frame, self.listed.resolve, interval, ports)
                self._sources[source] = _Source(source, self.reader(source), intake, mono)
            else:
                old.intake.listed = ports
                self._sources[source] = old
        for code in {code for code in self._stated if not any(code.endswith(s.name) for s in self._sources)}:
            self._mend(code)

    async def _read(self, known: _Source) -> None:
        """One reading. Whatever goes wrong with one costs that one."""
        try:
            await self._questions(known)
            self._unjoined(known)
            self._tell(known)
        except Exception:
            log.exception("what %s told could not be taken", known.source.name)

    async def _questions(self, known: _Source) -> None:
        source, reader, intake = known.source, known.reader, known.intake
        if source.url:
            links = await self._ask(known, "links", reader.links)
            if links is not None:
                intake.know(links.links)
                intake.counts.update(links.refused)
            alarms = await self._ask(known, "alarms", reader.alarms)
            if alarms is not None:
                self.counts["alarms"] += intake.raised(alarms.alarms, *self._now())
                intake.counts.update(alarms.refused)
        if source.telemetry:
            told = await self._ask(known, "counters", lambda: fabrictext.sort_out(reader.telemetry()))
            if told is not None:
                await self._take(known, told)
        if source.sharp:
            seen = await self._ask(known, "sharp", lambda: fabrictext.sharp(reader.sharp()))
            if seen is not None:
                self._sharp(source, seen)

    async def _take(self, known: _Source, told: Told) -> None:
        """Counters, piece by piece, so that a pushed kernel line waits for none of it."""
        intake, samples, (mono, wall) = known.intake, 0, self._now()
        intake.counts.update(told.counts)
        if told.links is not None:
            intake.know(told.links)
        for piece in told.pieces:
            samples += intake.text(piece, mono, wall)
            await asyncio.sleep(0)
        self.counts["samples"] += samples
        code = f"fabric_empty:{known.source.name}"
        if samples or not intake.cables:
            self._mend(code)
        else:
            self._state(code, f"{known.source.name} tells no counter of any port that our cables hang on.")

    async def _ask(self, known: _Source, what: str, question: Callable[[], Answer]) -> Answer | None:
        """The answer, or None and a stated problem."""
        code = f"fabric_{what}:{known.source.name}"
        try:
            answer = await asyncio.to_thread(question)
        except PortError as error:
            self.counts["failed"] += 1
            known.intake.counts[error.code] += 1
            self._state(code, f"The fabric's {what} are not known: {known.source.name} {error}.")
            return None
        except Exception:
            log.exception("the %s of %s could not be read", what, known.source.name)
            self._state(code, f"The fabric's {what} are not known: what {known.source.name} told could not be taken.")
            return None
        self._mend(code)
        return answer

    def _unjoined(self, known: _Source) -> None:
        """Ends of our nodes whose port has no name: their cables have one end only."""
        joined, code = known.intake.joined, f"fabric_cables:{known.source.name}"
        missing = joined.unjoined.total()
        if missing:
            text = f"{missing} cables of {known.source.name} cannot be joined to a port of their node"
            text += f", for example of {joined.example}: list its GUID" if joined.example else ""
            self._state(code, text + ".")
        else:
            self._mend(code)

    def _sharp(self, source: FabricSource, seen: SharpSeen) -> None:
        """The aggregation manager is the fabric's, not a node's: what it lacks is the cluster's to know."""
        now = self.session.clock.now()
        silent = now.timestamp() - seen.at if seen.at is not None else None
        code = f"sharp_stale:{source.name}"
        if seen.at is None and seen.jobs is None and seen.invalid is None:
            self._state(code, f"{source.name} tells nothing of a SHARP aggregation manager.")
        elif silent is not None and silent > SHARP_SILENT:
            self._state(
                code, f"The SHARP aggregation manager of {source.name} has said nothing new for {silent:.0f} s."
            )
        else:
            self._mend(code)
        code = f"sharp_invalid:{source.name}"
        if seen.invalid:
            self._state(code, f"SHARP has {seen.invalid:.0f} aggregation nodes in an invalid state ({source.name}).")
        elif seen.invalid is not None:
            self._mend(code)

    def _tell(self, known: _Source) -> None:
        """What of the answers was refused, to the counters of the cluster."""
        name = known.source.name
        for reason, count in (known.intake.counts - known.told).items():
            self.refusals.add(Refusal("fabric", reason, name), f"What {name} told was refused: {reason}.", count)
        known.told = Counter(known.intake.counts)

    def _now(self) -> tuple[float, float]:
        return self.session.clock.monotonic(), self.session.clock.now().timestamp()

    def _state(self, code: str, text: str) -> None:
        self._stated.add(code)
        self.conditions.state(code, text[:400], self.session.clock.now())

    def _mend(self, code: str) -> None:
        self._stated.discard(code)
        self.conditions.mend(code)
