"""What is kept besides judgements: parts, history for charts, counted refusals.

Decides the pace: refusals and parts every few seconds, a sample of the history every ten, whole minutes written once.
Refuses to hold up anything else: it runs in a thread of its own and its loss costs a gap in a chart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fleet.inventory import services as inventory
from fleet.inventory.models import DRIVER
from fleet.inventory.services import DeviceSeen
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.telemetry import history, rollups, services
from fleet.telemetry.frame import Device, Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.services import Refusal

KINDS = {"gpu": "gpu", "port": "hca", "mount": "mount"}
PARTS_EVERY, REFUSALS_EVERY, FORGET_EVERY = 5.0, 5.0, 300.0
FORGET_SECONDS = 4.0
BATCH = 500  # devices in one transaction: a fatal line waits for the lease's row no longer than that takes
PORTION = 200  # devices between two looks at who else wants to compute
LOOK = 20_000  # known devices looked at in one turn: those of ten thousand nodes in a minute and a half


_Told = tuple[int, int, DeviceSeen]  # device, mark, what it tells of itself


@dataclass(slots=True)
class Keeper:
    session: Session
    frame: Frame
    intake: Intake
    refusals: Refusals
    changed: Callable[[set[str]], None]  # nodes whose parts the rules should remember over a restart
    recorder: history.Recorder = field(init=False)
    _at: dict[str, float] = field(default_factory=dict)
    _parts: dict[int, int] = field(default_factory=dict)  # device -> hash of what it told of itself
    _fresh: int = 0  # devices from this one on were never looked at
    _next: int = 0  # of those that were, the next to look at again
    _rejects: dict[int, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = history.Recorder(self.frame, self.session.way.give)

    def turn(self) -> None:
        """Whatever is due."""
        if self._is_due("history", history.SAMPLE_EVERY):
            self.record()
        if self._is_due("parts", PARTS_EVERY):
            self.parts()
        if self._is_due("refusals", REFUSALS_EVERY):
            self.count_refusals()
        if self._is_due("forget", FORGET_EVERY):
            self.forget()

    def _is_due(self, what: str, every: float) -> bool:
        mono = self.session.clock.monotonic()
        if mono - self._at.get(what, float("-inf")) < every:
            return False
        self._at[what] = mono
        return True

    def record(self) -> None:
        session = self.session
        now = session.clock.now()
        self.recorder.sample(now, session.clock.monotonic())
        minutes = self.recorder.take_minutes(now)
        if minutes:
            session.once(lambda: history.store(session.cluster_id, minutes, session.node_ids))

    def forget(self) -> None:
        """Roll up and forget, a few seconds at a time: the next sample must not wait for a whole fleet's hour."""
        session = self.session
        end = session.clock.monotonic() + FORGET_SECONDS
        session.once(
            lambda: rollups.keep(
                session.cluster_id,
                session.clock.now(),
                lambda: session.stopping() or session.clock.monotonic() > end,
            )
        )
        if session.clock.monotonic() > end:
            self._at.pop("forget")  # the rest in the next turn

    def parts(self) -> int:
        """Devices that are new, and of the others those in turn that tell something else of themselves."""
        session = self.session
        seen: list[_Told] = []
        fresh, again = self.frame.devices[self._fresh :], self.frame.devices[self._next : self._next + LOOK]
        for number, device in enumerate(fresh + [device for device in again if device.index < self._fresh]):
            if number % PORTION == 0:
                session.way.give()
            kind, node_id = KINDS.get(device.kind), session.node_ids.get(device.node)
            if kind is None or node_id is None or device.target < 0:
                continue
            versions = self._versions(device)
            mark = hash((frozenset(device.attrs.items()), frozenset(versions.items())))
            if self._parts.get(device.index) == mark:
                continue
            index = device.attrs.get("index", "")
            told = DeviceSeen(
                node_id, kind, device.key, int(index) if index.isdecimal() and len(index) <= 4 else None,
                device.attrs.get("serial", ""), device.attrs.get("pci", ""), device.attrs.get("model", ""), versions,
            )  # fmt: skip
            seen.append((device.index, mark, told))
        for batch in _whole_nodes(seen):
            self._store(batch)
        self._fresh += len(fresh)
        self._next = self._next + LOOK if self._next + LOOK < self._fresh else 0
        return len(seen)

    def _versions(self, device: Device) -> dict[str, str]:
        """What drives it, and its own firmware; a port has that of its adapter."""
        firmware = self.frame.versions.firmware(device.node, device.key.partition("/")[0])
        driver = device.attrs.get("driver", "")
        return firmware | ({DRIVER: driver} if driver else {})

    def _store(self, seen: Sequence[_Told]) -> None:
        session, told = self.session, [told for _, _, told in seen]
        session.way.give()
        session.once(lambda: inventory.sync_devices(session.cluster_id, told, session.clock.now(), session.epoch))
        self._parts.update({device: mark for device, mark, _ in seen})
        self.changed({self.frame.devices[device].node for device, _, _ in seen})

    def count_refusals(self) -> None:
        """Add what exporters and pushers sent in vain to the counters."""
        refused = self.refusals.take()
        counted: dict[int, Counter[str]] = {}
        for target in list(self.frame.targets):
            if not target.rejects:
                continue
            more = target.rejects - self._rejects.get(target.index, Counter())
            for reason, count in more.items():
                text = target.last_reject or f"{target.job} of {target.node} sent samples that were refused: {reason}."
                refused[Refusal("scrape", reason, f"{target.node}/{target.job}")] = (count, text)
            if more:
                counted[target.index] = Counter(target.rejects)
        if not refused:
            return
        try:
            self.session.once(
                lambda: services.count_rejections(self.session.cluster_id, refused, self.session.clock.now())
            )
        except BaseException:
            for refusal, (count, text) in refused.items():
                if refusal.source == "push":
                    self.refusals.add(refusal, text, count)
            raise
        self._rejects.update(counted)


def _whole_nodes(seen: Sequence[_Told]) -> Iterator[list[_Told]]:
    """Batches that part no node's devices: how many GPUs a node is expected to have is counted from one of them."""
    batch: list[_Told] = []
    for _, mine in groupby(sorted(seen, key=_node), key=_node):
        batch += mine
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _node(told: _Told) -> int:
    return told[2].node_id
