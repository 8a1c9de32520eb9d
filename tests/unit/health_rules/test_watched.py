"""Every rule that is data alone: it fires, it stays quiet just below, and resets and silence mean what they should."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.health.rules.catalogue import DEFAULTS, WATCHED
from fleet.health.rules.watch import LEVELS, Watch
from fleet.telemetry import names
from tests.unit.health_rules.bench import LABELS, Bench

CASES = [(watched.rule.id, number) for watched in WATCHED for number in range(len(watched.watches))]
BY_ID = {watched.rule.id: watched for watched in WATCHED}
EXPORT = 'export="nfs-01:/data",operation="READ"'


def labels(metric: str, watch: Watch) -> str:
    if metric.startswith("node_mountstats"):
        return EXPORT
    kind = names.METRICS[metric].kind
    text = LABELS[kind]
    if watch.sub:
        key = "state" if kind == "host" else "clock_event"
        text += f',{key}="{watch.sub}"'
    if metric == names.WEKA_ALERTS:
        text = 'title="DriveDown"'
    if metric == names.HEALTH_STATUS:
        text += ',health_watch="PCIE"'
    if metric == names.P2P_STATUS:
        text += ',peer_gpu="1"'
    return text.lstrip(",")


def key(metric: str, watch: Watch) -> str:
    text = labels(metric, watch)
    return f"{metric}{{{text}}}" if text else metric


def levels(rule_id: str, number: int) -> tuple[str, float, float, dict[str, float]]:
    """The series, a good and a bad value, and what stands beside it."""
    rule, watch = DEFAULTS[rule_id], BY_ID[rule_id].watches[number]
    limit, beside = rule.threshold, {}
    if watch.against:
        limit = {names.PCIE_MAX_WIDTH: 16.0, names.PCIE_MAX_GEN: 5.0, names.SMART_SPARE_MIN: 10.0}.get(
            watch.against, 0.1
        )
        beside[key(watch.against, watch)] = limit
    if watch.own_best:
        limit = 5e10
    if watch.active:
        beside[key(watch.active, watch)] = max(watch.active_from, 100.0 if watch.active == names.GPU_UTIL else 4.0)
    step = max(abs(limit) * 0.01, 1e-13)
    good, bad = {
        "at_least": (limit - step, limit),
        "above": (limit, limit + step),
        "at_most": (limit + step, limit),
        "below": (limit, limit - step),
        "not": (limit, limit + 1),
        "is": (0.0, (watch.values or (0.0,))[0]),
        "bits": (float(0x107 & ~watch.mask), float(watch.mask & -watch.mask)),
    }[watch.how]
    if watch.scale != 1.0:
        good, bad = good / watch.scale, bad / watch.scale
    if rule_id == "fs-full":
        beside[key(names.FS_SIZE, watch)] = 2e9
        good, bad = 0.021 * 2e9, 0.019 * 2e9
    if limit == 1 and names.METRICS[watch.metric].hi == 1:
        good, bad = (0.0, 1.0) if watch.how == "at_least" else (1.0, 0.0)
    return key(watch.metric, watch), good, bad, beside


LEVEL_CASES = [
    (rule_id, number)
    for rule_id, number in CASES
    if BY_ID[rule_id].watches[number].how in LEVELS and BY_ID[rule_id].watches[number].how != "silent"
]
COUNTER_CASES = [(r, n) for r, n in CASES if BY_ID[r].watches[n].how in ("rate", "grows", "count")]


def cause(rule_id: str, number: int) -> str:
    return rule_id + (f".{number + 1}" if number else "")


def scrapes_to_open(rule_id: str) -> int:
    rule = DEFAULTS[rule_id]
    return max(rule.scrapes, int(rule.window / 15) + 1)


@pytest.mark.parametrize(("rule_id", "number"), LEVEL_CASES)
def test_a_level_opens_after_its_window_and_clears_when_good(rule_id: str, number: int) -> None:
    bench, rule = Bench(), DEFAULTS[rule_id]
    series, good, bad, beside = levels(rule_id, number)
    for _ in range(3):
        bench.scrape({series: good, **beside})
    assert cause(rule_id, number) not in bench.open(), "quiet while good"
    for turn in range(scrapes_to_open(rule_id)):
        assert cause(rule_id, number) not in bench.open(), f"opened {turn} scrapes early"
        bench.scrape({series: bad, **beside})
    assert cause(rule_id, number) in bench.open()
    edge = next(f.edge for k, f in bench.engine.open_findings().items() if k[2] == cause(rule_id, number))
    assert edge.text and (edge.severity, edge.action_class) == (rule.severity, rule.action_class)
    bench.mono += 3600
    bench.cycle()
    assert cause(rule_id, number) in bench.open(), "silence clears nothing"
    for _ in range(rule.of + int(rule.clear / 15) + 1):
        bench.scrape({series: good, **beside})
    assert cause(rule_id, number) not in bench.open()


@pytest.mark.parametrize(("rule_id", "number"), LEVEL_CASES)
def test_a_blink_shorter_than_the_window_opens_nothing(rule_id: str, number: int) -> None:
    bench = Bench()
    series, good, bad, beside = levels(rule_id, number)
    if scrapes_to_open(rule_id) == 1:
        pytest.skip("one sample is enough for this rule: the value cannot go back by itself")
    for value in (good, good, bad, *[good] * DEFAULTS[rule_id].of, bad):
        bench.scrape({series: value, **beside})
        assert cause(rule_id, number) not in bench.open()


def rate_series(rule_id: str, number: int) -> tuple[str, float, dict[str, float]]:
    """The series, and the growth in one window that is too much."""
    rule, watch = DEFAULTS[rule_id], BY_ID[rule_id].watches[number]
    if watch.how in ("grows", "count"):
        return key(watch.metric, watch), max(rule.threshold, 1.0), {}
    return key(watch.metric, watch), rule.threshold * rule.window / watch.per, {}


@pytest.mark.parametrize(("rule_id", "number"), COUNTER_CASES)
def test_a_counter_opens_by_growth_and_not_by_its_first_value(rule_id: str, number: int) -> None:
    bench, watch = Bench(), BY_ID[rule_id].watches[number]
    series, much, _ = rate_series(rule_id, number)
    beside = {key(watch.over, watch): 1000.0} if watch.over else {}
    bench.scrape({series: 5e6, **beside})
    bench.scrape({series: 5e6, **beside})
    assert cause(rule_id, number) not in bench.open(), "the first value is a baseline"
    if watch.over:
        beside = {key(watch.over, watch): 1000.0 + 100.0}
        much = 100.0 * DEFAULTS[rule_id].threshold
    bench.scrape({series: 5e6 + much * 1.05 + 0.5, **beside})
    assert cause(rule_id, number) in bench.open()


@pytest.mark.parametrize(("rule_id", "number"), COUNTER_CASES)
def test_a_counter_that_starts_again_is_a_new_baseline(rule_id: str, number: int) -> None:
    bench, watch = Bench(), BY_ID[rule_id].watches[number]
    series, much, _ = rate_series(rule_id, number)
    beside = {key(watch.over, watch): 1000.0} if watch.over else {}
    for value in (much * 50 + 1000, much * 50 + 1000, 0.0, 0.0):
        bench.scrape({series: value, **beside})
        assert cause(rule_id, number) not in bench.open()


@pytest.mark.parametrize(
    ("rule_id", "number"),
    [(r, n) for r, n in COUNTER_CASES if BY_ID[r].watches[n].how in ("rate", "count") and r != "nfs-slow"],
)
def test_a_rate_is_judged_over_the_whole_window(rule_id: str, number: int) -> None:
    """Most of what a window allows, at once, is quiet; as much again two windows later is quiet too."""
    bench, rule = Bench(), DEFAULTS[rule_id]
    series, much, _ = rate_series(rule_id, number)
    value = 1000.0
    bench.scrape({series: value})
    for _ in range(2):
        value += much * 0.6
        bench.scrape({series: value})
        bench.scrape({series: value}, after=rule.window * 2)
    assert cause(rule_id, number) not in bench.open()


@pytest.mark.parametrize(
    ("rule_id", "number"),
    [(r, n) for r, n in COUNTER_CASES if BY_ID[r].watches[n].how in ("rate", "count") and r != "nfs-slow"],
)
def test_a_rate_clears_when_steady_unless_it_latches(rule_id: str, number: int) -> None:
    bench, rule = Bench(), DEFAULTS[rule_id]
    series, much, _ = rate_series(rule_id, number)
    bench.scrape({series: 0.0})
    bench.scrape({series: much * 2 + 1})
    assert cause(rule_id, number) in bench.open()
    for _ in range(2):
        bench.scrape({series: much * 2 + 1}, after=rule.window + 15)
    assert (cause(rule_id, number) in bench.open()) == rule.latched
    bench.facts = replace(bench.facts, boot_id="b2", boot_at=bench.now)
    bench.scrape({series: 0.0})
    assert cause(rule_id, number) not in bench.open(), "a boot ends it"


def test_every_rule_that_is_data_is_in_one_of_the_tables() -> None:
    special = {"boot-loop", "sharp-stale"}  # below
    assert {r for r, _ in CASES} == {r for r, _ in (*LEVEL_CASES, *COUNTER_CASES)} | special
    assert all(watched.rule.origin and watched.rule.unit for watched in WATCHED)


def test_three_boots_within_an_hour_are_a_loop() -> None:
    bench = Bench()
    boots = (1000.0, 1000.2, 1400.0, 1800.0)
    for boot in boots:
        bench.scrape({names.BOOT_TIME: boot}, after=300)
    assert "boot-loop" not in bench.open(), "two boots, and one correction of the clock"
    bench.scrape({names.BOOT_TIME: 2200.0}, after=300)
    assert "boot-loop" in bench.open()


def test_boots_of_ours_are_no_loop() -> None:
    bench = Bench()
    bench.facts = replace(bench.facts, in_remediation=True)
    for boot in (1000.0, 1400.0, 1800.0, 2200.0, 2600.0):
        bench.scrape({names.BOOT_TIME: boot}, after=300)
    assert "boot-loop" not in bench.open()


def test_a_silent_aggregation_manager_is_told_and_heard_again() -> None:
    bench = Bench()
    bench.scrape({names.SHARP_JOBS: 4.0})
    bench.scrape({}, after=170)
    assert "sharp-stale" not in bench.open()
    bench.scrape({}, after=30)
    assert "sharp-stale" in bench.open()
    bench.scrape({names.SHARP_JOBS: 4.0})
    assert "sharp-stale" not in bench.open()


def test_an_idle_link_may_rest() -> None:
    bench, watch = Bench(), BY_ID["pcie-gen"].watches[0]
    resting = {key(names.PCIE_GEN, watch): 1.0, key(names.PCIE_MAX_GEN, watch): 5.0, key(names.GPU_UTIL, watch): 0.0}
    for _ in range(20):
        bench.scrape(resting)
    assert bench.open() == set()


def test_replays_are_judged_by_generation_and_width() -> None:
    watch = BY_ID["pcie-replay"].watches[0]
    for gen, allowed in ((4.0, 16), (5.0, 31)):
        for over in (0, 1):
            bench = Bench()
            link = {key(names.PCIE_GEN, watch): gen, key(names.PCIE_WIDTH, watch): 16.0}
            series = key(names.PCIE_REPLAY, watch)
            bench.scrape({series: 0.0, **link})
            bench.scrape({series: float((allowed + over) * 5), **link})
            assert ("pcie-replay" in bench.open()) == bool(over), (gen, over)


def test_a_pair_without_peer_access_from_the_start_is_as_it_was_built() -> None:
    bench, watch = Bench(), BY_ID["gpu-p2p"].watches[0]
    for _ in range(5):
        bench.scrape({key(names.P2P_STATUS, watch): 2.0})
    assert bench.open() == set()


def test_one_part_with_two_bad_links_is_one_finding_until_both_are_good() -> None:
    bench = Bench()
    pair = [f'{names.P2P_STATUS}{{{LABELS["gpu"]},peer_gpu="{peer}"}}' for peer in (1, 2)]
    bench.scrape(dict.fromkeys(pair, 0.0))
    for _ in range(2):
        bench.scrape(dict.fromkeys(pair, 3.0))
    assert bench.open() == {"gpu-p2p"}
    for _ in range(3):
        bench.scrape({pair[0]: 0.0, pair[1]: 3.0})
    assert bench.open() == {"gpu-p2p"}
    for _ in range(3):
        bench.scrape(dict.fromkeys(pair, 0.0))
    assert bench.open() == set()


def test_an_alert_that_its_exporter_leaves_out_is_over() -> None:
    bench = Bench()
    for _ in range(2):
        bench.scrape({f'{names.WEKA_ALERTS}{{title="DriveDown"}}': 1.0})
    assert bench.open() == {"weka-alert"}
    for _ in range(2):
        bench.scrape({})
    assert bench.open() == set()


def test_what_was_open_stays_open_over_a_restart_of_the_observer() -> None:
    bench = Bench()
    series, good, bad, beside = levels("ib-rate", 0)
    bench.scrape({series: good, **beside})
    for _ in range(scrapes_to_open("ib-rate")):
        bench.scrape({series: bad, **beside})
    state = bench.engine.export_state()
    bench.start()
    bench.engine.import_state(state)
    assert [edge for _ in range(2) for edge in bench.scrape({series: bad, **beside})] == []
    assert bench.open() == {"ib-rate"}
    for _ in range(3):
        bench.scrape({series: good, **beside})
    assert bench.open() == set()


def test_every_metric_in_the_frame_is_read_by_a_rule_or_a_page() -> None:
    pages = {
        "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_MEM_COPY_UTIL",
        "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
        "node_infiniband_port_data_received_bytes_total", "node_infiniband_port_data_transmitted_bytes_total",
        names.PROCESS_START, "node_load1", "node_procs_blocked", "node_memory_MemAvailable_bytes",
        "node_memory_MemTotal_bytes", "DCGM_FI_PROF_SM_ACTIVE", *names.NVLINK_BYTES, *names.PCIE_BYTES,
        names.NVLINK_TOTAL, names.IB_WAIT, names.IB_OUT_OF_ORDER, names.IB_NOTICES, names.IO_PRESSURE,
    }  # fmt: skip
    read = {metric for rule in DEFAULTS.values() for metric in rule.reads}
    assert set(names.METRICS) - read - pages == set()
