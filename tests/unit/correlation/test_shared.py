"""Which signs on many nodes have one cause outside of them: the rules themselves, on any signs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.health import correlation
from fleet.health import correlation_shared as shared
from fleet.health.correlation_shared import Group, Limits, Shape, Sign
from tests.builders import T0

LIMITS = Limits()
SHAPE = Shape(256, {"nfs-01": 20})
NOW = T0 + timedelta(seconds=100)


def a_sign(node: str = "n1", **fields: Any) -> Sign:
    values: dict[str, Any] = {"rule": "ib-down", "cause": "ib-down", "device": "mlx5_0/1", "source": "node_exporter"}
    return Sign(node=node, at=T0, **{**values, **fields})


def groups(*signs: Sign, shape: Shape = SHAPE) -> list[Group]:
    return shared.group(signs, shape, LIMITS, NOW)


def test_three_nodes_of_a_leaf_are_one_fault_of_the_leaf_and_two_are_not() -> None:
    signs = [a_sign(f"n{i}", leaf="leaf-2") for i in range(3)]
    (found,) = groups(*signs)
    assert (found.scope, found.place, found.nodes) == ("leaf", "leaf-2", ["n0", "n1", "n2"])
    assert groups(*signs[:2]) == []


def test_a_mount_server_is_blamed_from_thirty_percent_of_its_mounters_on() -> None:
    signs = [
        a_sign(f"n{i}", rule="mount-hung", cause="mount-hung", device="mount:/d", server="nfs-01") for i in range(6)
    ]
    few = Shape(1000, {"nfs-01": 10})
    assert groups(*signs[:3], shape=few)[0].scope == "mount_server"
    assert groups(*signs[:2], shape=few) == []
    assert groups(*signs[:5])[0].scope == "mount_server"  # not thirty percent, but as many as accuse any detector
    assert groups(*signs[:4]) == []


def test_the_server_is_read_from_whatever_names_it() -> None:
    assert shared.server_of("mount-hung", "mount:/data", "nfs-b") == "nfs-b"
    assert shared.server_of("mount-hung", "nfs:nfs-b") == "nfs-b"
    assert shared.server_of("nfs-timeouts", "export:nfs-b.local:/export/data") == "nfs-b.local"
    assert shared.server_of("ib-down", "mlx5_0/1", "nfs-b") == ""


def test_two_nodes_accuse_a_check_whose_rule_was_just_changed_and_no_other_check() -> None:
    signs = [a_sign(f"n{i}", rule="thermal", cause="thermal", device="GPU-1") for i in range(2)]
    changed = Shape(256, {}, {"thermal": "its rule was changed at 03:00 UTC"})
    (found,) = groups(*signs, shape=changed)
    assert (found.scope, found.place, found.nodes) == ("detector", "thermal", ["n0", "n1"])
    assert groups(*signs) == [] and groups(*signs[:1], shape=changed) == []
    assert groups(*(a_sign(f"n{i}", rule="gpu-count", cause="gpu-count") for i in range(2)), shape=changed) == []
    own = [a_sign(f"n{i}", rule="thermal", cause="thermal", source="kernel_log") for i in range(2)]
    assert groups(*own, shape=changed) == [], "what the kernel says of a part stays the node's own"


def test_one_check_on_five_nodes_accuses_the_detector_and_on_four_nobody() -> None:
    signs = [a_sign(f"n{i}", rule="gpu-count", cause="gpu-count", device="") for i in range(5)]
    assert groups(*signs)[0].scope == "detector"
    assert groups(*signs[:4]) == []


def test_two_percent_of_a_small_cluster_is_never_less_than_three_nodes() -> None:
    signs = [a_sign(f"n{i}", rule="gpu-count", cause="gpu-count", device="") for i in range(3)]
    assert len(groups(*signs, shape=Shape(100))) == 1
    assert groups(*signs[:2], shape=Shape(20)) == []


def test_kernel_lines_that_name_a_gpu_stay_their_nodes_own_however_many() -> None:
    lines = [a_sign(f"n{i}", rule="xid-log", cause="xid-79", device="GPU-1", source="kernel_log") for i in range(80)]
    assert groups(*lines) == []
    assert shared.settles(lines[0], LIMITS) == 0


def test_nvlink_errors_of_a_domain_are_one_fault_and_the_node_with_its_own_is_blamed() -> None:
    signs = [
        a_sign(f"n{i}", rule="xid-log", cause="xid-74", device="GPU-1", source="kernel_log", domain="nvl-1")
        for i in range(4)
    ]
    (found,) = groups(*signs)
    assert (found.scope, found.place) == ("nvlink_domain", "nvl-1")
    blame = shared.blamed(found.nodes, {"n2": "xid-79"})
    text, args = shared.title((found.scope, found.place, found.family), 4, blame)
    assert "n2" in text % args and "xid-79" in text % args


def test_power_supplies_of_a_rack_are_one_fault_of_its_shelf() -> None:
    signs = [a_sign(f"n{i}", rule="psu-lost", cause="psu-lost", device="psu:0", rack="r01") for i in range(2)]
    assert groups(*signs)[0].scope == "power"


def test_signs_further_apart_than_the_window_are_no_event() -> None:
    old = [a_sign(f"n{i}", rule="gpu-count", cause="gpu-count", device="") for i in range(9)]
    assert shared.group(old, SHAPE, LIMITS, T0 + timedelta(seconds=LIMITS.window + 1)) == []


def test_a_late_sign_joins_a_server_but_not_a_detector_that_was_long_ago() -> None:
    late = a_sign(rule="mount-hung", cause="mount-hung", device="mount:/d", server="nfs-01")
    long_ago = T0 - timedelta(hours=1)
    assert shared.joins(late, ("mount_server", "nfs-01", "mount"), long_ago, LIMITS)
    assert not shared.joins(late, ("detector", "mount-hung", "mount-hung"), long_ago, LIMITS)
    assert not shared.joins(late, ("mount_server", "nfs-02", "mount"), T0, LIMITS)


some_signs = st.builds(
    Sign,
    node=st.sampled_from([f"n{i}" for i in range(12)]),
    rule=st.sampled_from(["ib-down", "xid-log", "mount-hung", "gpu-count", "psu-lost"]),
    cause=st.sampled_from(
        ["ib-down", "ib-flap", "xid-79", "xid-74", "mount-hung", "gpu-count", "psu-lost", "sxid-11001"]
    ),
    at=st.integers(-400, 100).map(lambda s: T0 + timedelta(seconds=s)),
    device=st.sampled_from(["", "GPU-1", "mlx5_0/1", "nfs:nfs-01"]),
    source=st.sampled_from(["kernel_log", "node_exporter", "dcgm"]),
    leaf=st.sampled_from(["", "l1", "l2"]),
    rack=st.sampled_from(["", "r1"]),
    domain=st.sampled_from(["", "d1"]),
    server=st.sampled_from(["", "nfs-01"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(some_signs, max_size=40, unique=True), st.randoms())
def test_whatever_comes_in_whatever_order(signs: list[Sign], random: Any) -> None:
    found = groups(*signs)
    taken = [sign for group in found for sign in group.signs]
    assert len(taken) == len(set(taken)), "a sign is part of two shared faults"
    begin = NOW - timedelta(seconds=LIMITS.window)
    for group in found:
        place = (group.scope, group.place, group.family)
        assert len(group.nodes) >= max(2, shared.needed(place, SHAPE, LIMITS))
        assert all(place in shared.places_of(sign) and sign.at >= begin for sign in group.signs)
    for sign in taken:
        assert correlation.is_sympathetic(sign.cause) or not shared.is_own(sign.source, sign.device)
    random.shuffle(signs)
    again = groups(*signs)
    assert {(g.scope, g.place, frozenset(g.signs)) for g in again} == {
        (g.scope, g.place, frozenset(g.signs)) for g in found
    }
