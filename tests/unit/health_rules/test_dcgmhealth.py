"""DCGM's health checks: each code a finding of its own, named, and ended by what DCGM says next."""

from __future__ import annotations

import pytest

from fleet.health.rules.siterules import parse
from fleet.telemetry import names
from tests.unit.health_rules.bench import LABELS, Bench


def status(watch: str, code: str, value: float, gpu: int = 0) -> dict[str, float]:
    labels = LABELS["gpu"].replace("GPU-0", f"GPU-{gpu}")
    return {f'{names.HEALTH_STATUS}{{{labels},health_watch="{watch}",health_error_code="{code}"}}': value}


FINE = {**status("MEM", "DCGM_FR_OK", 0), **status("PCIE", "DCGM_FR_OK", 0)}


def fails(watch: str, code: str, value: float = 20) -> dict[str, float]:
    return (
        {**FINE, **status(watch, code, value)}
        if code == "DCGM_FR_OK"
        else {**_but(watch), **status(watch, code, value)}
    )


def _but(watch: str) -> dict[str, float]:
    return {series: value for series, value in FINE.items() if f'"{watch}"' not in series}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.scrape(FINE)
    return made


def test_a_failure_is_named_by_its_code_and_asks_for_what_the_table_says(bench: Bench) -> None:
    edges = [edge for _ in range(2) for edge in bench.scrape(fails("MEM", "DCGM_FR_ROW_REMAP_FAILURE"))]
    (edge,) = edges
    assert (edge.rule_id, edge.cause, edge.code) == (
        "dcgm-health-fail",
        "dcgm-row-remap-failure",
        "ROW_REMAP_FAILURE",
    )
    assert (edge.severity, edge.action_class) == ("unhealthy", "replace_part")
    assert edge.text == "DCGM's health check MEM of GPU 0 fails: memory row remapping failed"
    assert edge.evidence["dcgm_code"] == "DCGM_FR_ROW_REMAP_FAILURE"


def test_a_warning_is_watched_whatever_the_code(bench: Bench) -> None:
    (edge,) = [e for _ in range(2) for e in bench.scrape(fails("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED", 10))]
    assert (edge.rule_id, edge.severity, edge.action_class) == ("dcgm-health-warn", "degraded", "monitor")


def test_the_check_that_passes_again_takes_its_code_back(bench: Bench) -> None:
    for _ in range(2):
        bench.scrape(fails("MEM", "DCGM_FR_FAULTY_MEMORY"))
    assert bench.open() == {"dcgm-faulty-memory"}
    for _ in range(2):
        bench.scrape(FINE)
    assert bench.open() == set()


def test_another_code_of_the_same_check_is_another_finding(bench: Bench) -> None:
    for code in ("DCGM_FR_FAULTY_MEMORY", "DCGM_FR_L1TAG_MISCOMPARE"):
        for _ in range(2):
            bench.scrape(fails("MEM", code))
    assert bench.open() == {"dcgm-l1tag-miscompare"}


def test_a_check_that_is_no_longer_told_at_all_clears_nothing(bench: Bench) -> None:
    for _ in range(2):
        bench.scrape(fails("MEM", "DCGM_FR_FAULTY_MEMORY"))
    for _ in range(20):
        bench.scrape(_but("MEM"))
        bench.scrape({})
    assert bench.open() == {"dcgm-faulty-memory"}


def test_a_fault_that_a_rule_of_ours_sees_is_told_once(bench: Bench) -> None:
    dbe = f"{names.ECC_DBE}{{{LABELS['gpu']}}}"
    bench.scrape({**FINE, dbe: 0.0})
    bench.scrape({**FINE, dbe: 1.0})
    for _ in range(3):
        bench.scrape({**fails("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"), dbe: 1.0})
    assert bench.open() == {"ecc-dbe"}


@pytest.mark.parametrize("code", ["DCGM_FR_ABORTED", "DCGM_FR_TEST_SKIPPED"])
def test_what_is_no_fault_opens_nothing(bench: Bench, code: str) -> None:
    for _ in range(4):
        bench.scrape(fails("SM", code))
    assert bench.open() == set()


@pytest.mark.parametrize(("code", "cause"), [("DCGM_FR_UNKNOWN(4242)", "dcgm-unknown(4242)"), ("", "dcgm-mem")])
def test_a_code_that_nobody_knows_asks_for_support(bench: Bench, code: str, cause: str) -> None:
    (edge,) = [e for _ in range(2) for e in bench.scrape(fails("MEM", code))]
    assert (edge.cause, edge.severity, edge.action_class) == (cause, "unhealthy", "contact_support")


def test_a_site_has_its_own_word_on_a_code(bench: Bench) -> None:
    text = "version: 1\ncodes:\n  dcgm:\n    DCGM_FR_FAULTY_MEMORY: {severity: none}\n"
    bench.engine.retune(parse(text, "r"), bench.now)
    for _ in range(4):
        bench.scrape(fails("MEM", "DCGM_FR_FAULTY_MEMORY"))
    assert bench.open() == set()


def test_a_restart_of_the_observer_forgets_no_code(bench: Bench) -> None:
    for _ in range(2):
        bench.scrape(fails("MEM", "DCGM_FR_FAULTY_MEMORY"))
    state = bench.engine.export_state()
    bench.start()
    bench.engine.import_state(state)
    assert bench.scrape(fails("MEM", "DCGM_FR_FAULTY_MEMORY")) == []
    for _ in range(2):
        bench.scrape(FINE)
    assert bench.open() == set()
