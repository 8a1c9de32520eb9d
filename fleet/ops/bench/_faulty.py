"""Faults for the quality replay: what each does to the series, the kernel log and the node, and what it is called.

Decides one fault for every rule of the catalogue, from the rule's own data where it has some, and by hand where a rule
is code; and what can tell of it, because a kernel line travels by other ways than a series does. Refuses easy ones:
values are just over the limit where a limit counts, and each sits on one part of the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np

from fleet.health.rules.catalogue import WATCHED
from fleet.health.rules.types import NodeFacts, Rule
from fleet.health.rules.watch import Watch
from fleet.ops.bench._healthy import COUNT, Healthy
from fleet.telemetry import names

PCI = "0000:{pci:02x}:00"
XIDS = (48, 64, 79, 95, 119)
Told = Literal["series", "line", "kubernetes", "event", "condition"]
# Rules that look at one fault from two sides: either names it right.
KIN: dict[str, set[str]] = {
    "nvlink-crc-storm": {"nvlink-crc"}, "ib-symbol": {"ib-symbol-hour"}, "ib-symbol-hour": {"ib-symbol"},
    "ib-switch-symbol": {"ib-switch-symbol-hour"}, "ib-switch-symbol-hour": {"ib-switch-symbol"},
    "remapped-rows": {"remapped-rows-rising"}, "retired-pages-dbe": {"retired-pages", "retired-pages-many"},
    "retired-pages": {"retired-pages-many"}, "retired-pages-many": {"retired-pages", "retired-pages-dbe"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """`set` a value, let it `jump` once, let it `grow` each second, or `step` it every two minutes."""

    how: Literal["set", "jump", "grow", "step", "mute"]
    metric: str
    amount: float = 0.0
    sub: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """`causes` are the names that are right. An event is (form, check, wants action); `facts` are the node's own."""

    name: str
    causes: frozenset[str]
    effects: tuple[Effect, ...] = ()
    line: str = ""
    gone: Literal["", "one", "all"] = ""
    facts: dict[str, object] = field(default_factory=dict)
    skew: float = 0.0
    event: tuple[str, str, bool] = ("", "", False)

    @property
    def told(self) -> Told:
        """What brings the news of it."""
        if self.line:
            return "line"
        if self.event[0]:
            return "condition" if self.event[0] == "condition" else "event"
        return "kubernetes" if self.facts and not self.gone else "series"


def _amount(rule: Rule, watch: Watch) -> Effect | None:
    """The smallest trouble that the rule must notice."""
    limit, metric = rule.threshold / watch.scale, watch.metric
    sub = "READ" if watch.metric in (names.NFS_RESPONSE, names.NFS_MAJOR) else watch.sub
    if watch.how in ("at_least", "above"):
        more = {"at_least": limit, "above": limit * 1.2 if limit else 1.0}[watch.how]
        return Effect("set", metric, more, sub)
    if watch.how in ("below", "at_most"):
        low = {names.FS_AVAIL: 1e11, names.TEMP_MARGIN: -4.0, names.PCIE_GEN: 3.0, names.PCIE_WIDTH: 8.0}
        low |= {names.IB_RATE: 2.5e10, names.NIC_SPEED: 1.25e8, names.SMART_SPARE: 8.0, names.NVME_SPARE: 0.08}
        return Effect("set", metric, low.get(metric, 0.0), sub)
    if watch.how in ("is", "not", "bits"):
        return Effect("set", metric, watch.values[0] if watch.values else float(watch.mask or 1), sub)
    if watch.how == "grows":
        return Effect("jump", metric, max(1.0, limit), sub)
    if watch.how == "rate":
        if watch.over:
            return Effect("grow", metric, 80 * 1.5 * rule.threshold, sub)
        return Effect("grow", metric, 4 * rule.threshold / watch.per, sub)
    if watch.how == "count":
        return Effect("grow", metric, 2.2 * rule.threshold / rule.window, sub)
    if watch.how == "changes":
        return Effect("step", metric, 300.0)
    return Effect("mute", metric)


