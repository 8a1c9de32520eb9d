"""Inventory files: good lines count, bad ones are told one by one, pins never change in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.audit.models import AuditRow
from fleet.inventory import aliases, files, importer
from fleet.inventory.files import Report
from fleet.inventory.models import Bmc, Cluster, Node
from tests.builders import T0, a_cluster, a_node

pytestmark = pytest.mark.django_db
HEADER = "node,bmc_address,bmc_uuid,serial,rack,leaf,credential_ref\n"


@pytest.fixture
def cluster() -> Cluster:
    cluster = a_cluster()
    a_node(cluster, "n-01", rack="")
    a_node(cluster, "n-02", rack="")
    return cluster


def take(cluster: Cluster, tmp_path: Path, content: str | bytes, name: str = "i.csv", **options: bool) -> Report:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    lines, unread = files.read_file(path)
    report = importer.import_lines(cluster, lines, by="minseo", now=T0, **options)
    report.errors += unread.errors
    report.counts += unread.counts
    return report


def test_a_csv_fills_bmcs_places_and_aliases(cluster: Cluster, tmp_path: Path) -> None:
    report = take(cluster, tmp_path, HEADER + "n-01,https://10.1.0.1,U-1,S-1,r07,leaf-9,env:BMC\n")
    bmc = Bmc.objects.get()
    assert (bmc.pinned_uuid, bmc.pinned_serial, bmc.credential_ref) == ("U-1", "S-1", "env:BMC")
    assert Node.objects.get(name="n-01").rack == "r07"
    assert aliases.load(cluster.pk).resolve("S-1").node_id == bmc.node_id
    assert not report.errors
    assert AuditRow.objects.filter(action="inventory.import", node="n-01").count() == 1


def test_the_same_file_again_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    content = HEADER + "n-01,https://10.1.0.1,U-1,S-1,r07,leaf-9,env:BMC\n"
    take(cluster, tmp_path, content)
    assert take(cluster, tmp_path, content).changes == []


def test_a_dry_run_tells_the_difference_and_writes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    report = take(cluster, tmp_path, HEADER + "n-01,https://10.1.0.1,,S-1,r07,,\n", dry_run=True)
    assert "n-01: rack nothing -> r07" in report.changes
    assert not Bmc.objects.exists() and Node.objects.get(name="n-01").rack == ""


def test_bad_lines_are_counted_and_good_ones_taken(cluster: Cluster, tmp_path: Path) -> None:
    lines = [
        b"n-99,https://10.1.0.9,,S-9,,,",
        b"n-01,ftp://10.1.0.1,,S-1,,,",
        b"n-01,https://10.1.0.1,,S-1",
        b"n-01,https://10.1.0.1,,S-\xff,,,",
        b"n-02,https://10.1.0.2,,S-2,,,",
    ]
    report = take(cluster, tmp_path, HEADER.encode() + b"\n".join(lines) + b"\n")
    assert report.counts == {"unknown_node": 1, "bad_address": 1, "bad_line": 1, "bad_encoding": 1}
    assert any(text.startswith("line 2:") and "n-99" in text for text in report.errors)
    assert list(Bmc.objects.values_list("node__name", flat=True)) == ["n-02"]


def test_a_serial_or_address_of_two_nodes_goes_to_neither(cluster: Cluster, tmp_path: Path) -> None:
    report = take(cluster, tmp_path, HEADER + "n-01,https://a,,S-1,,,\nn-02,https://b,,S-1,,,\n")
    assert report.counts == {"duplicate_serial": 2} and not Bmc.objects.exists()
    report = take(cluster, tmp_path, HEADER + "n-01,https://a,,S-1,,,\nn-02,https://a,,S-2,,,\n")
    assert report.counts == {"duplicate_address": 2} and not Bmc.objects.exists()


@pytest.mark.parametrize(
    ("uuid", "serial"),
    [
        ("", "To Be Filled By O.E.M."),
        ("", "Default string"),
        ("", "0000000000"),
        ("00000000-0000-0000-0000-000000000000", "S-1"),
        ("03000200-0400-0500-0006-000700080009", ""),
        ("Not Specified", ""),
    ],
)
def test_what_a_maker_left_unset_is_no_pin(cluster: Cluster, tmp_path: Path, uuid: str, serial: str) -> None:
    lines = f"n-01,https://10.1.0.1,{uuid},{serial},,,\nn-02,https://10.1.0.2,,S-2,,,\n"
    report = take(cluster, tmp_path, HEADER + lines)
    assert report.counts == {"no_identity": 1} and "leave the cell empty" in report.errors[0]
    assert [bmc.pinned_serial for bmc in Bmc.objects.all()] == ["S-2"]


def test_a_pin_changes_only_when_told_to(cluster: Cluster, tmp_path: Path) -> None:
    take(cluster, tmp_path, HEADER + "n-01,https://a,,S-1,,,\n")
    swapped = HEADER + "n-01,https://a,,S-NEW,,,\n"
    report = take(cluster, tmp_path, swapped)
    assert report.counts == {"pinned": 1} and Bmc.objects.get().pinned_serial == "S-1"
    take(cluster, tmp_path, swapped, repin=True)
    assert Bmc.objects.get().pinned_serial == "S-NEW"
    table = aliases.load(cluster.pk)
    assert table.resolve("S-1").miss == "unknown_node" and table.resolve("S-NEW").node_id is not None


def test_a_bmc_that_moved_keeps_its_identity(cluster: Cluster, tmp_path: Path) -> None:
    take(cluster, tmp_path, HEADER + "n-01,https://a,U-1,S-1,,,\n")
    take(cluster, tmp_path, HEADER + "n-01,https://b,U-1,S-1,,,\n")
    assert Bmc.objects.get().address == "https://b"


def test_yaml_may_list_several_bmcs_of_a_node(cluster: Cluster, tmp_path: Path) -> None:
    content = """
nodes:
  - node: n-01
    rack: r07
    bmcs:
      - {bmc_address: "https://a", serial: S-1}
      - {bmc_address: "https://d", bmc_kind: dpu, serial: D-1}
  - node: n-02
    colour: blue
  - just text
"""
    report = take(cluster, tmp_path, content, name="i.yaml")
    assert set(Bmc.objects.values_list("kind", "address")) == {("host", "https://a"), ("dpu", "https://d")}
    assert report.counts == {"bad_column": 1, "bad_line": 1}


@pytest.mark.parametrize("content", ["", "host,serial\n", "node,node\nx,y\n", "node,colour\nx,y\n"])
def test_a_file_whose_header_is_wrong_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "i.csv"
    path.write_text(content)
    with pytest.raises(files.UnreadableFile):
        files.read_file(path)


def test_before_the_first_connect_nodes_are_expected(tmp_path: Path) -> None:
    fresh = a_cluster("new", connected_at=None)
    report = take(fresh, tmp_path, HEADER + "n-77,https://a,,S-77,r07,,\n")
    node = Node.objects.get(name="n-77")
    assert not report.errors and node.gone_at is not None and node.uid == ""
    assert aliases.load(fresh.pk).resolve("n-77").miss == "unknown_node"
