"""Every rule may differ by pool, and differs only there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.siterules import parse
from fleet.health.rules.tuning import settings_of
from tests.unit.health_rules import test_watched as watched
from tests.unit.health_rules.bench import Bench
from tests.unit.health_rules.test_evidence import LINES, SPECIAL
from tests.unit.health_rules.world import World

PATIENT_LEVELS = [
    (r, n) for r, n in watched.LEVEL_CASES if DEFAULTS[r].window and watched.BY_ID[r].watches[n].how != "silent"
]
LIMITED = [(r, n) for r, n in watched.COUNTER_CASES if r != "nfs-slow"]


def bench_of(pool: str, text: str) -> Bench:
    bench = Bench()
    bench.facts = replace(bench.facts, pool=pool)
    bench.engine.retune(parse(f"version: 1\npools:\n  mine:\n    {text}\n", "r"), bench.now)
    bench.cycle()
    return bench


def world_of(pool: str, text: str) -> World:
    world = World()
    world.change(pool=pool, gpu_capacity=8, gpu_allocatable=8)
    world.engine.retune(parse(f"version: 1\npools:\n  mine:\n    {text}\n", "r"), world.now)
    world.scrape()
    world.pass_time(1)
    return world


@pytest.mark.parametrize(("rule_id", "number"), PATIENT_LEVELS)
def test_a_pool_has_its_own_patience(rule_id: str, number: int) -> None:
    series, good, bad, beside = watched.levels(rule_id, number)
    for pool in ("mine", "other"):
        bench = bench_of(pool, f"{rule_id}: {{window: {DEFAULTS[rule_id].window * 3}}}")
        bench.scrape({series: good, **beside})
        for _ in range(watched.scrapes_to_open(rule_id)):
            bench.scrape({series: bad, **beside})
        assert (watched.cause(rule_id, number) in bench.open()) == (pool == "other"), pool


@pytest.mark.parametrize(("rule_id", "number"), LIMITED)
def test_a_pool_has_its_own_limit(rule_id: str, number: int) -> None:
    series, much, _ = watched.rate_series(rule_id, number)
    for pool in ("mine", "other"):
        bench = bench_of(pool, f"{rule_id}: {{threshold: {DEFAULTS[rule_id].threshold * 9}}}")
        bench.scrape({series: 0.0})
        bench.scrape({series: much * 2 + 1})
        assert (watched.cause(rule_id, number) in bench.open()) == (pool == "other"), pool


@pytest.mark.parametrize(
    ("rule_id", "number"), [(r, n) for r, n in LIMITED if watched.BY_ID[r].watches[n].how == "count"]
)
def test_a_pool_has_its_own_window_of_counting(rule_id: str, number: int) -> None:
    """Three events in ten minutes are too many; in a window of one minute they are not, when they are spread."""
    series, much, _ = watched.rate_series(rule_id, number)
    for pool in ("mine", "other"):
        bench = bench_of(pool, f"{rule_id}: {{window: 60}}")
        bench.scrape({series: 0.0})
        for count in range(1, int(much) + 1):
            bench.scrape({series: float(count)}, after=120.0)
        expected = pool == "other" or much < 2
        assert (watched.cause(rule_id, number) in bench.open()) == expected, pool


SPECIAL_SETTINGS: dict[str, str] = {
    "xid-repeat": "{threshold: 3}",
    "gpu-lost": "{threshold: 40}",
    "gpu-count": "{threshold: 2}",
    "gpu-capacity": "{threshold: 2}",
    "gpu-allocatable": "{window: 100000}",
    "thermal": "{scrapes: 8, of: 8}",
    "ib-down": "{window: 100000}",
    "mount-hung": "{window: 100000}",
    "node-not-ready": "{window: 100000}",
    **{rule_id: "{threshold: 2, window: 60}" for rule_id in LINES if rule_id != "xid-log"},
}


@pytest.mark.parametrize("rule_id", SPECIAL)
def test_a_special_rule_listens_to_the_pool(rule_id: str) -> None:
    setting = SPECIAL_SETTINGS.get(rule_id, "{enabled: false}")
    for pool in ("mine", "other"):
        world = world_of(pool, f"{rule_id}: {setting}")
        SPECIAL[rule_id](world)
        found = {finding.edge.rule_id for finding in world.engine.open_findings().values()}
        assert (rule_id in found) == (pool == "other"), pool


@pytest.mark.parametrize("rule_id", [r for r in SPECIAL if "clear" not in SPECIAL_SETTINGS.get(r, "")])
def test_a_special_rule_in_shadow_tells_and_changes_no_verdict(rule_id: str) -> None:
    world = world_of("mine", f"{rule_id}: {{shadow: true}}")
    SPECIAL[rule_id](world)
    edges = [f.edge for f in world.engine.open_findings().values() if f.edge.rule_id == rule_id]
    assert edges and all(edge.shadow for edge in edges)


def test_the_patience_with_a_silent_exporter_is_a_pools_own() -> None:
    for pool, word in (("mine", "healthy"), ("other", "unknown")):
        world = world_of(pool, "telemetry-stale: {threshold: 20}")
        world.pass_time(100)
        assert world.verdict().verdict == word


def test_several_lines_are_counted_within_the_window() -> None:
    world = world_of("mine", "log-oom: {threshold: 3, window: 60}")
    line = "Out of memory: Killed process 4711 (python) total-vm:1kB"
    for pause in (0, 40, 40, 10):
        world.pass_time(pause)
        world.say(line)
    assert world.open() == {("n1", "", "log-oom")}, "three of the four lie within a minute"


def test_counting_that_began_in_another_window_opens_nothing() -> None:
    bench = bench_of("other", "fan: {shadow: true}")
    series, much, _ = watched.rate_series("ib-flap", 0)
    for count in range(int(much)):
        bench.scrape({series: float(count)}, after=100.0)
    bench.engine.retune(parse("version: 1\nrules:\n  ib-flap: {window: 60}\n", "r"), bench.now)
    bench.scrape({series: much})
    assert bench.open() == set()


@pytest.mark.parametrize("rule_id", DEFAULTS)
def test_every_setting_that_a_rule_has_may_be_a_pools(rule_id: str) -> None:
    rule = DEFAULTS[rule_id]
    changes = {key: getattr(rule, key) for key in settings_of(rule)}
    text = ", ".join(f"{key}: {yaml.safe_dump(value).split()[0]}" for key, value in changes.items())
    tuning = parse(f"version: 1\npools:\n  mine:\n    {rule_id}: {{{text}}}\n", "r")
    assert tuning.pools["mine"][rule_id] == rule


def test_a_line_that_comes_before_the_first_cycle_has_the_mode_of_its_node_s_pool() -> None:
    world = World()
    world.change(pool="mine")
    world.engine.retune(parse("version: 1\npools:\n  mine:\n    xid-log: {mode: observe}\n", "r"), world.now)
    assert [edge.mode for edge in world.xid(79)] == ["observe"]
