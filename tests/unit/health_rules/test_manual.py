"""The page on the rules says what the catalogue holds."""

from __future__ import annotations

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.manual import page
from tests.architecture.sources import ROOT


def test_the_page_is_what_the_catalogue_writes() -> None:
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert written == page(), "write it anew: manage.py rules manual > docs/rules.md"


def test_every_rule_says_where_its_limit_comes_from() -> None:
    text = page()
    for rule in DEFAULTS.values():
        assert f"`{rule.id}`" in text
        assert rule.origin and rule.reads and rule.title, rule.id
