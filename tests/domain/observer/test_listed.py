"""A cluster that no API server tells of: its nodes and exporters are listed in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from fleet import wiring
from fleet.health.models import NodeVerdict
from fleet.inventory.models import Cluster, Device, Node
from fleet.observer.conditions import Conditions
from fleet.observer.session import Session
from fleet.observer.targetlist import TargetList
from fleet.ports.cluster import Change, WatchState
from fleet.ports.errors import PermanentError
from tests.domain.observer.test_process import NODES, run, simulator, var  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db(transaction=True)
RACK = "topology.muster.dev/rack"


def a_list(place: Path, nodes: dict[str, object]) -> Path:
    place.write_text(yaml.safe_dump({"version": 1, "nodes": nodes}))
    return place


def test_listed_nodes_are_watched_without_any_api(var: Path, simulator: Path) -> None:  # noqa: F811
    url = (simulator / "url").read_text().strip().rstrip("/")
    names = [line.split(",")[0] for line in (simulator / "inventory.csv").read_text().splitlines()[1:] if line]
    nodes: dict[str, object] = {
        name: {
            "exporters": {"dcgm": f"{url}/nodes/{name}/dcgm/metrics", "node": f"{url}/nodes/{name}/node/metrics"},
            "labels": {RACK: "r07"},
        }
        for name in names
    }
    place = a_list(var / "targets.yml", nodes)
    added = run(var, "cluster", "add", "bare", "--targets", str(place), "--selector", "*")
    assert added.returncode == 0, added.stderr
    assert "!" not in added.stdout
    done = run(var, "observe", "bare", "--once")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["nodes"], told["targets"], told["scraped"], told["incidents"]) == (NODES, 2 * NODES, 2 * NODES, 0)
    assert set(Node.objects.values_list("rack", "ready")) == {("r07", True)}
    assert Device.objects.filter(kind="gpu").count() == 8 * NODES
    assert set(NodeVerdict.objects.values_list("verdict", flat=True)) == {"healthy"}


def test_a_list_with_mistakes_is_refused_with_all_of_them(tmp_path: Path) -> None:
    place = a_list(tmp_path / "targets.yml", {"a": {"exporters": {"dcgn": "http://x/"}}, "b": {"gpus": 8}})
    with pytest.raises(CommandError, match=r"(?s)'dcgn'.*'gpus'"):
        call_command("cluster", "add", "bare", "--targets", str(place))
    assert not Cluster.objects.exists()


def changes_of(path: Path, change: Callable[[], object]) -> list[Change]:
    """What the stream of nodes tells of the list as it is, and after it changed."""
    cluster = Cluster(name="bare", targets_file=str(path))
    told: list[Change] = []
    states: list[WatchState] = []
    for item in wiring.reader(cluster).watch_nodes(lambda: False, states.append):
        told.append(item)
        if item.kind == "synced" and len([1 for one in told if one.kind == "synced"]) == 2:
            return told
        if item.kind == "synced":
            change()
    raise AssertionError


def test_a_changed_list_tells_what_is_new_and_what_is_gone(tmp_path: Path) -> None:
    place = a_list(tmp_path / "t.yml", {"gpu-1": {}, "gpu-2": {}})
    told = changes_of(place, lambda: a_list(place, {"gpu-2": {}, "gpu-3": {"labels": {RACK: "r1"}}}))
    assert [(item.kind, getattr(item.item, "name", "")) for item in told] == [
        ("added", "gpu-1"), ("added", "gpu-2"), ("synced", ""), ("added", "gpu-3"), ("synced", ""),
    ]  # fmt: skip
    assert told[-1].names == {"gpu-2", "gpu-3"}


def test_nothing_can_be_done_to_a_listed_node(tmp_path: Path) -> None:
    cluster = Cluster(name="bare", targets_file=str(a_list(tmp_path / "t.yml", {"gpu-1": {}})))
    with pytest.raises(PermanentError, match="No acting credential"):
        wiring.actor(cluster)
    with pytest.raises(PermanentError, match="No scheduler tells"):
        wiring.reader(cluster).pods_on("gpu-1")


def test_a_broken_list_leaves_the_one_before_and_says_so(session: Session, tmp_path: Path) -> None:
    place = a_list(tmp_path / "t.yml", {"gpu-r01-01": {"exporters": {"node": "http://a/"}}, "stranger": {}})
    session.cluster.targets_file = str(place)
    conditions = Conditions([])
    listed = TargetList(session, conditions, {"gpu-r01-01": "gpu-r01-01"}.get)
    listed.look()
    assert list(listed.exporters()) == [("gpu-r01-01", "node")]
    assert [entry["code"] for entry in conditions.changed(0.0) or []] == ["targets_unknown"]
    place.write_text("version: 9")
    version = listed.version
    listed.look()
    assert list(listed.exporters()) == [("gpu-r01-01", "node")] and listed.version == version
    (problem, _) = conditions.changed(1.0) or []
    assert problem["code"] == "targets" and "the one before stays" in problem["text"]
    a_list(place, {"gpu-r01-02": {}})
    listed.look()
    assert not listed.exporters() and listed.version > version
