"""What the supervisor prints and keeps."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fleet.ops.output import Console, RotatingLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_never_grows_beyond_its_limit_and_old_parts_go(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "web.log", limit=100, keep=2)
    for number in range(50):
        log.write(f"line {number:04}\n".encode())
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["web.log", "web.log.1", "web.log.2"]
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    assert (tmp_path / "web.log").read_text().endswith("line 0049\n")


def test_a_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    for word in (b"one\n", b"two\n"):
        log = RotatingLog(tmp_path / "web.log")
        log.write(word)
        log.close()
    assert (tmp_path / "web.log").read_text() == "one\ntwo\n"


def test_a_file_gets_no_colour() -> None:
    stream = io.StringIO()
    Console(stream).line("web", "hello")
    assert stream.getvalue() == "web            hello\n"


def test_a_terminal_gets_a_colour_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    console = Console(stream)
    console.line("web", "hello")
    console.line("worker", "hello")
    first, second = stream.getvalue().splitlines()
    assert first.startswith("\033[36m") and second.startswith("\033[33m")


def test_a_terminal_that_went_away_stops_nothing() -> None:
    stream = io.StringIO()
    console = Console(stream)
    stream.close()
    console.line("web", "hello")
