"""Every command that people or scripts rely on exists, explains itself and has a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.architecture.sources import ROOT

OURS = sorted(name for name, app in get_commands().items() if str(app).startswith(("fleet.", "dashboard")))


def text_of_all_tests() -> str:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.mark.parametrize("command", OURS)
def test_a_command_says_what_it_is_for(command: str) -> None:
    loaded = load_command_class(get_commands()[command], command)
    assert loaded.help.strip(), f"`manage.py help {command}` says nothing"


def test_every_command_has_a_test() -> None:
    text = text_of_all_tests()
    untested = [
        command
        for command in OURS
        if not any(
            sign in text
            for sign in (
                f'call_command("{command}"',
                f'"{command}"',
                f"commands.{command} ",
                f"commands import {command}",
            )
        )
    ]
    assert untested == []
