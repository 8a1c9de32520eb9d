"""The site's rules: checked by a command, read by the observer, and in shadow without consequence."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import OperationalError

from fleet.audit.models import AuditRow
from fleet.health import detector_changes
from fleet.health.modes import ModeOf
from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.siterules import parse
from fleet.inventory.models import Node
from fleet.lifecycle.machine import WorkflowState
from fleet.observer.rulesfile import RulesFile
from fleet.observer.ruleskept import RulesKept
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame
from tests.builders import T0, a_workflow, an_incident


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000_000))


class Memory:
    """What the database keeps."""

    def __init__(self) -> None:
        self.kept: str | None = None
        self.changed: list[set[str]] = []
        self.renewed: list[str] = []

    def text(self) -> str | None:
        return self.kept

    def keep(self, text: str, changed: set[str], now: datetime) -> None:
        self.kept = text
        self.changed.append(changed)

    def renew(self, mode_of: ModeOf, now: datetime) -> None:
        self.renewed.append(mode_of("gpu-lost", ""))


def test_a_changed_file_is_read_and_a_broken_one_leaves_the_rules(tmp_path: Path) -> None:
    path, engine = tmp_path / "rules.yaml", RuleEngine(Frame())
    file = RulesFile(str(path), Memory())
    file.look(engine, T0)
    assert "cannot be read" in file.problem
    write(path, "version: 1\nrules:\n  thermal: {threshold: 80}\n")
    file.look(engine, T0)
    assert (engine.rules["thermal"].threshold, file.problem) == (80, "")
    write(path, "version: 1\nrules:\n  thermal: {threshold: hot}\n# longer\n")
    file.look(engine, T0)
    assert engine.rules["thermal"].threshold == 80
    assert "rules.yaml:3: Rule 'thermal': threshold cannot be 'hot'" in file.problem
    write(path, "version: 1\n")
    file.look(engine, T0)
    assert (engine.rules["thermal"].threshold, file.problem) == (90, "")


def test_what_a_new_reading_changed_is_remembered_over_a_restart(tmp_path: Path) -> None:
    path, kept = tmp_path / "rules.yaml", Memory()
    write(path, "version: 1\nrules:\n  thermal: {threshold: 80}\n")
    RulesFile(str(path), kept).look(RuleEngine(Frame()), T0)
    assert kept.changed == [set()], "nothing was judged before"
    RulesFile(str(path), kept).look(RuleEngine(Frame()), T0)
    assert kept.changed[1:] == [set()], "a restart changes no rule"
    write(path, "version: 1\nrules:\n  thermal: {threshold: 70}\npools:\n  p:\n    psu: {shadow: true}\n")
    RulesFile(str(path), kept).look(RuleEngine(Frame()), T0)
    assert kept.changed[2:] == [{"thermal", "psu"}], "the file was changed while no observer ran"


LIMITED = "version: 1\nrules:\n  gpu-lost: {mode: recommend}\n"


def test_what_is_open_follows_the_modes_while_there_are_any_and_once_when_they_are_lifted(tmp_path: Path) -> None:
    path, kept, engine = tmp_path / "rules.yaml", Memory(), RuleEngine(Frame())
    write(path, LIMITED)
    file = RulesFile(str(path), kept)
    for _ in range(2):
        file.look(engine, T0)
    write(path, "version: 1\n# no limit\n")
    for _ in range(2):
        file.look(engine, T0)
    assert kept.renewed == ["recommend", "recommend", "automate"]
    RulesFile("", kept).look(RuleEngine(Frame()), T0)
    assert kept.renewed[3:] == ["automate"], "a site without a file has no limits left"


def test_a_mode_is_no_change_of_what_finds_faults(tmp_path: Path) -> None:
    path, kept, engine = tmp_path / "rules.yaml", Memory(), RuleEngine(Frame())
    file = RulesFile(str(path), kept)
    pools = "pools:\n  p:\n    psu: {mode: observe, threshold: 1}\n"
    for text in ("version: 1\n", LIMITED, LIMITED + pools, LIMITED + pools.replace("observe", "automate")):
        write(path, text)
        file.look(engine, T0)
    assert kept.changed == [set(), set(), {"psu"}, set()]


def test_a_file_that_is_broken_at_the_start_raises_no_mode(tmp_path: Path) -> None:
    path, kept = tmp_path / "rules.yaml", Memory()
    write(path, "version: 1\nrules: {thermal\n")
    RulesFile(str(path), kept).look(RuleEngine(Frame()), T0)
    assert kept.renewed == [], "nobody knows which rules held"
    kept.kept = LIMITED
    engine = RuleEngine(Frame())
    file = RulesFile(str(path), kept)
    file.look(engine, T0)
    assert (engine.rules["gpu-lost"].mode, kept.renewed) == ("recommend", ["recommend"])
    assert file.problem, "and it is still told"


def test_a_database_that_is_away_leaves_the_file_to_be_read_again(tmp_path: Path, monkeypatch: Any) -> None:
    path, kept, engine = tmp_path / "rules.yaml", Memory(), RuleEngine(Frame())
    write(path, LIMITED)
    file = RulesFile(str(path), kept)
    with monkeypatch.context() as away:
        away.setattr(kept, "renew", lambda mode_of, now: (_ for _ in ()).throw(OperationalError("away")))
        with pytest.raises(OperationalError):
            file.look(engine, T0)
    assert engine.rules["gpu-lost"].mode == "automate"
    file.look(engine, T0)
    assert (engine.rules["gpu-lost"].mode, kept.renewed) == ("recommend", ["recommend"])


@pytest.mark.django_db
def test_an_open_incident_is_brought_to_its_rule_s_mode(session: Session, tmp_path: Path) -> None:
    path, engine = tmp_path / "rules.yaml", RuleEngine(Frame())
    incident = an_incident(Node.objects.get(name="gpu-r01-01"), cause="gpu-lost", rule="gpu-lost")
    plan = a_workflow(Node.objects.get(name="gpu-r01-01"), incident, WorkflowState.PLANNED)
    file = RulesFile(str(path), RulesKept(session))
    write(path, LIMITED)
    file.look(engine, T0)
    incident.refresh_from_db()
    plan.refresh_from_db()
    assert (plan.state, plan.outcome) == ("cancelled", "The mode of its rule changed.")
    entry = AuditRow.objects.get(action="incident.mode")
    assert (incident.mode, entry.detail["from"], entry.detail["to"]) == ("recommend", "automate", "recommend")


@pytest.mark.django_db
def test_a_changed_rule_is_known_for_a_while_and_then_forgotten(session: Session, tmp_path: Path) -> None:
    path, kept = tmp_path / "rules.yaml", RulesKept(session)
    for text in ("version: 1\n", "version: 1\nrules:\n  thermal: {threshold: 70}\n"):
        write(path, text)
        RulesFile(str(path), kept).look(RuleEngine(Frame()), T0)
    cluster = session.cluster_id
    known = {"thermal": "its rule was changed at 03:00 UTC"}
    assert detector_changes.lately(cluster, T0 + timedelta(minutes=14)).rules == known
    assert detector_changes.lately(cluster, T0 + timedelta(minutes=15)).rules == {}
    assert detector_changes.forget(T0 + timedelta(minutes=15)) == 1


def run(*args: str) -> str:
    out = StringIO()
    call_command("rules", *args, stdout=out)
    return out.getvalue()


def test_check_says_every_mistake_and_what_a_good_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\nrules:\n  thermal: {threshold: 80}\npools:\n  p:\n    psu: {shadow: true}\n")
    assert "It changes 1 rules of the site, 1 of pool p." in run("check", str(path))
    path.write_text("version: 1\nrules:\n  thermal: {heat: 80}\n  nothing: {}\n")
    with pytest.raises(CommandError, match=r"(?s)yaml:3: .*has no setting 'heat'.*yaml:4: There is no rule 'nothing'"):
        run("check", str(path))
    with pytest.raises(CommandError, match="cannot be read"):
        run("check", str(tmp_path / "none.yaml"))


def test_list_and_show_tell_what_holds_here(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "version: 1\nrules:\n  thermal: {threshold: 80}\n  psu: {shadow: true}\n  fan: {enabled: false}\n"
        "codes:\n  xid: {63: {severity: none}}\npools:\n  p:\n    codes: {xid: {31: {severity: none}}}\n"
    )
    settings.RULES_FILE = str(path)
    listed = {line.split()[1] if line[0] == "*" else line.split()[0]: line for line in run("list").splitlines()}
    assert listed["thermal"].startswith("* thermal") and "80 °C" in listed["thermal"]
    assert " shadow " in listed["psu"] and " off " in listed["fan"] and listed["xid-log"].startswith("  xid-log")
    shown = run("show")
    assert parse(shown, "shown").rules["thermal"].threshold == 80
    assert parse(shown, "shown") == parse(path.read_text(), "given")
    assert yaml.safe_load(run("show", "thermal"))["thermal"]["unit"] == "C"
    with pytest.raises(CommandError, match="There is no rule"):
        run("show", "nothing")
