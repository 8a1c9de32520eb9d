"""docs/gangs.md says what is read: no kind, version, label or word of a scheduler is left out."""

from __future__ import annotations

import pytest

from fleet.adapters.kubernetes import gang, member
from fleet.adapters.kubernetes.schedulers import kai, kueue, volcano
from fleet.adapters.kubernetes.schedulers.objects import Reader
from fleet.adapters.kubernetes.schedulers.watching import READERS
from tests.architecture.sources import ROOT

DOCUMENT = (ROOT / "docs" / "gangs.md").read_text(encoding="utf-8")
SAID = (kueue._RESERVING, kueue._ADMITTING, kueue._EVICTED, kai._REASONS, volcano._REASONS)
MEANT = [(word, code) for meanings in SAID for word, code in meanings.items()] + list(member._WORDS)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.kind}.{reader.group}")
def test_every_kind_is_told_with_its_group_and_versions(reader: Reader) -> None:
    row = [line for line in DOCUMENT.splitlines() if f"`{reader.group}`" in line]
    assert row
    assert f"| {reader.kind} |" in DOCUMENT
    assert [version for version in reader.versions if not any(f"`{version}`" in line for line in row)] == []


def test_every_label_that_names_a_gang_is_told() -> None:
    labels = [label for label, *_ in (*gang._POD_GROUPS, *gang._WORKLOADS)]
    assert [label for label in labels if f"`{label}`" not in DOCUMENT] == []


def test_every_word_is_told_with_what_it_means() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("|")]
    assert [
        (word, code)
        for word, code in MEANT
        if not any(f"`{word}`" in row and row.rstrip(" |").endswith(code) for row in rows)
    ] == []