def _by_hand() -> list[Fault]:
    def one(name: str, *effects: Effect, causes: set[str] | None = None, **more: object) -> Fault:
        return Fault(name, frozenset(causes or {name}), effects, **more)  # type: ignore[arg-type]

    xid = "NVRM: Xid (PCI:" + PCI + "): {code}, pid='<unknown>', name=<unknown>, something happened"
    lines = [
        one(f"xid-log {code}", line=xid.replace("{code}", str(code)), causes={f"xid-{code}"}, gone="one" * (code == 79))
        for code in XIDS
    ]
    return [
        *lines,
        one("sxid-log", line="nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            causes={"sxid-20034"}),
        one("log-mlx5", line="mlx5_core 0000:18:00.0: health poll failed"),
        one("log-nvme", line="nvme nvme1: I/O 512 QID 3 timeout, reset controller"),
        one("log-io-error", line="I/O error, dev nvme1n1, sector 12345"),
        one("log-read-only", line="EXT4-fs (nvme0n1p2): Remounting filesystem read-only"),
        one("log-aer", line="pcieport 0000:5d:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal)"),
        one("log-hung-task", line="INFO: task python3:48213 blocked for more than 120 seconds."),
        one("log-mce", line="mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400"),
        one("log-nfs-lost", line="NFS: nfs4_reclaim_open_state: Lock reclaim failed!"),
        one("log-oom", line="Out of memory: Killed process 48213 (python3) total-vm:214748364kB"),
        one("nfs server silent (log)", line="nfs: server nfs-1 not responding, still trying", causes={"mount-hung"}),
        one("xid-dcgm", Effect("set", names.XID, 95), causes={"xid-95"}),
        one("gpu-lost", gone="one"),
        one("gpu-count", gone="all", causes={"gpu-count", "gpu-allocatable"},
            facts={"gpu_expected": 8, "gpu_capacity": 8, "gpu_allocatable": 0}),
        one("gpu-capacity", facts={"gpu_expected": 8, "gpu_capacity": 7, "gpu_allocatable": 7}),
        one("gpu-allocatable", facts={"gpu_expected": 8, "gpu_capacity": 8, "gpu_allocatable": 7}),
        one("dcgm-health-fail", Effect("set", names.HEALTH_STATUS, 20, "MEM"), causes={"dcgm-mem"}),
        one("dcgm-health-warn", Effect("set", names.HEALTH_STATUS, 10, "THERMAL"), causes={"dcgm-thermal-warning"}),
        one("clock-slowed", Effect("set", names.SM_CLOCK, 1200), Effect("set", names.CLOCK_REASONS, 0x80),
            causes={"clock-slowed", "clock-reasons"}),
        one("thermal", Effect("set", names.GPU_TEMP, 88), Effect("set", names.CLOCK_REASONS, 0x40)),
        one("ib-down", Effect("set", names.IB_STATE, 1), Effect("set", names.IB_PHYSICAL, 2)),
        one("mount-hung", Effect("set", names.MOUNT_ERROR, 1)),
        one("node-not-ready", facts={"ready": None}),
        one("clock-skew", skew=400.0),
    ]  # fmt: skip


def _of_others() -> list[Fault]:
    """What other tools report, by their names of it; the third tells whether they want something done."""
    said = [
        *(("nvsentinel", check, True) for check in ("GpuMemWatch", "GpuThermalWatch", "SysLogsXIDError")),
        ("nvsentinel", "GpuNvlinkWatch", False),
        *(("nvsentinel-headers", check, True) for check in ("GpuPcieWatch", "InfiniBandStateCheck")),
        *(("gpud", component, False) for component in ("accelerator-nvidia-error-xid", "disk", "memory")),
        ("alertmanager", "NodeRaidDegraded", True), ("alertmanager", "GpuFanStopped", True),
        ("alertmanager", "NodeClockNotSynchronising", False),
        *(("condition", kind, True) for kind in ("KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown")),
        ("condition", "FrequentKubeletRestart", False), ("condition", "DiskPressure", False),
        ("condition", "GpuXidError", False),
    ]  # fmt: skip
    prefix = {"alertmanager": "alert", "condition": "condition"}
    return [
        Fault(f"{form} {check}", frozenset({f"{prefix.get(form, 'event')}-{check.lower()}"}), event=(form, check, acts))
        for form, check, acts in said
    ]


def faults() -> list[Fault]:
    found = _by_hand() + _of_others()
    for watched in WATCHED:
        rule = watched.rule
        for number, watch in enumerate(watched.watches):
            effect = _amount(rule, watch) if rule.enabled else None
            if effect is None:
                continue
            cause = rule.id + (f".{number + 1}" if number else "")
            kin = {also + cause[len(rule.id) :] for also in KIN.get(rule.id, ())}
            found.append(Fault(cause, frozenset({cause, *kin}), (effect,)))
    return found


class Injected:
    """One fault on one node of a fleet, from a step on. `onset` is the time of that step."""

    def __init__(self, fleet: Healthy, number: int, fault: Fault, tick: int) -> None:
        self.fleet, self.number, self.fault, self.tick = fleet, number, fault, tick
        self.onset: datetime | None = None
        self.part = int(fleet.rng.integers(0, 64))
        self.places = [self._place(effect) for effect in fault.effects]
        self.base = [0.0] * len(self.places)

    @property
    def node(self) -> str:
        return self.fleet.names[self.number]

    @property
    def gpu(self) -> int:
        return self.part % COUNT["gpu"]

    @property
    def device(self) -> str | None:
        """The part that a finding must name; None where the fault names none in the frame's words."""
        if self.places:
            return self.fleet.key(self.places[0])
        if self.fault.gone == "one" or self.fault.event[0].startswith("nvsentinel") or "NVRM" in self.fault.line:
            return f"GPU-{self.gpu}"
        return None

    def _place(self, effect: Effect) -> int:
        columns = self.fleet.columns
        part = self.part % COUNT[names.METRICS[effect.metric].kind]
        mine = [p for p in self.fleet.at[effect.metric] if columns[p].part == part]
        return next((p for p in mine if effect.sub and effect.sub in columns[p].labels.values()), mine[0])

    def act(self) -> bool:
        """Once after the fleet has lived a step; whether the fault begins now."""
        fleet = self.fleet
        since = (fleet.ticks - self.tick) * fleet.interval
        if since < 0:
            return False
        if since == 0:
            self.onset = fleet.now
        fleet.busy[self.number] = True
        for number, effect in enumerate(self.fault.effects):
            self._effect(number, effect, since)
        self._parts()
        return since == 0

    def _effect(self, number: int, effect: Effect, since: float) -> None:
        fleet, place = self.fleet, self.places[number]
        values = fleet.values[self.number]
        if effect.how == "set":
            values[place] = effect.amount
        elif effect.how == "jump":
            values[place] += effect.amount if since == 0 else 0.0
        elif effect.how == "grow":
            self.base[number] += effect.amount * fleet.interval
            values[place] += np.floor(self.base[number])
            if effect.metric != names.NFS_RESPONSE:  # which is worked out anew from the requests each time
                self.base[number] -= np.floor(self.base[number])
        elif effect.how == "step":
            values[place] += effect.amount if since % 120 < fleet.interval else 0.0
        else:
            values[place] = np.nan

    def _parts(self) -> None:
        fleet, fault = self.fleet, self.fault
        if fault.gone:
            gone = range(COUNT["gpu"]) if fault.gone == "all" else (self.gpu,)
            for place in range(fleet.dcgm):
                if "gpu" in fleet.columns[place].labels and fleet.columns[place].part in gone:
                    fleet.values[self.number, place] = np.nan
        if fault.facts:
            facts: NodeFacts = fleet.facts[self.node]
            fleet.facts[self.node] = replace(facts, **fault.facts)  # type: ignore[arg-type]
        fleet.skew[self.number] = fault.skew

    @property
    def line(self) -> str:
        return self.fault.line.format(pci=27 + self.gpu)
