"""Commands of operation: prepare, demo, doctor, bench."""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from fleet.access.models import Grant, Token, User
from fleet.access.rights import ADMINISTER, VIEW
from fleet.access.selectors import may, token_for
from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Mode
from fleet.ops import bench, doctor
from fleet.ports.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.django_db

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: demo, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: demo, user: {token: none}}]
contexts: [{name: demo, context: {cluster: demo, user: demo}}]
current-context: demo
"""


@pytest.fixture
def var(tmp_path: Path, settings: Settings) -> Path:
    settings.VAR = tmp_path
    (tmp_path / "run").mkdir()
    simulator = tmp_path / "simulator"
    simulator.mkdir()
    for name in ("kubeconfig", "act.kubeconfig"):
        (simulator / name).write_text(KUBECONFIG)
    columns = "node,bmc_address,bmc_uuid,serial,rack,leaf,rail,nvlink_domain,credential_ref"
    (simulator / "inventory.csv").write_text(f"{columns}\n")
    return tmp_path


def said(command: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def quiet_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data centre answers here; whether rights are there is another test's subject."""
    from fleet import wiring

    class Silent:
        def check(self) -> list[str]:
            return []

    monkeypatch.setattr(wiring, "reader", lambda cluster: Silent())
    monkeypatch.setattr(wiring, "actor", lambda cluster: Silent())


def test_prepare_finds_nothing_left_and_frees_its_lock() -> None:
    assert "0 migrations applied" in said("prepare")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        assert cursor.fetchone() == (0,)


def test_demo_without_a_simulator_says_what_to_start(tmp_path: Path, settings: Settings) -> None:
    settings.VAR = tmp_path
    with pytest.raises(CommandError, match=r"manage\.py simulate"):
        call_command("demo")


def test_demo_twice_changes_nothing_and_keeps_the_mode_that_a_person_set(var: Path, quiet_cluster: None) -> None:
    call_command("demo")
    secret = (var / "run" / "push-demo.token").read_text().strip()
    password = (var / "run" / "demo.password").read_text()
    assert Cluster.objects.get().mode == Mode.AUTOMATE
    call_command("cluster", "mode", "demo", "observe")
    call_command("demo")
    assert Cluster.objects.get().mode == Mode.OBSERVE
    assert (var / "run" / "push-demo.token").read_text().strip() == secret
    assert (var / "run" / "demo.password").read_text() == password
    assert Token.objects.count() == 1
    assert token_for(secret, "push", SYSTEM_CLOCK.now())
    user = User.objects.get(username="demo")
    assert user.check_password(password) and may(user, ADMINISTER)


def test_demo_secrets_are_readable_by_their_owner_alone(var: Path, quiet_cluster: None) -> None:
    call_command("demo")
    for name in ("push-demo.token", "demo.password"):
        assert stat.S_IMODE((var / "run" / name).stat().st_mode) == 0o600


def test_a_token_of_a_lost_database_is_made_again(var: Path, quiet_cluster: None) -> None:
    (var / "run" / "push-demo.token").write_text("mst_of_another_life")
    call_command("demo")
    assert token_for((var / "run" / "push-demo.token").read_text().strip(), "push", SYSTEM_CLOCK.now())


def test_doctor_finds_the_servers_of_this_run(capsys: pytest.CaptureFixture[str]) -> None:
    findings = {finding.what: finding for finding in doctor.examine() if finding.what in ("database", "redis")}
    assert findings["database"].good, findings["database"].text
    assert findings["redis"].good, findings["redis"].text


def test_doctor_names_what_is_missing_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fleet.ops.management.commands.doctor.examine",
        lambda: iter([doctor.Finding("redis", False, "does not answer"), doctor.Finding("clusters", None, "none yet")]),
    )
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=out)
    assert ended.value.code == 1
    assert out.getvalue().splitlines() == ["MISSING  redis: does not answer", "note     clusters: none yet"]


