"""What a kernel line says, for the few lines that say something about hardware.

Decides which lines are observations (Xid, SXid, a GPU off the bus, NFS stalls, mlx5 and hung-task complaints) and
pulls out device, code and detail. Refuses to judge: what a code means and what to do is the rules' table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fleet.telemetry import names

Kind = Literal["xid", "sxid", "off_bus", "nfs_stalled", "nfs_ok", "mlx5", "hung_task"]

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{7,16})\): (\d{1,4})\b(?:, (.*))?", re.DOTALL)
_SXID = re.compile(
    r"nvidia-nvswitch(\d+): SXid \(PCI:([0-9A-Fa-f:.]{7,16})\): (\d{1,6}), (Fatal|Non-fatal), (?:Link (\d+) )?(.*)",
    re.DOTALL,
)
_OFF_BUS = re.compile(
    r"NVRM: .{0,80}?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?).{0,80}fallen off the bus"
)
_NFS = re.compile(r"nfs: server (\S+) (not responding|OK)")
_MLX5 = re.compile(r"mlx5_core (\S+?):? .*(Will cause a leak of a command resource|health poll failed|unrecoverable)")
_HUNG = re.compile(r"INFO: task (\S{1,64}?):(\d+) blocked for more than (\d+) seconds")
_PROCESS = re.compile(r"\s*(?:pid='?[^,]*|name=[^,]*|Ch [0-9a-fA-F]+)(?:,|$)")


@dataclass(frozen=True, slots=True)
class KernelSignal:
    """`device` is a PCI address in normal form, an NFS server, or empty."""

    kind: Kind
    device: str = ""
    code: str = ""
    detail: str = ""
    fatal: bool | None = None


def match(text: str) -> KernelSignal | None:
    """The observation in a line, or None. Cheap for the many lines that hold none."""
    if "NVRM:" in text:
        return _driver(text)
    if "SXid" in text:
        found = _SXID.search(text)
        if found:
            link = f"link {found[5]}: " if found[5] else ""
            return KernelSignal("sxid", names.pci(found[2]), found[3], link + found[6].strip(), found[4] == "Fatal")
    elif "nfs: server" in text:
        found = _NFS.search(text)
        if found:
            return KernelSignal("nfs_ok" if found[2] == "OK" else "nfs_stalled", found[1].rstrip(","))
    elif "mlx5_core" in text:
        found = _MLX5.search(text)
        if found:
            return KernelSignal("mlx5", names.pci(found[1]), "", found[2])
    elif "blocked for more than" in text:
        found = _HUNG.search(text)
        if found:
            return KernelSignal("hung_task", "", "", f"{found[1]} for {found[3]} s")
    return None


def _driver(text: str) -> KernelSignal | None:
    found = _XID.search(text)
    if found:
        detail = found[3] or ""
        while (process := _PROCESS.match(detail)) and process.end():
            detail = detail[process.end() :]
        detail = detail.strip()
        return KernelSignal("xid", names.pci(found[1]), found[2], detail, _fatal(detail))
    lost = _OFF_BUS.search(text)
    return KernelSignal("off_bus", names.pci(lost[1]), "79", "fallen off the bus") if lost else None


def _fatal(detail: str) -> bool | None:
    if re.search(r"\bNon-?fatal\b", detail, re.IGNORECASE):
        return False
    return True if re.search(r"\bFatal\b", detail, re.IGNORECASE) else None
