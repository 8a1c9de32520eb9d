"""The embedded servers come up wherever the checkout lies, and come back after any death."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fleet.ops.embedded import location
from fleet.ops.embedded.location import Unreachable, choose_base, choose_socket_directory, ensure_directory
from fleet.ops.embedded.postgres import DatabaseFailure, Postgres
from fleet.ops.embedded.valkey import Valkey
from fleet.ops.processes import spawn, unprivileged_account, working_in
from tests.patience import PATIENCE, left_in_time, until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another account")


@pytest.fixture
def var() -> Iterator[Path]:
    """A directory that other accounts can enter, which pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="muster-embedded-"))
    made.chmod(0o755)
    (made / "run").mkdir()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def server(var: Path) -> Postgres:
    said: list[str] = []
    postgres = Postgres(var, unprivileged_account(), said.append, fsync="off")
    postgres.prepare()
    return postgres


def answering(server: Postgres | Valkey, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    return server.answers()


def started(server: Postgres) -> subprocess.Popen[bytes]:
    server.settle()
    process = spawn(
        server.command(), env=os.environ, cwd=server.base, account=server.account, death_signal=signal.SIGQUIT
    )
    until(lambda: answering(server, process))
    return process


def test_postgres_is_back_with_its_data_after_kill_9_under_load(server: Postgres) -> None:
    process = started(server)
    try:
        server.ensure_database()
        with psycopg.connect(server.url(), autocommit=True) as link:
            link.execute("CREATE TABLE kept AS SELECT 7 AS value")
            link.execute("SELECT set_config('statement_timeout', '0', false)")
        busy = psycopg.connect(server.url("postgres", "postgres"), autocommit=True)
        busy.pgconn.send_query(
            b"SELECT count(*) FROM generate_series(1, 100000000000)"
        )  # a backend that does not look up
        time.sleep(0.1)
        process.kill()
        process.wait()
        with left_in_time():
            process = started(server)
        with psycopg.connect(server.url()) as link:
            assert link.execute("SELECT value FROM kept").fetchone() == (7,)
            row = link.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
            assert row == (False,)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert not working_in(server.data)


def test_a_pid_file_whose_number_now_belongs_to_a_stranger_does_not_stop_the_start(server: Postgres) -> None:
    stranger = spawn(["sleep", "60"], env={}, cwd=Path("/"), account=server.account)
    lines = [
        str(stranger.pid),
        str(server.data),
        str(int(time.time())),
        "5432",
        str(server.socket),
        "",
        "  1234567     3",
    ]
    (server.data / "postmaster.pid").write_text("\n".join(lines) + "\n")
    process = started(server)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    assert stranger.poll() is None, "a process that is none of ours was ended"
    stranger.kill()
    stranger.wait()


def test_a_second_preparation_keeps_data_and_password(server: Postgres, var: Path) -> None:
    again = Postgres(var, unprivileged_account(), print)
    again.prepare()
    assert (again.url(), again.data) == (server.url(), server.data)


def test_a_lost_password_is_said(server: Postgres, var: Path) -> None:
    (server.base / "password").unlink()
    with pytest.raises(DatabaseFailure, match="password is missing"):
        Postgres(var, unprivileged_account(), print).prepare()


def test_data_of_another_major_version_is_said(server: Postgres, var: Path) -> None:
    (server.data / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseFailure, match="made by PostgreSQL 12"):
        Postgres(var, unprivileged_account(), print).prepare()


def test_secrets_are_readable_by_nobody_else(server: Postgres) -> None:
    assert stat.S_IMODE((server.base / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700


@ROOT_ONLY
def test_a_checkout_that_the_account_cannot_enter_gets_its_data_elsewhere(
    var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = var / "private"
    private.mkdir(mode=0o700)
    hidden = private / "var"
    hidden.mkdir()
    base = choose_base(hidden, unprivileged_account())
    try:
        assert not base.is_relative_to(private)
        private.chmod(0o755)  # the way is open now, but the data stays where it is
        assert choose_base(hidden, unprivileged_account()) == base
    finally:
        shutil.rmtree(base)


@ROOT_ONLY
def test_binaries_that_the_account_cannot_reach_are_copied(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    postgres = Postgres(var, unprivileged_account(), said.append)
    answered: list[str] = []

    def only_copies(account: object, argv: list[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
        answered.append(argv[0])
        if "site-packages" in argv[0]:
            return subprocess.CompletedProcess(argv, 126, "", "no way")
        return run_as(account, argv, timeout)  # type: ignore[arg-type]

    from fleet.ops.embedded import postgres as module

    run_as = module.run_as
    monkeypatch.setattr(module, "run_as", only_copies)
    postgres.prepare()
    assert postgres.command()[0].startswith(str(postgres.base))
    assert any("copying PostgreSQL" in text for text in said)
    process = started(postgres)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)


def test_a_long_path_gets_its_socket_elsewhere(var: Path) -> None:
    account = unprivileged_account()
    deep = var / ("x" * 90)
    deep.mkdir()
    short = choose_socket_directory(deep, account)
    try:
        assert len(str(short / ".s.PGSQL.5432")) <= location.SOCKET_LIMIT
    finally:
        short.rmdir()


def test_a_directory_of_somebody_else_is_refused(var: Path) -> None:
    (var / "link").symlink_to(var / "run")
    with pytest.raises(Unreachable, match="not a directory of this user"):
        ensure_directory(var / "link", None, 0o755)


def test_valkey_keeps_its_port_and_asks_for_a_password(var: Path) -> None:
    valkey = Valkey(var, unprivileged_account(), print)
    valkey.prepare()
    ports = set()
    for _ in range(2):
        process = spawn(valkey.command(), env={}, cwd=var, account=valkey.account, stdin=valkey.configuration())
        until(lambda: answering(valkey, process))  # noqa: B023 - asked before the next is started
        ports.add(valkey.port)
        assert valkey.password not in " ".join(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0"))
        with socket.create_connection(("127.0.0.1", valkey.port), timeout=2) as link:
            link.sendall(b"PING\r\n")
            assert link.recv(64).startswith(b"-NOAUTH")
        process.kill()
        process.wait()
    assert len(ports) == 1
    again = Valkey(var, unprivileged_account(), print)
    again.prepare()
    assert again.port == valkey.port
