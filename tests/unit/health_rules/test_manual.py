"""The page on the rules says what the catalogue holds."""

from __future__ import annotations

import re
from typing import get_args

from fleet.health.rules import wording
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.manual import page
from fleet.telemetry.healthevents import Origin
from tests.architecture.sources import ROOT


def test_the_page_is_what_the_catalogue_writes() -> None:
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert written == page(), "write it anew: manage.py rules manual > docs/rules.md"


def test_whatever_can_open_an_incident_is_in_the_catalogue() -> None:
    """Rules of the engine, those fed by other tools, and those that look elsewhere: nothing opens one unseen."""
    named = set(re.findall(r'^RULE\b.* = "([a-z0-9-]+)"', _sources(), re.MULTILINE))
    assert {"grey-suspect", "telemetry-stale"} <= named
    assert named | set(get_args(Origin)) <= set(DEFAULTS)


def _sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "fleet" / "health").rglob("*.py"))


def test_limits_and_windows_read_like_sentences() -> None:
    told = {rule.id: (wording.limit(rule), wording.window(rule)) for rule in DEFAULTS.values()}
    assert told["thermal"] == ("90 °C", "2 of 3 scrapes")
    assert told["gpu-count"][0] == "1 missing GPU"
    assert told["dram-ce"] == ("20 000 000 errors", "at once")
    assert told["pcie-width"][0] == "its own maximum"
    assert told["ib-rate"][0] == "the best it ever showed"
    assert told["xid-repeat"] == ("2 workloads", "24 h, latches")
    assert told["ecc-dbe"] == ("1 error", "at once, latches")
    assert all(rule.unit in wording.UNITS for rule in DEFAULTS.values())
    assert not [limit for limit, _ in told.values() if limit.startswith("1 ") and limit.endswith("s")]


def test_another_language_brings_its_own_words() -> None:
    def korean(one: str, many: str, count: int) -> str:
        return {"%(n)s missing GPUs": "GPU %(n)s개 없음", "at once": "즉시"}.get(many, many)

    assert wording.limit(DEFAULTS["gpu-count"], korean) == "GPU 1개 없음"
    assert wording.window(DEFAULTS["ecc-dbe"], korean) == "즉시, latches"


def test_every_rule_says_where_its_limit_comes_from() -> None:
    text = page()
    for rule in DEFAULTS.values():
        assert f"`{rule.id}`" in text
        assert rule.origin and rule.reads and rule.title, rule.id
