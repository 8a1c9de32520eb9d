"""Xids: the kernel log first, DCGM as an edge, one cause for both, and nothing old."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.health.rules import xid
from fleet.telemetry import names
from tests.unit.health_rules.world import START, World, told, uuid

LOST = "NVRM: Xid (PCI:0000:1e:00): 79, GPU has fallen off the bus."


@pytest.fixture
def world() -> World:
    made = World()
    made.scrape()
    return made


def test_a_fatal_line_opens_at_once_on_the_gpu_it_names(world: World) -> None:
    (edge,) = world.xid(79, gpu=3, detail="pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    assert (edge.kind, edge.cause, edge.device, edge.code) == ("opened", "xid-79", uuid(3), "79")
    assert (edge.severity, edge.action_class, edge.latched, edge.source) == (
        "unhealthy",
        "reboot_node",
        True,
        "kernel_log",
    )
    assert edge.text == "GPU 3 reported Xid 79: GPU fell off the bus"
    assert edge.first_bad_at == edge.detected_at == world.now
    assert world.verdict().verdict == "unhealthy"
    assert world.verdict().devices[uuid(3)].rule == "xid-log"


def test_the_time_between_line_and_finding_is_kept(world: World) -> None:
    (edge,) = world.xid(79, ago=2.5)
    assert (edge.detected_at - edge.first_bad_at).total_seconds() == 2.5


def test_dcgm_repeats_what_the_log_said_and_opens_nothing(world: World) -> None:
    world.xid(48, gpu=3)
    world.give(3, XID=48)
    assert told(world.scrape()) == []
    assert world.open() == {("n1", uuid(3), "xid-48")}


def test_the_log_comes_before_dcgm_ever_named_the_gpu() -> None:
    world = World()
    world.pass_time(1)
    assert told(world.xid(48, gpu=3)) == [("opened", "xid-48", "pci:0000:1e:00")]
    world.scrape()
    world.give(3, XID=48)
    world.scrape()
    assert told(world.xid(48, gpu=3)) in ([], [("refreshed", "xid-48", "pci:0000:1e:00")])
    assert len(world.open()) == 1


def test_a_change_of_the_metric_alone_opens_too(world: World) -> None:
    world.give(3, XID=119)
    (edge,) = world.scrape()
    assert (edge.kind, edge.rule_id, edge.cause, edge.device) == ("opened", "xid-dcgm", "xid-119", uuid(3))
    assert told(world.scrape()) == [], "the value sticks; it is not a new event"


def test_an_old_value_at_first_sight_is_a_baseline() -> None:
    world = World()
    world.give(3, XID=79)
    assert world.scrape() == []
    assert world.scrape() == []
    assert world.verdict().verdict == "healthy"


def test_after_a_gap_of_the_exporter_its_first_answer_is_a_baseline(world: World) -> None:
    world.fail("dcgm-exporter")
    world.give(3, XID=79)
    assert world.scrape() == []
    world.give(4, XID=79)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(4))]


def test_the_metric_may_appear_only_with_the_first_xid() -> None:
    world = World()
    for gpu in range(8):
        world.give(gpu, XID=float("nan"))
    world.scrape()
    world.give(3, XID=119)
    assert told(world.scrape()) == [("opened", "xid-119", uuid(3))]


def test_forty_nodes_with_old_xids_open_nothing_at_first_connect() -> None:
    nodes = tuple(f"n{number}" for number in range(1, 41))
    world = World(nodes=nodes)
    for node in nodes:
        for gpu in range(8):
            world.give(gpu, node, XID=79)
        assert world.xid(79, node=node, ago=3600) == []
    for _ in range(3):
        assert world.scrape() == []
    assert world.engine.counts["history"] == 40


@pytest.mark.parametrize("border", ["connected_at", "boot_at", "remediated_at"])
def test_a_line_older_than_connection_boot_or_remediation_is_history(world: World, border: str) -> None:
    world.pass_time(600)
    world.change(**{border: world.now - timedelta(seconds=10)})
    assert world.xid(79, ago=11) == []
    assert told(world.xid(79, ago=9)) == [("opened", "xid-79", uuid(3))]


@pytest.mark.parametrize("code", [43, 45])
def test_after_effects_never_stand_for_themselves(world: World, code: int) -> None:
    assert world.xid(code) == []
    assert world.open() == set()


def test_a_line_of_the_boot_that_runs_is_no_history_though_the_node_told_of_the_boot_later(world: World) -> None:
    """A driver that loads writes a minute before the kubelet reports the boot."""
    world.pass_time(600)
    world.change(boot_id="boot-2", boot_at=world.now)
    assert not world.say(LOST, ago=60)  # nothing says of which boot it is
    assert not world.say(LOST, ago=60, boot="boot-1")
    assert world.say(LOST, ago=60, boot="boot-2")
    world.scrape()
    assert world.open() == {("n1", uuid(3), "xid-79")}


def test_a_line_that_comes_before_the_node_told_of_its_boot_is_kept_by_that_boot(world: World) -> None:
    assert world.say(LOST, boot="boot-2")
    world.pass_time(40)
    world.change(boot_id="boot-2", boot_at=world.now)
    world.scrape()
    assert world.open() == {("n1", uuid(3), "xid-79")}
    world.reboot()
    assert [edge.kind for edge in world.scrape() if edge.cause == "xid-79"] == ["cleared"]


SENTENCE = (
    "NVRM: The NVIDIA GPU 0000:1e:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


def test_a_sentence_of_three_lines_names_its_gpu(world: World) -> None:
    assert [edge for text in SENTENCE[:2] for edge in world.say(text)] == []
    (edge,) = world.say(SENTENCE[2])
    assert (edge.cause, edge.device) == ("xid-79", uuid(3))
    assert world.say(SENTENCE[2]) == []  # of which GPU, nothing said again


def test_the_end_of_a_sentence_is_not_put_to_another_beginning(world: World) -> None:
    world.say(SENTENCE[0], ago=30)
    assert world.say(SENTENCE[2]) == []
    world.say(SENTENCE[0])
    assert world.say("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.")[0].device == uuid(0)


@pytest.mark.parametrize("border", ["connected_at", "remediated_at"])
def test_a_line_of_the_boot_that_runs_may_still_be_history(world: World, border: str) -> None:
    world.change(**{border: world.now})
    assert not world.say(LOST, ago=5, boot="boot-1")


def test_a_latched_xid_survives_silence_and_ends_with_a_new_boot(world: World) -> None:
    world.xid(79)
    world.pass_time(7200)
    assert told(world.scrape()) == []
    world.reboot()
    assert told(world.scrape()) == [("cleared", "xid-79", uuid(3))]
    assert world.verdict().verdict == "healthy"


def test_the_same_boot_seen_again_clears_nothing(world: World) -> None:
    world.xid(79)
    world.change(boot_at=world.now + timedelta(seconds=5))
    world.pass_time(60)
    assert told(world.cycle()) == []


def test_a_latched_xid_ends_with_our_remediation(world: World) -> None:
    world.xid(48)
    world.pass_time(60)
    world.change(remediated_at=world.now)
    assert told(world.cycle()) == [("cleared", "xid-48", uuid(3))]


def test_an_applications_xid_passes_by_itself(world: World) -> None:
    (edge,) = world.xid(31)
    assert (edge.severity, edge.action_class, edge.latched) == ("degraded", "restart_app", False)
    world.pass_time(590)
    assert told(world.scrape(after=1)) == []
    world.pass_time(30)
    assert told(world.scrape(after=1)) == [("cleared", "xid-31", uuid(3))]


def test_an_applications_xid_ends_with_the_boot_in_which_it_came(world: World) -> None:
    world.xid(31)
    world.pass_time(60)
    world.reboot()
    assert told(world.scrape(after=1)) == [("cleared", "xid-31", uuid(3))]


def test_a_storm_of_one_line_is_one_finding_told_seldom(world: World) -> None:
    edges = [edge for _ in range(1000) for edge in world.xid(31)]
    assert told(edges) == [("opened", "xid-31", uuid(3))]
    world.pass_time(31)
    (again,) = world.xid(31)
    assert (again.kind, again.evidence["count"]) == ("refreshed", 1001)


@pytest.mark.parametrize(
    ("asked", "action"), [("GPU Reset Required", "reset_gpu"), ("Node Reboot Required", "reboot_node")]
)
def test_what_the_driver_asks_for_outranks_the_table(world: World, asked: str, action: str) -> None:
    world.xid(48)
    world.pass_time(2)
    (edge,) = world.xid(154, detail=f"GPU recovery action changed from 0x0 (None) to 0x2 ({asked})")
    assert (edge.kind, edge.cause, edge.action_class) == ("refreshed", "xid-48", action)


def test_a_recovery_request_alone_is_a_finding(world: World) -> None:
    (edge,) = world.xid(154, detail="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    assert (edge.cause, edge.action_class) == ("xid-154", "reset_gpu")


def test_a_recovery_request_of_none_is_no_finding(world: World) -> None:
    assert world.xid(154, detail="GPU recovery action changed from 0x1 to 0x0 (None)") == []


def test_a_line_without_a_code_means_the_same_fault(world: World) -> None:
    world.say("NVRM: GPU 0000:1e:00.0: GPU has fallen off the bus.")
    world.xid(79)
    assert world.open() == {("n1", uuid(3), "xid-79")}


def test_a_node_whose_clock_runs_behind_is_still_heard(world: World) -> None:
    world.frame.t.skew[0] = -3600.0
    assert told(world.xid(79, ago=3600)) == [("opened", "xid-79", uuid(3))]


def test_a_line_from_the_future_is_taken_as_now(world: World) -> None:
    (edge,) = world.xid(79, ago=-86_400)
    assert edge.first_bad_at == world.now
    assert world.engine.counts["future_line"] == 1


def test_every_code_of_the_table_has_a_sane_meaning() -> None:
    for code in range(1, 200):
        what = xid.meaning(code)
        assert what.name and what.source
        assert (what.severity is None) == (what.action == "ignore")
        if what.action in ("reset_gpu", "reboot_node"):
            assert what.severity == "unhealthy"


def test_an_unknown_code_asks_for_support_and_no_disruption() -> None:
    what = xid.meaning(999)
    assert (what.action, what.severity) == ("contact_support", "degraded")


@pytest.mark.parametrize(
    ("detail", "fatal", "action"), [("x", True, "reset_gpu"), ("x", False, "monitor"), ("x", None, "reset_gpu")]
)
def test_nvlink5_codes_follow_their_own_word(detail: str, fatal: bool | None, action: str) -> None:
    assert xid.meaning(149, detail, fatal).action == action


def test_a_restart_keeps_the_latch_and_its_beginning(world: World) -> None:
    world.xid(79)
    world.pass_time(20)
    world.restart()
    assert told(world.scrape()) == []
    assert world.open() == {("n1", uuid(3), "xid-79")}
    assert world.verdict().since == START + timedelta(seconds=15)
    world.reboot()
    assert told(world.scrape()) == [("cleared", "xid-79", uuid(3))]


# -- what the exporter counts by code ---------------------------------------------------------------------------------

WINDOW, TOTAL = names.XID_COUNT, names.XID_TOTAL


@pytest.mark.parametrize("metric", [WINDOW, TOTAL])
def test_a_code_is_seen_although_another_one_followed_in_the_same_scrape(world: World, metric: str) -> None:
    world.give(3, XID=45)
    world.count(metric, xid79=1, xid45=1)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]
    assert told(world.scrape()) == []
    world.count(metric, 4, xid31=1)
    assert told(world.scrape()) == [("opened", "xid-31", uuid(4))]


@pytest.mark.parametrize("metric", [WINDOW, TOTAL])
def test_counts_at_first_sight_and_after_a_gap_are_a_baseline(metric: str) -> None:
    world = World()
    world.count(metric, xid79=2)
    assert world.scrape() == [] and world.scrape() == []
    world.fail("dcgm-exporter")
    world.count(metric, xid79=2, xid48=1)
    world.count(metric, 4, xid79=5)
    assert world.scrape() == []
    world.count(metric, xid79=3, xid48=1)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]


@pytest.mark.parametrize(("metric", "again"), [(WINDOW, 1.0), (TOTAL, 2.0)])
def test_the_same_code_again_is_news_after_it_was_mended(world: World, metric: str, again: float) -> None:
    world.count(metric, xid79=1)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]
    world.change(remediated_at=world.now + timedelta(seconds=1))
    assert [edge.kind for edge in world.scrape()] == ["cleared"]
    assert world.scrape() == []  # still in the window, which the repair does not empty
    if metric == WINDOW:
        world.count(metric)
    for _ in range(3):
        assert world.scrape() == []
    world.count(metric, xid79=again)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]


def test_a_window_that_empties_and_a_count_that_falls_are_no_news(world: World) -> None:
    world.count(WINDOW, xid94=3, xid0=7, xidabc=1)
    assert told(world.scrape()) == [("opened", "xid-94", uuid(3))]
    for left in (2, 1):
        world.count(WINDOW, xid94=left)
        assert world.scrape() == []
    world.count(WINDOW)
    for _ in range(3):
        assert [edge for edge in world.scrape() if edge.kind == "opened"] == []


def test_a_total_that_begins_anew_with_its_exporter_is_a_baseline(world: World) -> None:
    world.count(TOTAL, xid79=5)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]
    world.fail("dcgm-exporter")
    world.count(TOTAL)
    world.scrape()
    world.change(remediated_at=world.now)
    world.scrape()
    world.count(TOTAL, xid79=1)
    assert told(world.scrape()) == [("opened", "xid-79", uuid(3))]
