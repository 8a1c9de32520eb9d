"""GPUs that vanish, count errors or run hot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.telemetry import names
from tests.unit.health_rules.world import World, told, uuid


@pytest.fixture
def world() -> World:
    made = World()
    made.scrape()
    made.scrape()
    return made


# -- gone


def test_a_gpu_missing_from_two_answers_is_lost(world: World) -> None:
    world.gone.add(("n1", 5))
    assert told(world.scrape()) == []
    (edge,) = world.scrape()
    assert (edge.kind, edge.cause, edge.device) == ("opened", "gpu-lost", uuid(5))
    assert edge.evidence["gpus_seen"] == 7
    assert told(world.scrape()) == []


def test_a_lost_gpu_that_is_back_is_found(world: World) -> None:
    world.gone.add(("n1", 5))
    world.scrape()
    world.scrape()
    world.gone.clear()
    assert told(world.scrape()) == [("cleared", "gpu-lost", uuid(5))]


def test_a_gpu_that_xid_79_explains_is_no_second_finding(world: World) -> None:
    world.xid(79, gpu=5)
    world.gone.add(("n1", 5))
    world.scrape()
    world.pass_time(30)
    edges = world.scrape()
    assert told(edges) == [("refreshed", "xid-79", uuid(5))]
    assert "gpu-lost" in edges[0].evidence["also"]


def test_a_silent_exporter_loses_no_gpu(world: World) -> None:
    for _ in range(5):
        world.pass_time(15)
        world.fail("dcgm-exporter")
        assert world.cycle() == []
    assert world.verdict().verdict == "unknown"


def test_all_gpus_gone_at_once_is_one_finding_without_a_name(world: World) -> None:
    world.gone |= {("n1", gpu) for gpu in range(8)}
    world.scrape()
    (edge,) = world.scrape()
    assert (edge.cause, edge.device) == ("gpu-count", "")
    assert edge.text == "DCGM shows 0 of 8 GPUs"


def test_fewer_gpus_than_expected_from_the_start() -> None:
    world = World()
    world.gone |= {("n1", 7)}
    assert told(world.scrape()) == []
    assert told(world.scrape()) == [("opened", "gpu-count", "")]
    world.gone.clear()
    assert told(world.scrape()) == [("cleared", "gpu-count", "")] or told(world.scrape()) == [
        ("cleared", "gpu-count", "")
    ]


def test_an_exporter_not_heard_yet_counts_no_gpus() -> None:
    world = World()
    for _ in range(4):
        world.pass_time(15)
        assert world.cycle() == []


def test_a_replaced_gpu_is_not_missed_for_ever(world: World) -> None:
    world.gone.add(("n1", 5))
    world.scrape()
    world.scrape()
    world.gone.clear()
    replaced = world._dcgm("n1").replace(uuid(5).encode(), b"GPU-new")
    world.pass_time(15)
    world.intake.scraped(world.frame.target("n1", "dcgm-exporter", 15.0), replaced, world.mono, world.now.timestamp())
    assert told(world.cycle()) == [("cleared", "gpu-lost", uuid(5))]


def test_a_gpu_lost_while_we_were_away_is_noticed(world: World) -> None:
    world.gone.add(("n1", 5))
    world.restart()
    world.scrape()
    assert ("opened", "gpu-lost", uuid(5)) in told(world.scrape())


def test_a_lost_gpu_stays_lost_over_a_restart_and_is_told_once(world: World) -> None:
    world.gone.add(("n1", 5))
    world.scrape()
    world.scrape()
    world.restart()
    assert [*world.scrape(), *world.scrape(), *world.scrape()] == []
    assert ("n1", uuid(5), "gpu-lost") in world.open()
    world.gone.clear()
    assert told(world.scrape()) == [("cleared", "gpu-lost", uuid(5))]


def test_while_we_work_on_a_node_nothing_absent_opens(world: World) -> None:
    world.change(in_remediation=True)
    world.gone.add(("n1", 5))
    assert [*world.scrape(), *world.scrape(), *world.scrape()] == []
    world.change(in_remediation=False)
    assert told(world.scrape()) == [("opened", "gpu-lost", uuid(5))]


# -- memory errors


def test_a_new_uncorrectable_error_opens(world: World) -> None:
    world.give(2, ECC_DBE=1)
    (edge,) = world.scrape()
    assert (edge.cause, edge.device, edge.action_class, edge.latched) == ("ecc-dbe", uuid(2), "reset_gpu", True)
    assert told(world.scrape()) == []


def test_errors_counted_before_we_came_are_a_baseline() -> None:
    world = World()
    world.give(2, ECC_DBE=7)
    assert [*world.scrape(), *world.scrape()] == []
    world.give(2, ECC_DBE=8)
    assert told(world.scrape()) == [("opened", "ecc-dbe", uuid(2))]


def test_a_counter_that_was_reset_starts_anew(world: World) -> None:
    world.give(2, ECC_DBE=5)
    world.scrape()
    world.pass_time(60)
    world.reboot()
    world.give(2, ECC_DBE=0)
    world.scrape()
    world.give(2, ECC_DBE=1)
    assert told(world.scrape()) == [("opened", "ecc-dbe", uuid(2))]


def test_growth_while_we_were_away_is_noticed(world: World) -> None:
    world.restart()
    world.give(2, ECC_DBE=1)
    assert told(world.scrape()) == [("opened", "ecc-dbe", uuid(2))]


def test_the_xid_of_the_same_error_explains_the_counter(world: World) -> None:
    world.xid(48, gpu=2)
    world.give(2, ECC_DBE=1)
    assert told(world.scrape()) == []
    assert world.open() == {("n1", uuid(2), "xid-48")}


def test_a_failed_remap_asks_for_a_new_part(world: World) -> None:
    world.give(2, ROW_REMAP_FAILURE=1)
    assert told(world.scrape()) == []
    (edge,) = world.scrape()
    assert (edge.cause, edge.action_class) == ("row-remap-failure", "replace_part")
    world.give(2, ROW_REMAP_FAILURE=0)
    edges = [edge for _ in range(3) for edge in world.scrape()]
    assert told(edges) == [("cleared", "row-remap-failure", uuid(2))]


# -- heat


@pytest.mark.parametrize("values", [{"GPU_TEMP": 87}, {"CLOCK_REASONS": 0x48}, {"CLOCK_REASONS": 0x40}])
def test_heat_in_two_of_three_scrapes_opens(world: World, values: dict[str, float]) -> None:
    world.give(1, **values)
    assert told(world.scrape()) == []
    assert told(world.scrape()) == [("opened", "thermal", uuid(1))]


@pytest.mark.parametrize("reasons", [0x1, 0x2, 0x4, 0x8, 0x80])
def test_other_reasons_for_a_low_clock_are_not_heat(world: World, reasons: int) -> None:
    world.give(1, CLOCK_REASONS=reasons)
    assert [*world.scrape(), *world.scrape(), *world.scrape()] == []


def test_one_hot_scrape_is_noise_and_three_good_ones_are_the_end(world: World) -> None:
    world.give(1, GPU_TEMP=95)
    world.scrape()
    world.give(1, GPU_TEMP=60)
    assert [*world.scrape(), *world.scrape(), *world.scrape()] == []
    world.give(1, GPU_TEMP=95)
    world.scrape()
    world.scrape()
    world.give(1, GPU_TEMP=60)
    assert [told(world.scrape()) for _ in range(3)] == [[], [], [("cleared", "thermal", uuid(1))]]


def test_without_a_limit_of_its_own_a_gpu_is_held_to_ours() -> None:
    world = World({"thermal": {"threshold": 80.0}})
    world.give(1, SLOWDOWN_TEMP=float("nan"), GPU_TEMP=81)
    world.give(2, GPU_TEMP=81)
    edges = [edge for _ in range(3) for edge in world.scrape()]
    assert told(edges) == [("opened", "thermal", uuid(1))]


def test_cycles_without_a_new_scrape_count_nothing(world: World) -> None:
    world.give(1, GPU_TEMP=95)
    world.scrape()
    for _ in range(20):
        world.pass_time(1)
        assert world.cycle() == []


def test_damping_survives_a_restart(world: World) -> None:
    world.give(1, GPU_TEMP=95)
    world.scrape()
    world.restart()
    assert told(world.scrape()) == [("opened", "thermal", uuid(1))]


def test_a_restored_finding_of_a_state_that_has_passed_clears(world: World) -> None:
    world.give(1, GPU_TEMP=95)
    world.scrape()
    world.scrape()
    world.restart()
    world.give(1, GPU_TEMP=60)
    edges = [edge for _ in range(4) for edge in world.scrape()]
    assert told(edges) == [("cleared", "thermal", uuid(1))]


def test_values_of_a_node_we_do_not_know_open_nothing(world: World) -> None:
    facts = world.facts.pop("n1")
    world.facts["other"] = replace(facts, name="other")
    world.give(1, GPU_TEMP=95)
    body = world._dcgm("n1")
    for _ in range(4):
        world.pass_time(15)
        world.intake.scraped(world.frame.target("n1", "dcgm-exporter", 15.0), body, world.mono, world.now.timestamp())
        assert world.cycle() == []
    assert world.frame.value(names.GPU_TEMP, "n1", uuid(1)) == 95.0
