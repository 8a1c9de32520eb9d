"""Every failure of others that the docs list names a test that exists."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "failures-of-others.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_row_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 30
    for row in rows:
        named = NAMED.findall(row)
        assert named, f"no test is named: {row}"
        for path, test in named:
            assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {test}"
