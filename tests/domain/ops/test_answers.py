"""What the command line answers: why, holds, inventory import, inject."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fleet import wiring
from fleet.gangs.models import GangMoment
from fleet.inventory.models import Bmc, Node
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Suspension
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.cluster import HOLD_ANNOTATION
from tests.builders import T0, a_cluster, a_node, a_workflow, an_incident
from tests.domain.inventory.seen import a_node_seen

pytestmark = pytest.mark.django_db


def said(*words: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def test_why_has_the_keys_that_scripts_rely_on() -> None:
    node = a_node(a_cluster())
    a_workflow(node, an_incident(node), wake_at=SYSTEM_CLOCK.now())
    answer = json.loads(said("why", node.name, "--json"))
    promised = {"node", "state", "verdict", "since", "incident", "workflow", "step", "blocked", "would"}
    assert promised <= set(answer)
    assert (answer["node"], answer["would"]) == (node.name, [])
    assert not answer["blocked"]


def test_why_tells_what_observe_would_do() -> None:
    node = a_node(a_cluster(mode="observe"))
    a_workflow(node, an_incident(node), state=WorkflowState.PLANNED)
    answer = json.loads(said("why", node.name, "--json"))
    assert answer["would"] == ["hold", "drain", "reboot", "validate", "soak", "return"]


def test_why_is_a_line_for_people() -> None:
    node = a_node(a_cluster())
    assert said("why", node.name).startswith(f"{node.name}: in_service, healthy.")


def test_why_of_a_stranger_is_refused() -> None:
    with pytest.raises(CommandError, match="There is no node gpu-r99-01"):
        call_command("why", "gpu-r99-01")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, bool]]:
    """One node with a hold left over, as its cluster tells it; the releases that were asked for."""
    released: list[tuple[str, str, bool]] = []
    seen = a_node_seen("gpu-r01-01", annotations={HOLD_ANNOTATION: "7/op-1"}, unschedulable=True)
    bare = a_node_seen("gpu-r01-02")

    def release(node: str, value: str, resource_version: str, uncordon: bool) -> None:
        released.append((node, value, uncordon))

    monkeypatch.setattr(wiring, "reader", lambda cluster: SimpleNamespace(nodes=lambda: [bare, seen]))
    monkeypatch.setattr(wiring, "actor", lambda cluster: SimpleNamespace(release=release))
    return released


def test_holds_list_names_what_is_left_over(held: list[tuple[str, str, bool]]) -> None:
    a_node(a_cluster())
    assert said("holds", "list") == "demo gpu-r01-01 7/op-1 no workflow: left over\n"


def test_holds_list_names_what_stands_on_jobs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who takes Muster out of a cluster must find everything of ours that is in it."""
    cluster = a_cluster()
    monkeypatch.setattr(wiring, "reader", lambda cluster: SimpleNamespace(nodes=list))
    open_ = {"cluster_id": cluster.pk, "kind": "JobSet", "namespace": "train", "generation": 1, "nodes": ["gpu-1"]}
    times = {"begun_at": T0, "asked_at": T0, "until": T0 + timedelta(hours=1)}
    Suspension.objects.create(name="llm", uid="u-1", mark="7/op-1", **open_, **times)
    Suspension.objects.create(name="over", uid="u-2", mark="7/op-2", ended_at=T0, **open_, **times)
    facts = {"job": "train/ray", "mark": "8/op-3/600", "incident": 8, "until": (T0 + timedelta(hours=1)).isoformat()}
    for what in ("kept", "returned"):
        GangMoment.objects.create(cluster=cluster, gang_key="k", at=T0, kind="kept", what=what, facts=facts)
    suspended, kept = said("holds", "list").splitlines()
    assert suspended.startswith("demo JobSet train/llm 7/op-1 Suspended for the drain of gpu-1; started again when")
    assert kept.startswith("demo RayJob train/ray 8/op-3/600 Its Ray cluster stays") and "incident 8" in kept


def test_holds_release_takes_only_our_mark_and_needs_a_reason(held: list[tuple[str, str, bool]]) -> None:
    a_node(a_cluster())
    with pytest.raises(CommandError, match="--reason"):
        call_command("holds", "release", "gpu-r01-01")
    said("holds", "release", "gpu-r01-01", reason="left by a test")
    assert held == [("gpu-r01-01", "7/op-1", True)]


def test_a_release_leaves_another_owner_s_cordon(held: list[tuple[str, str, bool]]) -> None:
    a_node(a_cluster(), foreign_hold=True)
    assert "another owner stays" in said("holds", "release", "gpu-r01-01", reason="left by a test")
    assert held == [("gpu-r01-01", "7/op-1", False)]


@pytest.mark.parametrize(
    "marks",
    [
        {"labels": {"dgxc.nvidia.com/nvsentinel-state": "quarantined"}},
        {"labels": {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}},
        {"annotations": {"nodewright.nvidia.com/cordon_tuning": "true"}},
    ],
)
def test_a_release_by_hand_leaves_the_cordon_to_whoever_came_on_top(
    held: list[tuple[str, str, bool]], monkeypatch: pytest.MonkeyPatch, marks: dict[str, dict[str, str]]
) -> None:
    """The row knows of cordons that were there before ours; who joined since is told by the node alone."""
    notes = {HOLD_ANNOTATION: "7/op-1", **marks.get("annotations", {})}
    seen = a_node_seen("gpu-r01-01", annotations=notes, labels=marks.get("labels", {}), unschedulable=True)
    monkeypatch.setattr(wiring, "reader", lambda cluster: SimpleNamespace(nodes=lambda: [seen]))
    a_node(a_cluster())
    assert "another owner stays" in said("holds", "release", "gpu-r01-01", reason="left by a test")
    assert held == [("gpu-r01-01", "7/op-1", False)]


COLUMNS = "node,bmc_address,bmc_uuid,serial,rack,leaf,rail,nvlink_domain,credential_ref"


@pytest.fixture
def sheet(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: str) -> str:
        path = tmp_path / "bmcs.csv"
        path.write_text("\n".join([COLUMNS, *lines]) + "\n")
        return str(path)

    return write


def test_inventory_import_tells_and_does_what_changes(sheet: Callable[..., str]) -> None:
    node = a_node(a_cluster())
    path = sheet(f"{node.name},https://10.0.0.1,,SN1,r07,leaf-02,,,env:BMC")
    assert "would change 1 nodes" in said("inventory", "import", path, "--dry-run")
    assert not Bmc.objects.exists()
    assert "changed 1 nodes" in said("inventory", "import", path)
    assert Bmc.objects.get().address == "https://10.0.0.1"
    assert Node.objects.get().rack == "r07"


def test_inventory_import_without_a_cluster_says_what_comes_first(sheet: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="cluster add"):
        call_command("inventory", "import", sheet())
