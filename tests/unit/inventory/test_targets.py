"""A list of targets: what it says, every mistake at once, and never a half of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.inventory.targets import KINDS, BadTargets, parse
from fleet.inventory.targetsfile import TargetsFile
from fleet.ports.fabric import guid_of

GOOD = """
version: 1
nodes:
  gpu-001:
    exporters: {dcgm: "http://10.0.0.1:9400/metrics", node: "http://10.0.0.1:9100/metrics"}
    labels: {topology.muster.dev/rack: r01}
    addresses: [10.0.0.1]
    ports: {mlx5_0: "0x1070FD03000E1A2C"}
  gpu-002:
fabric:
- ufm: https://ufm.example.com
  credential: file:/etc/muster/ufm
  telemetry: http://ufm.example.com:9001/metrics
  every: 60
- exporter: http://ib.example.com:9315/metrics
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadTargets) as caught:
        parse(text)
    return caught.value.mistakes


def test_a_list_is_read() -> None:
    found = parse(GOOD)
    assert list(found.nodes) == ["gpu-001", "gpu-002"]
    assert found.nodes["gpu-001"].exporters["dcgm"] == "http://10.0.0.1:9400/metrics"
    assert found.ports() == {"1070fd03000e1a2c": ("gpu-001", "mlx5_0")}
    ufm, exporter = found.fabric
    assert (ufm.url, ufm.every, ufm.name) == ("https://ufm.example.com", 60.0, "ufm.example.com")
    assert (exporter.url, exporter.telemetry, exporter.every) == ("", "http://ib.example.com:9315/metrics", 30.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("exporters: {dcgn: 'http://x/'}", "there is no kind 'dcgn'; known are dcgm, node"),
        ("exporters: {dcgm: x:9400}", "must begin with http:// or https://"),
        ("exporters: {dcgm: 'http://me:secret@x/'}", "carries a credential"),
        ("exporters: [a]", "must be a mapping, not a list"),
        ("labels: {rack: 7}", "must be text"),
        ("addresses: 10.0.0.1", "must be a list of texts"),
        ("ports: {mlx5_0: banana}", "is no GUID"),
        ("gpus: 8", "'gpus' is not known here"),
    ],
)
def test_a_mistake_of_a_node_names_its_place(line: str, said: str) -> None:
    (mistake,) = mistakes("version: 1\nnodes:\n  gpu-1:\n    " + line)
    assert mistake.startswith("nodes.gpu-1") and said in mistake
    assert "secret" not in mistake


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a mapping, not nothing"),
        ("version: 2", "must be 1, not 2"),
        ("version: 1\nnodes: {a: {}, a: {}}", "line 2: this cannot be used: 'a' is there twice"),
        ("version: 1\nnodes: {a b: {}}", "is no name of a node"),
        ("version: 1\nnodes: [", "this cannot be used"),
        ("version: 1\nfabric: 3", "must be a list"),
        ("version: 1\nfabric: [{every: 9}]", "either 'ufm' or 'exporter'"),
        ("version: 1\nfabric: [{ufm: 'https://u/', exporter: 'http://e/'}]", "either 'ufm' or 'exporter'"),
        ("version: 1\nfabric: [{ufm: 'https://u/', credential: admin:123456}]", "it is not written here"),
        ("version: 1\nfabric: [{ufm: 'https://u/', every: 0.1}]", "must be 1 to 300 seconds"),
        ("version: 1\nnodes: {a: {exporters: {node: 'http://x/'}}, b: {exporters: {node: 'http://x/'}}}", "as well"),
    ],
)
def test_a_mistake_of_the_file_is_said(text: str, said: str) -> None:
    found = mistakes(text)
    assert any(said in mistake for mistake in found), found
    assert not any("123456" in mistake for mistake in found)


def test_all_mistakes_are_told_at_once() -> None:
    text = "version: 3\nnodes: {a: {gpus: 1}, b: {ports: {x: z}}}\nfabric: [{}]\n"
    assert len(mistakes(text)) == 4


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["version", "nodes", "fabric", *KINDS]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["version", "nodes", "fabric", "ufm", "exporters", "a"]), inner, max_size=4
            )
        ),
    )
)
def test_whatever_is_in_the_file_it_is_a_list_or_a_sentence(document: object) -> None:
    try:
        parse(yaml.safe_dump(document))
    except BadTargets as error:
        assert error.mistakes and all(mistake.strip() for mistake in error.mistakes)


def test_guids_have_one_form() -> None:
    assert guid_of("0x1070FD03000E1A2C") == guid_of("1070fd03000e1a2c") == "1070fd03000e1a2c"
    assert guid_of("0x2") == "0000000000000002" and guid_of("leaf-1") == ""


def test_a_file_is_read_again_when_it_changed_and_only_then(tmp_path: Path) -> None:
    place = tmp_path / "targets.yml"
    file = TargetsFile(str(place))
    with pytest.raises(BadTargets, match="cannot be read"):
        file.changed()
    place.write_text(GOOD)
    assert file.changed() is not None and file.changed() is None
    place.write_text("version: 1\nnodes: {")
    for _ in range(2):  # as long as it is broken, it is said
        with pytest.raises(BadTargets):
            file.changed()
    place.write_bytes(b"\xff\xfe")
    with pytest.raises(BadTargets, match="UTF-8"):
        file.changed()
    place.write_text(GOOD)
    os.utime(place, ns=(1, 1))
    found = file.changed()
    assert found is not None and len(found.nodes) == 2
