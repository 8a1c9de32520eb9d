"""The listening socket, and who has the port if we cannot.

It decides that the fleet listens on the loopback address only. It refuses to take another port than the one asked for.
"""

import contextlib
import socket
from pathlib import Path


class PortTaken(Exception):
    """Somebody else listens there; the message says who, as far as can be seen."""


def listen(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen(2048)
    except OSError as problem:
        sock.close()
        raise PortTaken(f"cannot listen on 127.0.0.1:{port}: {problem.strerror}{_by_whom(port)}") from problem
    sock.setblocking(False)
    return sock


def _by_whom(port: int) -> str:
    inodes = _listeners(port)
    for process in Path("/proc").glob("[0-9]*"):
        if not _open_files(process).isdisjoint(f"socket:[{inode}]" for inode in inodes):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            return f"; it is taken by process {process.name}: {command[:120]}"
    return "; it is taken by a process that cannot be seen from here" if inodes else ""


def _open_files(process: Path) -> set[str]:
    links: set[str] = set()
    with contextlib.suppress(OSError):  # not ours to see, or just ended
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                links.add(str(descriptor.readlink()))
    return links


def _listeners(port: int) -> list[str]:
    inodes = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.append(fields[9])
    return inodes
