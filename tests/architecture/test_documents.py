"""The documents say what the code has."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT, modules, name

INSIDE = {"MUSTER_DEMO", "MUSTER_DEMO_BMC"}  # set by the supervisor for its own children
READ = re.compile(r'env\.(?:text|number|whole|switch|words)\(\s*"([A-Z_]+)"|environ(?:\.get\(|\[)\s*"(MUSTER_[A-Z_]+)"')


def test_every_setting_is_documented() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    read = {a or b for path in modules() for a, b in READ.findall(path.read_text(encoding="utf-8"))}
    assert sorted(setting for setting in read - INSIDE if f"`{setting}`" not in manual) == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{name(page)} -> {target}")
    assert broken == []


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs" / "adr").glob("0*.md")]
    assert [page for page in pages if f"({page})" not in index] == []


def test_the_readme_names_no_command_of_make_that_is_missing() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert not [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
