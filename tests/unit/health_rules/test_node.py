"""Ports, mounts, readiness, clocks, and what is said when nothing is heard."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.tuning import tuned
from fleet.health.rules.types import Edge
from tests.unit.health_rules.world import START, World, told, uuid


@pytest.fixture
def world() -> World:
    made = World()
    made.scrape()
    made.scrape()
    return made


def scrapes(world: World, count: int) -> list[Edge]:
    return [edge for _ in range(count) for edge in world.scrape()]


# -- InfiniBand


@pytest.mark.parametrize(
    ("state", "physical", "severity"), [(1, 2, "unhealthy"), (4, 3, "unhealthy"), (2, 5, "degraded")]
)
def test_a_port_that_stays_down_opens_after_its_window(world: World, state: int, physical: int, severity: str) -> None:
    world.ports["n1", "mlx5_1"] = (state, physical, 1)
    assert scrapes(world, 4) == []
    (edge,) = world.scrape()
    assert (edge.cause, edge.device, edge.severity) == ("ib-down", "mlx5_1/1", severity)
    assert (edge.detected_at - edge.first_bad_at).total_seconds() == 60
    world.ports.clear()
    assert told(scrapes(world, 6)) == [("cleared", "ib-down", "mlx5_1/1")]


def test_a_port_that_comes_back_within_the_window_is_no_fault(world: World) -> None:
    world.ports["n1", "mlx5_1"] = (1, 2, 1)
    scrapes(world, 3)
    world.ports["n1", "mlx5_1"] = (4, 5, 1)
    assert scrapes(world, 8) == []


def test_a_port_never_seen_up_has_no_cable() -> None:
    world = World()
    world.ports["n1", "mlx5_1"] = (1, 3, 0)
    assert scrapes(world, 12) == []


def test_a_port_known_before_a_restart_may_be_down_after_it(world: World) -> None:
    world.restart()
    world.ports["n1", "mlx5_1"] = (1, 2, 1)
    assert told(scrapes(world, 6)) == [("opened", "ib-down", "mlx5_1/1")]


def test_three_drops_in_the_window_are_flapping(world: World) -> None:
    for downed in (1, 2):
        world.ports["n1", "mlx5_0"] = (4, 5, downed)
        assert told(scrapes(world, 4)) == []
    world.ports["n1", "mlx5_0"] = (4, 5, 3)
    (edge,) = world.scrape()
    assert (edge.cause, edge.device, edge.severity) == ("ib-flap", "mlx5_0/1", "degraded")
    assert told(scrapes(world, 20)) == []
    assert told(scrapes(world, 25)) == [("cleared", "ib-flap", "mlx5_0/1")]


def test_drops_spread_over_hours_are_not_flapping(world: World) -> None:
    for downed in range(1, 6):
        world.ports["n1", "mlx5_0"] = (4, 5, downed)
        assert told(scrapes(world, 30)) == []


def test_drops_of_our_own_reboot_do_not_count(world: World) -> None:
    world.change(in_remediation=True)
    world.ports["n1", "mlx5_0"] = (4, 5, 9)
    world.scrape()
    world.change(in_remediation=False)
    assert scrapes(world, 3) == []


# -- mounts


@pytest.mark.parametrize("error", ["mountpoint timeout", "stale NFS file handle"])
def test_a_mount_that_times_out_for_a_minute_is_hung(world: World, error: str) -> None:
    world.mounts["n1", "/data"] = error
    edges = scrapes(world, 6)
    assert told(edges) == [("opened", "mount-hung", "mount:/data")]
    assert edges[0].evidence["server"] == "nfs-01"
    world.mounts.clear()
    assert told(scrapes(world, 3)) == [("cleared", "mount-hung", "mount:/data")]


def test_a_mount_the_exporter_may_not_look_at_is_not_hung(world: World) -> None:
    world.mounts["n1", "/data"] = "permission denied"
    assert scrapes(world, 6) == []


def test_an_nfs_server_that_does_not_answer_for_a_minute(world: World) -> None:
    world.say("nfs: server nfs-01 not responding, still trying")
    assert scrapes(world, 3) == []
    assert told(scrapes(world, 3)) == [("opened", "mount-hung", "nfs:nfs-01")]
    assert told(world.say("nfs: server nfs-01 OK")) == [("cleared", "mount-hung", "nfs:nfs-01")]
    assert scrapes(world, 6) == []


def test_an_nfs_server_that_answers_again_is_no_fault(world: World) -> None:
    world.say("nfs: server nfs-01 not responding, still trying")
    world.pass_time(20)
    world.say("nfs: server nfs-01 OK")
    assert scrapes(world, 8) == []


def test_an_nfs_stall_ends_with_the_boot(world: World) -> None:
    world.say("nfs: server nfs-01 not responding, still trying")
    scrapes(world, 6)
    world.pass_time(10)
    world.reboot()
    assert told(world.scrape()) == [("cleared", "mount-hung", "nfs:nfs-01")]


def test_an_nfs_stall_survives_a_restart(world: World) -> None:
    world.say("nfs: server nfs-01 not responding, still trying")
    world.restart()
    assert told(scrapes(world, 6)) == [("opened", "mount-hung", "nfs:nfs-01")]


# -- readiness


@pytest.mark.parametrize("ready", [False, None])
def test_a_node_not_ready_for_a_minute_opens(world: World, ready: bool | None) -> None:
    world.change(ready=ready, ready_since=world.now, ready_reason="NodeStatusUnknown")
    assert scrapes(world, 4) == []
    assert world.verdict().verdict == "unknown"
    (edge,) = world.scrape()
    assert (edge.cause, edge.device, edge.source) == ("node-not-ready", "", "kubernetes")
    assert edge.text == "Node is not ready: NodeStatusUnknown"
    assert world.verdict().verdict == "unhealthy"
    world.change(ready=True)
    assert told(world.scrape()) == [("cleared", "node-not-ready", "")]


def test_a_node_that_was_not_ready_before_we_came_says_so(world: World) -> None:
    world.change(ready=False, ready_since=START - timedelta(days=1))
    (edge,) = scrapes(world, 6)
    assert edge.evidence["before_connection"] is True


def test_a_node_that_is_rebooting_at_our_hands_is_not_not_ready(world: World) -> None:
    world.change(ready=None, in_remediation=True)
    assert scrapes(world, 20) == []


def test_a_stepped_wall_clock_opens_nothing_early(world: World) -> None:
    world.change(ready=False, ready_since=world.now)
    world.scrape()
    world.now += timedelta(hours=1)
    assert told(world.cycle()) == []


def test_not_ready_ends_also_when_we_were_away(world: World) -> None:
    world.change(ready=False, ready_since=world.now)
    scrapes(world, 6)
    world.restart()
    world.change(ready=True)
    assert told(world.scrape()) == [("cleared", "node-not-ready", "")]


# -- clocks


def test_a_clock_far_off_is_a_finding_of_its_own(world: World) -> None:
    body = f"node_time_seconds {world.now.timestamp() + 900}\n"
    edges: list[Edge] = []
    for _ in range(3):
        world.pass_time(15)
        target = world.frame.target("n1", "node-exporter", 15.0)
        world.intake.scraped(target, body.encode(), world.mono, world.now.timestamp())
        edges += world.cycle()
    assert told(edges) == [("opened", "clock-skew", "")]
    assert (edges[0].severity, edges[0].action_class) == ("degraded", "monitor")


# -- silence


def test_an_exporter_never_heard_makes_the_node_unknown() -> None:
    world = World()
    verdict = world.verdict()
    assert (verdict.verdict, verdict.rule) == ("unknown", "telemetry-stale")
    assert verdict.reason.startswith("No data yet from")


def test_stale_data_is_unknown_with_exporter_and_age(world: World) -> None:
    assert world.verdict().verdict == "healthy"
    for _ in range(4):
        world.scrape("node-exporter")
    verdict = world.verdict()
    assert (verdict.verdict, verdict.reason) == ("unknown", "No data from dcgm-exporter for 60 s.")
    world.scrape()
    assert world.verdict().verdict == "healthy"


def test_the_reason_of_the_failure_is_in_the_verdict(world: World) -> None:
    for _ in range(4):
        world.fail("dcgm-exporter")
        world.scrape("node-exporter")
    assert world.verdict().reason == "No data from dcgm-exporter for 60 s: dcgm-exporter on n1 did not answer in time."


def test_proof_of_a_fault_outranks_silence(world: World) -> None:
    world.xid(79)
    world.pass_time(300)
    assert world.verdict().verdict == "unhealthy"


def test_silence_outranks_a_slight_fault(world: World) -> None:
    world.xid(94)
    assert world.verdict().verdict == "degraded"
    world.pass_time(300)
    assert world.verdict().verdict == "unknown"


def test_a_gpu_node_without_dcgm_is_unknown(world: World) -> None:
    world.frame.drop_target("n1", "dcgm-exporter")
    assert world.verdict().reason == "No DCGM exporter is scraped on this node."


def test_a_node_without_gpus_needs_no_dcgm(world: World) -> None:
    world.frame.drop_target("n1", "dcgm-exporter")
    world.change(gpu_expected=None)
    assert world.verdict().verdict == "healthy"


def test_a_verdict_keeps_its_beginning(world: World) -> None:
    world.pass_time(100)
    first = world.verdict()
    world.pass_time(15)
    assert (world.verdict().verdict, world.verdict().since) == ("unknown", first.since)


# -- the whole


def test_a_node_that_left_the_cluster_leaves_no_finding(world: World) -> None:
    world.xid(79)
    del world.facts["n1"]
    assert told(world.cycle()) == [("cleared", "xid-79", uuid(3))]
    assert world.open() == set()


def test_a_finding_cleared_by_a_person_may_open_again(world: World) -> None:
    world.give(1, GPU_TEMP=95)
    scrapes(world, 2)
    assert told(world.engine.clear("n1", uuid(1), "thermal", world.now)) == [("cleared", "thermal", uuid(1))]
    assert told(scrapes(world, 2)) == [("opened", "thermal", uuid(1))]


def test_state_of_another_version_is_ignored(world: World) -> None:
    world.engine.import_state({"version": 99, "nodes": {"n1": {"findings": [{"nonsense": 1}]}}})
    assert world.open() == set()


def test_changed_nodes_are_told_for_the_checkpoint(world: World) -> None:
    assert world.engine.take_dirty() == {"n1"}, "its baselines are new"
    assert world.engine.take_dirty() == set()
    world.scrape()
    assert world.engine.take_dirty() == set()
    world.xid(79)
    assert world.engine.take_dirty(limit=0) == {"n1"}


def test_every_rule_says_where_it_comes_from() -> None:
    for rule in DEFAULTS.values():
        assert rule.origin and rule.title and rule.reads
        assert rule.threshold == 0 or rule.unit


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"ib-dwon": {"window": 1}}, "There is no rule"),
        ({"ib-down": {"windw": 1}}, "has no setting"),
        ({"ib-down": {"window": "1"}}, "cannot be '1'"),
        ({"ib-down": {"window": -1}}, "cannot be negative"),
        ({"thermal": {"scrapes": 9}}, "scrapes and of"),
    ],
)
def test_a_wrong_override_is_refused_in_words(overrides: dict[str, dict[str, object]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tuned(overrides)


def test_an_override_is_obeyed() -> None:
    world = World({"ib-down": {"window": 15}})
    world.scrape()
    world.ports["n1", "mlx5_0"] = (1, 2, 0)
    assert told(scrapes(world, 2)) == [("opened", "ib-down", "mlx5_0/1")]
