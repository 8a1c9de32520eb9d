"""The line in which a hold of ours is written: read again whatever stands in it, and never out of another's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.adapters.slurm.marks import LONGEST, Mark, name_of, read

VALUE, BY = "17/1c1f6a52-6f3f-4d3c-9a52-0d3a0f5f2c11", "muster-0123456789abcdef"


@given(why=st.text(max_size=600), before=st.text(max_size=150), by=st.text(max_size=60))
def test_every_hold_is_read_again_with_whom_it_was_before(why: str, before: str, by: str) -> None:
    text = Mark(VALUE, name_of(by), why, before).text
    found = read(text)
    assert found is not None and (found.value, found.by) == (VALUE, name_of(by))
    assert bool(found.before) == bool("".join(c for c in before if c.isprintable() and c not in "\"'\\").split())
    assert read(found.text) == found and len(text) <= max(LONGEST, len(text) - len(why))
    assert "\n" not in text and '"' not in text


def test_who_held_it_before_is_not_cut_for_a_long_fault() -> None:
    found = read(Mark(VALUE, BY, "x" * 1000, "kim: new cable").text)
    assert found is not None and found.before == "kim: new cable" and len(found.text) == LONGEST


def test_what_slurmctld_puts_behind_it_is_its_own() -> None:
    text = Mark(VALUE, BY, "Xid 79", "kim: fan").text
    assert read(f"{text} : reboot issued") == read(text)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "xid 79",
        "kim: took over from Muster hold 1/2 by m",
        f"muster hold {VALUE}",
        "Muster hold",
        f"Muster hold {VALUE}",
    ],
)
def test_nothing_else_is_a_mark_of_ours(reason: str) -> None:
    assert read(reason) is None
