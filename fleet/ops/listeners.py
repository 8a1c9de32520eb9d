"""Who listens on a TCP port of this machine.

Decides whether a port is free and, when it is not, which process has it (from /proc, without any library). Refuses to
guess: a process of another user that cannot be seen is said to be that.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from fleet.ops.processes import command_of

LISTEN = "0A"


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def first_free(start: int, count: int = 200, host: str = "127.0.0.1") -> int:
    for port in range(start, start + count):
        if is_free(port, host):
            return port
    raise OSError(f"no free port between {start} and {start + count - 1}")


def _inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def holder(port: int) -> str:
    """`pid 123 (command)` of the listener, or why it cannot be told."""
    wanted = _inodes(port)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for descriptor in (entry / "fd").iterdir():
                if str(descriptor.readlink()) in wanted:
                    return f"pid {entry.name} ({command_of(int(entry.name))[:120]})"
    return "a process of another user or container" if wanted else "a process that cannot be seen from here"
