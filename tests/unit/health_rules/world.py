"""A small cluster on a table: exporters that answer what the test says, a clock that only the test moves."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import ClusterView, Edge, NodeFacts, Verdict
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.kernellog import KernelLine

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GPUS = 8
HEALTHY = {
    names.GPU_TEMP: 61.0,
    names.SLOWDOWN_TEMP: 87.0,
    names.CLOCK_REASONS: 0.0,
    names.XID: 0.0,
    names.ECC_DBE: 0.0,
    names.ROW_REMAP_FAILURE: 0.0,
}


def uuid(gpu: int, node: str = "n1") -> str:
    return f"GPU-{node}-{gpu}"


class World:
    """Node n1 (and others on demand) with eight GPUs and two ports, connected to at START."""

    def __init__(self, overrides: dict[str, dict[str, Any]] | None = None, nodes: tuple[str, ...] = ("n1",)) -> None:
        self.overrides = overrides
        self.now, self.mono = START, 1000.0
        self.facts = {
            name: NodeFacts(name, True, START, boot_id="boot-1", boot_at=START - timedelta(days=3), gpu_expected=GPUS)
            for name in nodes
        }
        self.gpu: dict[tuple[str, int], dict[str, float]] = {}
        self.gone: set[tuple[str, int]] = set()
        self.silent: set[str] = set()
        self.ports: dict[tuple[str, str], tuple[int, int, int]] = {}
        self.mounts: dict[tuple[str, str], str] = {}
        self.start()

    def start(self) -> None:
        """A new observer process: nothing remembered."""
        self.frame = Frame()
        self.intake = Intake(self.frame)
        self.engine = RuleEngine(self.frame, self.overrides)
        for name in self.facts:
            for job in ("dcgm-exporter", "node-exporter"):
                self.frame.target(name, job, 15.0, self.mono)

    def restart(self) -> None:
        """A new observer process with the checkpoint of the old one."""
        state = json.loads(json.dumps(self.engine.export_state()))
        self.start()
        self.engine.import_state(state)

    # -- what happens -----------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.mono += seconds

    def change(self, node: str = "n1", /, **facts: Any) -> None:
        self.facts[node] = replace(self.facts[node], **facts)

    def reboot(self, node: str = "n1") -> None:
        self.change(node, boot_id=self.facts[node].boot_id + "+", boot_at=self.now)

    def give(self, gpu: int, node: str = "n1", /, **values: float) -> None:
        """Override metrics of one GPU by the names of `fleet.telemetry.names`."""
        self.gpu.setdefault((node, gpu), {}).update({getattr(names, key): value for key, value in values.items()})

    def count(self, metric: str, gpu: int = 3, /, node: str = "n1", **codes: float) -> None:
        """What the exporter counts of Xids by code (`xid79=1`), and of no others."""
        mine = self.gpu.setdefault((node, gpu), {})
        for key in [key for key in mine if key.startswith(metric + "|")]:
            del mine[key]
        mine.update({f'{metric}|,xid="{code.removeprefix("xid")}"': number for code, number in codes.items()})

    def scrape(self, *jobs: str, after: float = 15.0, cycle: bool = True) -> list[Edge]:
        """Every exporter answers (or only those named), then the rules look."""
        self.pass_time(after)
        for name in self.facts.keys() - self.silent:
            for job in jobs or ("dcgm-exporter", "node-exporter"):
                body = self._dcgm(name) if job == "dcgm-exporter" else self._node(name)
                target = self.frame.target(name, job, 15.0)
                self.intake.scraped(target, body, self.mono, self.now.timestamp())
        return self.cycle() if cycle else []

    def scrape_but(self, *silent: str) -> list[Edge]:
        """The exporters of these nodes do not answer; all others do."""
        self.silent = set(silent)
        for name in silent:
            for job in ("dcgm-exporter", "node-exporter"):
                self.fail(job, name)
        return self.scrape()

    def fail(self, job: str, node: str = "n1") -> None:
        self.intake.failed(self.frame.target(node, job, 15.0), f"{job} on {node} did not answer in time.")

    def say(self, text: str, node: str = "n1", ago: float = 0.0, boot: str = "") -> list[Edge]:
        """The kernel of a node writes a line; `boot` is the boot that its journal names."""
        line = KernelLine(node, self.now - timedelta(seconds=ago), text, boot=boot)
        return self.engine.on_kernel_line(line, self.facts[node], self.now)

    def xid(self, code: int, gpu: int = 3, detail: str = "something", node: str = "n1", ago: float = 0.0) -> list[Edge]:
        return self.say(f"NVRM: Xid (PCI:0000:{0x1B + gpu:02x}:00): {code}, {detail}", node, ago)

    # -- what is seen -----------------------------------------------------------------------------------------------

    def view(self) -> ClusterView:
        return ClusterView(self.now, self.mono, self.frame, self.facts)

    def cycle(self) -> list[Edge]:
        return self.engine.cycle(self.view())

    def verdict(self, node: str = "n1") -> Verdict:
        return self.engine.verdicts(self.view())[node]

    def open(self) -> set[tuple[str, str, str]]:
        return set(self.engine.open_findings())

    # -- exporters --------------------------------------------------------------------------------------------------

    def _dcgm(self, node: str) -> bytes:
        lines: list[str] = []
        for gpu in range(GPUS):
            if (node, gpu) in self.gone:
                continue
            labels = (
                f'gpu="{gpu}",UUID="{uuid(gpu, node)}",pci_bus_id="00000000:{0x1B + gpu:02X}:00.0",Hostname="{node}"'
            )
            for metric, value in {**HEALTHY, **self.gpu.get((node, gpu), {})}.items():
                if value == value:
                    name, _, more = metric.partition("|")  # another label of this series alone
                    lines.append(f"{name}{{{labels}{more}}} {value}")
        return ("\n".join(lines) + "\nprocess_start_time_seconds 1\n").encode()

    def _node(self, node: str) -> bytes:
        lines: list[str] = ["node_load1 1"]
        for port in ("mlx5_0", "mlx5_1"):
            state, physical, downed = self.ports.get((node, port), (4, 5, 0))
            labels = f'device="{port}",port="1"'
            lines.append(f"{names.IB_STATE}{{{labels}}} {state}")
            lines.append(f"{names.IB_PHYSICAL}{{{labels}}} {physical}")
            lines.append(f"{names.IB_DOWNED}{{{labels}}} {downed}")
        for mount in ("/data", "/home"):
            error = self.mounts.get((node, mount), "")
            labels = f'device="nfs-01:{mount}",device_error="{error}",fstype="nfs4",mountpoint="{mount}"'
            lines.append(f"{names.MOUNT_ERROR}{{{labels}}} {1 if error else 0}")
        return ("\n".join(lines) + "\n").encode()


def told(edges: list[Edge]) -> list[tuple[str, str, str]]:
    return [(edge.kind, edge.cause, edge.device) for edge in edges]
