"""What a kernel line says, for the few lines that say something about hardware.

Decides which lines are observations (Xid, SXid, a GPU off the bus, NFS stalls, mlx5, PCIe, NVMe, file systems, memory,
machine checks, hung tasks) and pulls out device, code and detail. A container that outgrew its own limit is
none: it says nothing of its node. Reads the first 2,048 signs of a line: the kernel writes no longer ones. Refuses to
judge: what a code means and what to do is the rules' table. Refuses, too, a line in which anything but a known head
stands before the kernel's words: a program that quotes the kernel is no fault of this node.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fleet.telemetry import kernelhead, names

Kind = Literal[
    "xid", "sxid", "off_bus", "gpu_named", "nfs_stalled", "nfs_ok", "nfs_lost", "mlx5", "hung_task", "aer", "nvme",
    "read_only", "io_error", "oom", "mce",
]  # fmt: skip

_DRIVER = re.compile(r"(?:nvidia \S{1,40} )?NVRM: ")
_XID = re.compile(  # with MIG, the instances stand behind the address
    r"Xid \((?:PCI:)?([0-9A-Fa-f:.]{7,16})(?: GPU-I:\w{1,8})?(?: GPU-CI:\w{1,8})?\): (\d{1,4})\b(?:, ?(.*))?", re.DOTALL
)
_SXID = re.compile(
    r"nvidia-nvswitch(\d+):? SXid \(PCI:([0-9A-Fa-f:.]{7,16})\): (\d{1,6}), (Fatal|Non-fatal), (?:Link (\d+) )?(.*)",
    re.DOTALL,
)
_OFF_BUS = re.compile(r".{0,80}?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?).{0,80}fallen off the bus")
# The same in three lines: the address stands in the first, what happened in the last.
_NAMED = re.compile(r"The NVIDIA GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)\s*$")
_NAMELESS = re.compile(r"(?:GPU has )?fallen off the bus\b")
_NFS = re.compile(r"(?:nfs|lockd): server (\S+) (not responding|OK)")
_RECLAIM = re.compile(r"(?:NFS: )?nfs4_reclaim_open_state: (Lock reclaim failed|unhandled error -?\d+)")
_MLX5 = re.compile(
    r"mlx5_core (\S+?):? .*"
    r"(Will cause a leak of a command resource|health poll failed|health compromised|unrecoverable)"
)
_HUNG = re.compile(r"INFO: task ([^:\n]{1,64}(?::[^:\n ]{1,32}){0,3}?):(\d+) blocked for more than (\d+) seconds")
_ADDRESS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
_AER = re.compile(
    r"(?:[\w-]{1,32} )?"
    + _ADDRESS
    + r": (?:AER: )?PCIe Bus Error: severity=(Correct(?:ed|able)|Uncorrect(?:ed|able) \((?:Non-)?Fatal\))"
    r"(?:, type=([^,(]{1,40}))?"
)
_NVME = re.compile(
    r"nvme (nvme\d+): (?:.{0,120}?(timeout, (?:reset controller|disable controller|aborting))"
    r"|(Disabling device after reset failure|controller is down; will reset|Device not ready; aborting \w+"
    r"|Removing after probe failure))"
)
_READ_ONLY = re.compile(
    r"\w{2,16}-fs (?:error )?\(?(?:device )?([\w.-]{1,64})\)?: .{0,80}?Remounting filesystem read-only"
    r"|XFS \(([\w.-]{1,64})\): .{0,160}?(?:shut down|shutting down) .{0,40}?filesystem"
    r"|XFS \(([\w.-]{1,64})\): .{0,40}?Filesystem has been shut down"
    r"|BTRFS.{0,20}\(device ([\w.-]{1,64}).{0,40}?\): forced readonly",
    re.IGNORECASE,
)
_IO_ERROR = re.compile(
    r"(?:\w{1,32}: )?(?:Buffer I/O error on dev(?:ice)?|I/O error, dev|(?:critical )?medium error, dev) ([\w.-]{1,64})"
)
_NO_DISK = re.compile(r"(?:loop|ram|zram|sr|fd)\d+(?:p\d+)?")  # images, memory and drives of another time
_OOM = re.compile(r"Out of memory: Kill(?:ed)? process \d+ \(([^)]{1,64})\)")
_CPER = re.compile(
    r"(?:\{\d{1,9}\})?\[Hardware Error\]: event severity: (corrected|recoverable|fatal|informational)", re.IGNORECASE
)
_MCE = re.compile(
    r"(?:mce: )?\[Hardware Error\]: (CPU \d+: Machine Check(?: Exception)?: .{0,80}|Machine check events logged"
    r"|(?:Corrected|Deferred) error, no action required|Uncorrected, software (?:restartable|containable) error"
    r"|System Fatal error)"
)
_BANK = re.compile(r".* Bank \d{1,3}: ([0-9a-fA-F]{16})\b")
_UC = 1 << 61  # of a bank's status: what was wrong was not corrected, though it may have been logged by the next boot
_UNCORRECTED = re.compile(r".*(?:Exception|Uncorrected|Fatal)")
_EDAC = re.compile(r"EDAC (\w{1,32}#?\d{0,3}): (?:(\d+) )?(CE|UE) (.{0,80})")
_PROCESS = re.compile(r"\s*(?:pid=('?[^,]*)|name=[^,]*|Ch [0-9a-fA-F]+)(?:,|$)")


@dataclass(frozen=True, slots=True)
class KernelSignal:
    """`device` is a PCI address in normal form, an NFS server, or empty: then the line before named it, if any did."""

    kind: Kind
    device: str = ""
    code: str = ""
    detail: str = ""
    fatal: bool | None = None
    process: str = ""  # of an Xid: whose work the GPU did, as the driver names it


def match(text: str) -> KernelSignal | None:
    """The observation in a line, or None. Cheap for the many lines that hold none."""
    text = text[: kernelhead.READ]
    if not any(word in text for word, _ in _READERS):
        return None
    head = kernelhead.read(text)
    return _read(text[head.end :]) if head.kernel else None


def _read(words: str) -> KernelSignal | None:
    """What the kernel says."""
    for word, read in _READERS:
        if word in words:
            signal = read(words)
            if signal is not None:
                return signal
    return None


def _switch(words: str) -> KernelSignal | None:
    found = _SXID.match(words)
    if not found:
        return None
    link = f"link {found[5]}: " if found[5] else ""
    return KernelSignal("sxid", names.pci(found[2]), found[3], link + found[6].strip(), found[4] == "Fatal")


def _nfs(text: str) -> KernelSignal | None:
    found = _NFS.match(text)
    return KernelSignal("nfs_ok" if found[2] == "OK" else "nfs_stalled", found[1].rstrip(",")) if found else None


def _reclaim(text: str) -> KernelSignal | None:
    found = _RECLAIM.match(text)
    return KernelSignal("nfs_lost", "", "", found[1]) if found else None


def _mlx5(text: str) -> KernelSignal | None:
    found = _MLX5.match(text)
    return KernelSignal("mlx5", names.pci(found[1]), "", found[2]) if found else None


def _hung(text: str) -> KernelSignal | None:
    found = _HUNG.match(text)
    return KernelSignal("hung_task", "", "", f"{found[1]} for {found[3]} s") if found else None


def _aer(text: str) -> KernelSignal | None:
    found = _AER.match(text)
    if not found:
        return None
    fatal = False if found[2].startswith("Correct") else True if "(Fatal" in found[2] else None
    return KernelSignal("aer", names.pci(found[1]), "", f"{found[2]} {(found[3] or '').strip()}".strip(), fatal)


def _nvme(text: str) -> KernelSignal | None:
    found = _NVME.match(text)
    if not found:
        return None
    return KernelSignal("nvme", found[1], "", found[2] or found[3], False if "aborting" in (found[2] or "") else None)


def _read_only(text: str) -> KernelSignal | None:
    found = _READ_ONLY.match(text)
    return _disk("read_only", next(filter(None, found.groups()))) if found else None


def _io_error(text: str) -> KernelSignal | None:
    found = _IO_ERROR.match(text)
    return _disk("io_error", found[1]) if found else None


def _disk(kind: Kind, device: str) -> KernelSignal | None:
    return None if _NO_DISK.fullmatch(device) else KernelSignal(kind, device)


def _oom(text: str) -> KernelSignal | None:
    found = _OOM.match(text)
    return KernelSignal("oom", "", "", found[1]) if found else None


def _machine_check(text: str) -> KernelSignal | None:
    event = _CPER.match(text)
    if event:
        word = event[1].lower()
        return KernelSignal("mce", "", "", f"{word} event", word in ("fatal", "recoverable"))
    found = _MCE.match(text)
    if not found:
        return None
    bank = _BANK.match(found[1])
    fatal = bool(_UNCORRECTED.match(found[1])) or (bank is not None and bool(int(bank[1], 16) & _UC))
    return KernelSignal("mce", "", "", found[1].strip(), fatal)


def _edac(text: str) -> KernelSignal | None:
    found = _EDAC.match(text)
    if not found:
        return None
    return KernelSignal("mce", "", found[1], f"{found[2] or 1} {found[3]} {found[4]}".strip(), found[3] == "UE")


def _driver(text: str) -> KernelSignal | None:
    driver = _DRIVER.match(text)
    if driver is None:
        return None
    found = _XID.match(text, driver.end())
    if found:
        detail, said = found[3] or "", ""
        while (process := _PROCESS.match(detail)) and process.end():
            said = said or (process[1] or "").strip("'\" ")
            detail = detail[process.end() :]
        detail, said = detail.strip(), "" if "unknown" in said else said
        return KernelSignal("xid", names.pci(found[1]), found[2], detail, _fatal(detail), said)
    lost = _OFF_BUS.match(text, driver.end())
    if lost:
        return KernelSignal("off_bus", names.pci(lost[1]), "79", "fallen off the bus")
    named = _NAMED.match(text, driver.end())
    if named:
        return KernelSignal("gpu_named", names.pci(named[1]))
    nameless = _NAMELESS.match(text, driver.end())
    return KernelSignal("off_bus", "", "79", "fallen off the bus") if nameless else None


def _fatal(detail: str) -> bool | None:
    if re.search(r"\bNon-?fatal\b", detail, re.IGNORECASE):
        return False
    return True if re.search(r"\bFatal\b", detail, re.IGNORECASE) else None


# A word that every line of a kind holds, and who reads such a line. The first that finds something speaks.
_READERS: tuple[tuple[str, Callable[[str], KernelSignal | None]], ...] = (
    ("NVRM: ", _driver),
    ("SXid", _switch),
    (": server ", _nfs),
    ("nfs4_reclaim", _reclaim),
    ("mlx5_core", _mlx5),
    ("blocked for more than", _hung),
    ("PCIe Bus Error", _aer),
    ("nvme ", _nvme),
    ("read-only", _read_only),
    ("forced readonly", _read_only),
    ("XFS (", _read_only),
    ("error", _io_error),
    ("of memory", _oom),
    ("[Hardware Error]", _machine_check),
    ("EDAC", _edac),
)
