"""Templates compile, and hold no logic that a view should have."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.template.loader import get_template

from tests.architecture.sources import ROOT, name

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: name(path))
def test_a_template_compiles(path: Path) -> None:
    get_template(str(path.relative_to(ROOT / "templates")))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: name(path))
def test_a_template_runs_no_script_of_its_own(path: Path) -> None:
    """The content security policy allows neither inline scripts nor handlers; a page that needs them would be dead."""
    text = path.read_text(encoding="utf-8").lower()
    scripts = [part for part in text.split("<script")[1:] if "src=" not in part.split(">")[0]]
    data = [part for part in scripts if 'type="application/json"' not in part.split(">")[0]]
    assert not data
    for handler in (" onclick=", " onload=", " onchange=", " onsubmit=", "javascript:"):
        assert handler not in text
