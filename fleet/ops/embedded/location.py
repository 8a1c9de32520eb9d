"""Where the embedded database lies on disk.

Decides on `var/postgres` wherever the account that runs PostgreSQL can reach it, else on a directory outside whose name
carries a hash of `var`; the choice is kept in `var/postgres.location`, so that a later change of modes never starts a
second, empty database. Refuses a directory that belongs to somebody else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from fleet.ops.processes import Account, run_as, write_atomically

SOCKET_LIMIT = 103  # bytes of a socket's path: 107 on Linux, 103 on macOS


class Unreachable(Exception):
    """No place fits; the text says which were tried."""


def ensure_directory(path: Path, account: Account | None, mode: int) -> None:
    """Make `path` for `account`; one that exists must be a directory of that account or ours."""
    owner = account.uid if account else os.geteuid()
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (owner, os.geteuid()):
            raise Unreachable(f"{path} exists and is not a directory of this user") from None
    if account:
        os.chown(path, account.uid, account.gid)
    path.chmod(mode)


def _mark(var: Path) -> str:
    return hashlib.sha256(str(var.resolve()).encode()).hexdigest()[:12]


def _reachable(path: Path, account: Account | None) -> bool:
    return run_as(account, ["/bin/sh", "-c", 'cd "$1"', "sh", str(path)]).returncode == 0


def _who(account: Account | None) -> str:
    return account.name if account else "this user"


def choose_base(var: Path, account: Account | None) -> Path:
    """The directory for data, sockets and, where needed, copied binaries."""
    pointer = var / "postgres.location"
    if pointer.is_file():
        chosen = Path(pointer.read_text(encoding="utf-8").strip())
        if chosen.is_dir() and not _reachable(chosen, account):
            raise Unreachable(
                f"the database in {chosen} can no longer be reached by {account.name if account else 'this user'}"
            )
        candidates = [chosen]
    else:
        outside = [Path("/var/lib/muster") / _mark(var), Path(tempfile.gettempdir()) / f"muster-{_mark(var)}"]
        candidates = [var / "postgres", *(outside if account else [])]
    tried = []
    for candidate in candidates:
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            if account:
                candidate.chmod(0o755)
        except OSError as error:
            tried.append(f"{candidate} ({error.strerror})")
            continue
        if _reachable(candidate, account):
            write_atomically(pointer, str(candidate))
            return candidate
        tried.append(f"{candidate} (not reachable by {_who(account)})")
    raise Unreachable("no place for the database: " + ", ".join(tried))


def choose_socket_directory(base: Path, account: Account | None) -> Path:
    """`base/socket`, or a short path under the temporary directory when that one would be too long."""
    for candidate in (base / "socket", Path(tempfile.gettempdir()) / f"muster-{_mark(base)}-socket"):
        if len(os.fsencode(candidate / ".s.PGSQL.5432")) <= SOCKET_LIMIT:
            ensure_directory(candidate, account, 0o755)
            return candidate
    raise Unreachable(f"the path of the temporary directory {tempfile.gettempdir()} is too long for a socket")
