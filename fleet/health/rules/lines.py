"""Rules on kernel lines other than Xid and NFS, as data.

Decides, by the kind that the recogniser gave a line, which rule it is a sign of and how it is told. Refuses a kind
that it does not know: such lines are counted and shown nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.health.rules.types import ActionClass, Rule, Severity


@dataclass(frozen=True, slots=True)
class LineRule:
    """`title` takes `part` and `detail`; `prefix` makes the device key of the part in the line."""

    rule: str
    title: str
    prefix: str = ""


def _rule(
    id: str, title: str, severity: Severity, action: ActionClass, origin: str, *, latched: bool = False,
    clear: float = 600.0,
) -> Rule:  # fmt: skip
    return Rule(
        id, title, ("kernel_log",), "kernel_log", severity, action, origin, 1, "lines", clear=0.0 if latched else clear,
        latched=latched, tunes=("threshold", "window") if latched else ("threshold", "window", "clear"),
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    _rule("sxid-log", "SXid in the kernel log", "unhealthy", "reset_gpu",
          "NVIDIA's SXid list by code; the severity in the line outranks it"),
    _rule("log-mlx5", "mlx5 adapter fails", "unhealthy", "reboot_node", "NVSentinel: each of these lines is fatal",
          latched=True),
    _rule("log-hung-task", "Task hangs in the kernel", "degraded", "monitor",
          "the kernel's own 120 s; node-problem-detector: TaskHung"),
    _rule("log-aer", "PCIe error reported by the root port", "unhealthy", "inspect",
          "Linux AER: uncorrected ones are a fault, corrected ones are only shown (our choice)", latched=True),
    _rule("log-nvme", "NVMe controller fails", "unhealthy", "inspect",
          "the driver resets or gives up the controller (our choice)", latched=True),
    _rule("log-read-only", "File system turned read-only by the kernel", "unhealthy", "inspect",
          "node-problem-detector: ReadonlyFilesystem", latched=True),
    _rule("log-nfs-lost", "NFS lost its locks", "unhealthy", "reboot_node",
          "gpud: once is enough; what held the lock may write wrong data", latched=True),
    _rule("log-io-error", "Input or output errors of a disk", "degraded", "ticket", "the kernel's block layer",
          clear=3600.0),
    _rule("log-oom", "Memory of the node ran out", "degraded", "monitor",
          "the kernel killed a process; the program's fault more often than the node's (our choice)"),
    _rule("log-mce", "Machine check", "unhealthy", "inspect",
          "uncorrected ones are a fault, corrected ones are only shown (our choice)", latched=True),
)  # fmt: skip
_MLX5 = LineRule("log-mlx5", "Network adapter %(part)s fails: %(detail)s", "pci:")
_NVME = LineRule("log-nvme", "NVMe controller %(part)s fails: %(detail)s", "disk:")
_READ_ONLY = LineRule("log-read-only", "The kernel turned file system %(part)s read-only", "disk:")
_IO = LineRule("log-io-error", "Disk %(part)s has input or output errors", "disk:")
LINES: dict[str, LineRule] = {
    "mlx5": _MLX5,
    "hung_task": LineRule("log-hung-task", "A task hangs in the kernel: %(detail)s"),
    "aer": LineRule("log-aer", "PCIe errors at %(part)s: %(detail)s", "pci:"),
    "nvme": _NVME,
    "read_only": _READ_ONLY,
    "io_error": _IO,
    "nfs_lost": LineRule("log-nfs-lost", "NFS lost its locks: %(detail)s"),
    "oom": LineRule("log-oom", "The kernel killed a process for want of memory: %(detail)s"),
    "mce": LineRule("log-mce", "Machine check: %(detail)s"),
}
