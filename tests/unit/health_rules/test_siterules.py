"""A site's rules: what a file may say, how its mistakes are told, and what the changes do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.siterules import BadRules, parse
from fleet.telemetry import names
from tests.unit.health_rules.bench import LABELS, Bench

PENDING = f"{names.ROW_REMAP_PENDING}{{{LABELS['gpu']}}}"
CE = f"{names.SRAM_CE}{{{LABELS['gpu']}}}"
MARGIN = f"{names.TEMP_MARGIN}{{{LABELS['gpu']}}}"


def test_an_empty_file_with_a_version_is_the_default() -> None:
    assert parse("version: 1\n", "r.yaml").rules == DEFAULTS


def test_site_and_pool_change_rules_and_the_pool_builds_on_the_site() -> None:
    tuning = parse(
        "version: 1\n"
        "rules:\n  sram-ce: {threshold: 500, severity: unhealthy}\n"
        "pools:\n  h100:\n    sram-ce: {threshold: 900}\n",
        "r.yaml",
    )
    assert (tuning.rules["sram-ce"].threshold, tuning.rules["sram-ce"].severity) == (500, "unhealthy")
    own = tuning.pools["h100"]["sram-ce"]
    assert (own.threshold, own.severity, own.window) == (900, "unhealthy", DEFAULTS["sram-ce"].window)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must hold version"),
        ("rules: {}\n", "reads version 1"),
        ("version: 2\n", "reads version 1"),
        ("version: 1\nrule: {}\n", "r.yaml:2: There is no section 'rule'"),
        (
            "version: 1\nrules:\n  thermel: {threshold: 3}\n",
            "r.yaml:3: There is no rule 'thermel'; did you mean thermal",
        ),
        ("version: 1\nrules:\n  thermal: {limit: 3}\n", "has no setting 'limit'; it has enabled, shadow, threshold"),
        ("version: 1\nrules:\n  thermal:\n    threshold: hot\n", "r.yaml:4: Rule 'thermal': threshold cannot be 'hot'"),
        ("version: 1\nrules:\n  thermal: {severity: bad}\n", "it is one of degraded, unhealthy"),
        ("version: 1\nrules:\n  thermal: {action_class: explode}\n", "it is one of reset_gpu"),
        ("version: 1\nrules:\n  thermal: {enabled: 1}\n", "it is true or false"),
        (
            "version: 1\nrules:\n  thermal:\n    mode: auto\n",
            "r.yaml:4: Rule 'thermal': mode cannot be 'auto'; it is one of observe, recommend, automate",
        ),
        ("version: 1\npools:\n  a:\n    grey-suspect: {mode: off}\n", "mode cannot be False; it is one of observe"),
        ("version: 1\nrules:\n  thermal: {window: -1}\n", "cannot be negative"),
        ("version: 1\nrules:\n  thermal: {threshold: .nan}\n", "threshold cannot be nan"),
        ("version: 1\nrules:\n  thermal: {scrapes: 3, of: 2}\n", "1 <= scrapes <= of <= 8"),
        ("version: 1\nrules:\n  ib-symbol: {window: 0}\n", "needs a window"),
        ("version: 1\nrules:\n  telemetry-stale: {enabled: false}\n", "cannot be switched off"),
        ("version: 1\npools:\n  a:\n    xid-dcgm: {window: 3}\n", "has no use for 'window'; it has enabled, shadow"),
        ("version: 1\nrules:\n  log-aer: {threshold: 5}\n", "5 lines need a window in which they are counted"),
        ("version: 1\nrules:\n  nvlink-ber: {threshold: 1e-11}\n", "YAML reads it as text; write 1.0e-11"),
        ("version: 1\nrules:\n  grey-suspect: {action_class: reboot_node}\n", "has no use for 'action_class'"),
        ("version: 1\ncodes:\n  nvlink: {1: {severity: none}}\n", "There are no codes 'nvlink'; there are xid, sxid"),
        ("version: 1\ncodes:\n  xid: {seven: {severity: none}}\n", "'seven' is no code of xid"),
        ("version: 1\ncodes:\n  xid: {154: {severity: none}}\n", "the driver's own request; it cannot be changed"),
        ("version: 1\ncodes:\n  sxid: {7: {severity: none}}\n", "a whole number from 10000 to 99999"),
        ("version: 1\ncodes:\n  dcgm: {DCGM_FR_CORUPT_INFOROM: {}}\n", "did you mean DCGM_FR_CORRUPT_INFOROM"),
        ("version: 1\ncodes:\n  xid:\n    63:\n      severity: bad\n", "r.yaml:5: Code 63 of xid: severity cannot be"),
        (
            "version: 1\ncodes:\n  xid: {63: {action: reset_gpu}}\n",
            "no setting 'action'; it has severity, action_class",
        ),
        ("version: 1\ncodes:\n  xid: {63: {action_class: reset_gpu}}\n", "disrupts, so its severity must be unhealthy"),
        ("version: 1\npools:\n  a:\n    codes: {xid: {154: {}}}\n", "r.yaml:4: Xid 154 carries"),
        ("version: 1\ncodes:\n  xid:\n    63: {}\n    63: {}\n", "r.yaml:5: codes.xid.63 stands here and in line 4"),
        ("version: 1\nrules:\n  thermal: {}\n  thermal: {}\n", "r.yaml:4: rules.thermal stands here and in line 3"),
        ("version: 1\nrules: [thermal]\n", "rules must be a mapping"),
        ("version: 1\nrules: {thermal\n", "This is no YAML"),
        ("version: 1\nrules: !!python/object:os.system {}\n", "This is no YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(BadRules) as caught:
        parse(text, "r.yaml")
    assert says in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadRules) as caught:
        parse("version: 3\nrules:\n  thermal: {severity: bad, window: x}\n  nothing: {}\n", "r.yaml")
    assert [mistake.line for mistake in caught.value.mistakes] == [1, 3, 3, 4]


def tuned(bench: Bench, text: str) -> list[str]:
    return [edge.kind for edge in bench.engine.retune(parse("version: 1\n" + text, "r.yaml"), bench.now)]


def test_a_rule_that_is_switched_off_says_nothing_and_ends_what_it_said() -> None:
    bench = Bench()
    for _ in range(2):
        bench.scrape({PENDING: 1.0})
    assert tuned(bench, "rules:\n  row-remap-pending: {enabled: false}\n") == ["cleared"]
    for _ in range(3):
        assert bench.scrape({PENDING: 1.0}) == []
    assert tuned(bench, "") == []
    assert [edge.kind for _ in range(2) for edge in bench.scrape({PENDING: 1.0})] == ["opened"]


def test_the_mode_of_a_rule_is_told_with_what_it_finds_and_changes_no_verdict() -> None:
    bench = Bench()
    tuned(bench, "rules:\n  row-remap-pending: {mode: observe}\n")
    edges = [edge for _ in range(2) for edge in bench.scrape({PENDING: 1.0})]
    assert [(edge.kind, edge.mode, edge.shadow) for edge in edges] == [("opened", "observe", False)]
    assert tuned(bench, "rules:\n  row-remap-pending: {mode: automate}\n") == [], "its finding stays open"


def test_a_pool_has_a_mode_of_its_own() -> None:
    tuning = parse(
        "version: 1\nrules:\n  psu: {mode: observe}\npools:\n  a:\n    psu: {mode: automate}\n  b:\n    psu: {}\n", "r"
    )
    assert [tuning.mode_of("psu", pool) for pool in ("", "a", "b", "c")] == [
        "observe",
        "automate",
        "observe",
        "observe",
    ]
    assert (tuning.mode_of("fan", "a"), tuning.mode_of("gone", "")) == ("automate", "automate")
    assert (tuning.limited, parse("version: 1\n", "r").limited) == (True, False)


def test_a_shadowed_rule_tells_its_signal_and_changes_no_verdict() -> None:
    bench = Bench()
    tuned(bench, "rules:\n  row-remap-pending: {shadow: true}\n")
    edges = [edge for _ in range(2) for edge in bench.scrape({PENDING: 1.0})]
    assert [(edge.kind, edge.shadow) for edge in edges] == [("opened", True)]
    assert tuned(bench, "") == ["cleared"]
    edges = [edge for _ in range(2) for edge in bench.scrape({PENDING: 1.0})]
    assert [(edge.kind, edge.shadow) for edge in edges] == [("opened", False)]


def test_a_pool_has_its_own_limit_severity_and_switch() -> None:
    pools = "pools:\n  h100:\n    sram-ce: {threshold: 50, severity: unhealthy, action_class: inspect}\n"
    for pool, opens in (("h100", ["opened"]), ("a100", [])):
        bench = Bench()
        bench.facts = replace(bench.facts, pool=pool)
        tuned(bench, pools)
        edges = bench.scrape({CE: 60.0})
        assert [edge.kind for edge in edges] == opens
        assert [(edge.severity, edge.action_class) for edge in edges] == [("unhealthy", "inspect")] * len(opens)
    bench = Bench()
    bench.facts = replace(bench.facts, pool="h100")
    tuned(bench, "pools:\n  h100:\n    sram-ce: {enabled: false}\n")
    assert bench.scrape({CE: 60_000.0}) == []


def test_a_limit_below_zero_stays_possible_where_it_is_one() -> None:
    bench = Bench()
    tuned(bench, "rules:\n  thermal-margin: {threshold: -5}\n")
    for _ in range(3):
        assert bench.scrape({MARGIN: -4.0}) == []
    assert [edge.kind for _ in range(2) for edge in bench.scrape({MARGIN: -6.0})] == ["opened"]