def test_doctor_says_which_right_a_cluster_lacks(monkeypatch: pytest.MonkeyPatch, quiet_cluster: None) -> None:
    from fleet import wiring

    class Lacking:
        def check(self) -> list[str]:
            return ["The credential may not patch nodes."]

    monkeypatch.setattr(wiring, "actor", lambda cluster: Lacking())
    Cluster.objects.create(name="east", created_at=SYSTEM_CLOCK.now())
    texts = [finding.text for finding in doctor.examine() if finding.what == "cluster east"]
    assert texts == ["reading: every right that is needed is there", "acting: The credential may not patch nodes."]


def test_bench_prints_one_json_line_for_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fake")
    module.run = lambda nodes: {"cycle_s": nodes / 1000}  # type: ignore[attr-defined]
    monkeypatch.setattr(bench, "names", lambda: ["rules"])
    monkeypatch.setattr(bench.importlib, "import_module", lambda name: module)
    told = json.loads(said("bench", "rules", "--nodes", "500", "--json", "-"))
    assert told == {"name": "rules", "nodes": 500, "metrics": {"cycle_s": 0.5}}


def test_bench_all_runs_each_in_its_quick_form_and_the_patient_ones_last(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty, patient = ModuleType("hasty"), ModuleType("patient")
    hasty.run, hasty.quick = lambda nodes: {"whole": 1}, lambda nodes: {"part": nodes}  # type: ignore[attr-defined]
    patient.PATIENT = True  # type: ignore[attr-defined]
    modules = {"fleet.ops.bench.a-patient": patient, "fleet.ops.bench.hasty": hasty}
    monkeypatch.setattr(bench, "names", lambda: ["a-patient", "hasty"])
    monkeypatch.setattr(bench.importlib, "import_module", modules.__getitem__)
    told = """import json; print(json.dumps({"name": "a-patient", "nodes": 7, "metrics": {"by_itself": 1}}))"""
    monkeypatch.setattr(bench, "argv_of", lambda name, nodes: [sys.executable, "-c", told])
    lines = [json.loads(line) for line in said("bench", "all", "--nodes", "7", "--json", "-").splitlines()]
    assert [line["metrics"] for line in lines] == [{"part": 7}, {"by_itself": 1}]


def test_bench_lists_what_there_is_when_the_name_is_wrong() -> None:
    with pytest.raises(CommandError, match="no benchmark speed; there are:"):
        call_command("bench", "speed")


def test_the_first_account_is_made_and_more_follow(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse\n", encoding="utf-8")
    out = io.StringIO()
    call_command("user", "add", "jiwoo", "--role", "admin", "--password-file", str(secret), stdout=out)
    jiwoo = User.objects.get(username="jiwoo")
    assert jiwoo.check_password("correct horse") and may(jiwoo, ADMINISTER)
    call_command("user", "list", stdout=out)
    assert "jiwoo: admin everywhere" in out.getvalue()
    grant = AuditRow.objects.get(chain="site", action="user.grant")
    assert grant.detail == {"name": "jiwoo", "role": "admin"}


def test_a_closed_account_may_nothing_and_a_weak_password_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse\n", encoding="utf-8")
    call_command("user", "add", "minseo", "--role", "operator", "--password-file", str(secret), stdout=io.StringIO())
    call_command("user", "add", "minseo", "--role", "approver", stdout=io.StringIO())
    assert Grant.objects.filter(user__username="minseo").count() == 2
    call_command("user", "close", "minseo", stdout=io.StringIO())
    assert not may(User.objects.get(username="minseo"), VIEW)
    assert not Grant.objects.filter(user__username="minseo").exists()
    with pytest.raises(CommandError, match=r"No open account is named minseo\."):
        call_command("user", "close", "minseo")
    secret.write_text("short\n", encoding="utf-8")
    with pytest.raises(CommandError, match="too short"):
        call_command("user", "add", "dohyun", "--role", "viewer", "--password-file", str(secret))
