"""Starting and finding operating-system processes.

Decides how a child is started: in its own session, as the account it should have, and bound to die with its parent.
Refuses to end anything by name: only by process id, or by the directory a process works in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Account:
    """The user that a child runs as when the supervisor is root."""

    name: str
    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """None for a plain user; for root the first existing of $MUSTER_POSTGRES_USER, postgres and nobody."""
    if os.geteuid() != 0:
        return None
    wanted = os.environ.get("MUSTER_POSTGRES_USER")
    for name in [wanted] if wanted else ["postgres", "nobody"]:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise LookupError(f"no user {wanted or 'postgres or nobody'} to run PostgreSQL as; set MUSTER_POSTGRES_USER")


def _credentials(account: Account | None) -> dict[str, object]:
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def run_as(account: Account | None, argv: Sequence[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run to the end as `account`, from `/`, with output captured. A program that may not be executed is code 126."""
    try:
        return subprocess.run(  # type: ignore[call-overload]
            list(argv), cwd="/", capture_output=True, text=True, timeout=timeout, check=False, **_credentials(account)
        )
    except OSError as error:
        return subprocess.CompletedProcess(list(argv), 126, "", f"{argv[0]}: {error.strerror}")


def _die_with_parent(death_signal: int) -> Callable[[], None]:
    """A child hook: the kernel sends `death_signal` when the supervisor ends, however it ended."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None

    def hook() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return hook


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    account: Account | None = None,
    death_signal: int = signal.SIGKILL,
    stdin: bytes = b"",
) -> subprocess.Popen[bytes]:
    """Start a child in its own session, both outputs joined in `stdout`; `stdin` must fit a pipe (64 KiB)."""
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, stdin)
    finally:
        os.close(write_end)
    try:
        return subprocess.Popen(  # type: ignore[call-overload]
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=read_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent(death_signal),
            **_credentials(account),
        )
    finally:
        os.close(read_end)


def write_atomically(path: Path, content: str, mode: int = 0o644) -> None:
    """Replace `path`, so that a reader sees the old content or the new, and never a wider mode than `mode`."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as out:
        out.write(content)
    fresh.chmod(mode)
    fresh.replace(path)


def signal_group(pid: int, number: int) -> None:
    """Signal the session that `spawn` made for `pid`."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def working_in(directory: Path) -> list[int]:
    """Processes whose working directory is `directory`: how orphaned database backends are known (needs /proc)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == directory:
                found.append(int(entry.name))
    return found


def command_of(pid: int) -> str:
    """The command line of a process in one line; empty when it cannot be read."""
    with contextlib.suppress(OSError):
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        return raw.replace(b"\0", b" ").decode(errors="replace").strip()
    return ""
