"""`manage.py policy`, `stop` and `resume`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from fleet.audit.models import AuditRow
from fleet.policy.models import Approval, Cap, Switch

pytestmark = pytest.mark.django_db


def said(command: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(said("policy", "show"), encoding="utf-8")
    return path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_what_is_shown_is_a_file_that_changes_nothing(file: Path) -> None:
    assert "without mistakes" in said("policy", "check", str(file))
    assert "Nothing differs." in said("policy", "diff", str(file))
    with pytest.raises(CommandError, match="Nothing differs"):
        said("policy", "apply", str(file), "--reason", "x")


def test_a_mistake_is_told_with_file_and_line(file: Path) -> None:
    change(file, "hold: {fleet: 20%}", "hold: {fleet: 200%}")
    with pytest.raises(CommandError, match=r"policy.yaml:4: default.caps.hold.fleet cannot be '200%'"):
        said("policy", "check", str(file))
    with pytest.raises(CommandError, match="No such file"):
        said("policy", "check", str(file.with_name("none.yaml")))


def test_a_tightening_is_in_force_and_a_loosening_waits(file: Path) -> None:
    change(file, "hold: {fleet: 20%}", "hold: {fleet: 10%}")
    assert "tighter  every cluster  caps.hold.fleet: 20% -> 10%" in said("policy", "diff", str(file))
    assert "is in force" in said("policy", "apply", str(file), "--reason", "fewer at once")
    assert Cap.objects.get(kind="hold").percent == 10
    change(file, "hold: {fleet: 10%}", "hold: {fleet: 50%}")
    assert "looser   every cluster  caps.hold.fleet: 10% -> 50%" in said("policy", "diff", str(file))
    assert "waits for another person's approval" in said("policy", "apply", str(file), "--reason", "more at once")
    assert Cap.objects.get(kind="hold").percent == 10 and Approval.objects.get().kind == "loosen"
    listed = said("policy", "history").splitlines()
    assert "more at once (not in force)" in listed[0] and "Found in force." in listed[-1]
    first = listed[-1].split()[0]
    assert "hold: {fleet: 20%}" in said("policy", "show", first)
    with pytest.raises(CommandError, match="There is no version POL-999999"):
        said("policy", "show", "POL-999999")


def test_stop_needs_no_reason_and_resume_does() -> None:
    assert "All new disruption is stopped" in said("stop")
    assert Switch.objects.get().stopped
    with pytest.raises(CommandError):
        said("resume", "--reason", " ")
    assert "may start again" in said("resume", "--reason", "false alarm")
    assert not Switch.objects.get().stopped
    assert AuditRow.objects.filter(action__in=["switch.stop", "switch.resume"]).count() == 2
    with pytest.raises(CommandError, match="Nothing is stopped"):
        said("resume", "--reason", "again")
