"""A book of playbooks is read whole, or refused with every mistake at its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle import shelf
from fleet.lifecycle.playbook_file import BadPlaybooks, parse
from fleet.lifecycle.playbooks import Book, Case, PlannedStep, Playbook, plan_for
from fleet.lifecycle.shelf import built_in

GOOD = """
version: 1
playbooks:
  - name: gentle
    match: {action: [reset_gpu], pool: ["h100-*"], pool_kind: [bare_metal]}
    attempts: 3
    steps:
      - hold
      - drain: {deadline: 90m, at_deadline: ask}
      - reboot: {ladder: [reboot, power_cycle], retries: 1, backoff: 30s}
      - validate
      - soak
      - return
"""


def mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(BadPlaybooks) as caught:
        parse(text, "book.yaml")
    return [(mistake.line, mistake.text) for mistake in caught.value.mistakes]


def test_what_a_file_says_is_what_is_planned() -> None:
    book = Book(parse(GOOD, "book.yaml"))
    plan = plan_for(Case("reset_gpu", pool="h100-train"), book)
    assert (plan.playbook, plan.attempts) == ("gentle", 3)
    assert plan.as_json()[1:3] == [
        {"verb": "drain", "deadline": 5400.0, "at_deadline": "ask"},
        {"verb": "reboot", "retries": 1, "backoff": 30.0, "ladder": ["reboot", "power_cycle"]},
    ]
    assert plan_for(Case("reset_gpu", pool="l40s"), book).playbook == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version: 1", "version: 9", "version: 1"),
        ("name: gentle", "name: Gentle!", "lower-case"),
        ("reset_gpu]", "reset_gpu], mood: [bad]", "no key 'mood'"),
        ("attempts: 3", "attempts: 99", "attempts"),
        ("attempts: 3", "attempts: true", "attempts"),
        ("90m", "soon", "a time above zero"),
        ("at_deadline: ask", "at_deadline: force", "one of stay, ask, escalate"),
        ("retries: 1", "retries: -1", "0 to 10"),
        ("- validate\n", "- pray\n", "no verb"),
        ("      - soak\n", "", "ends with validate, soak, return"),
        ("      - hold\n", "", "begins with hold"),
        ("[reboot, power_cycle]", "[power_cycle, reboot]", "must begin with that remedy"),
        ("      - drain: {deadline: 90m, at_deadline: ask}\n", "", "after its drain"),
        ("pool_kind: [bare_metal]", "pool_kind: [bare_metal, spot]", "bare_metal"),
        (", pool_kind: [bare_metal]", "", "bare_metal"),
        ("playbooks:", "playbooks: 7\nother:", "no section"),
    ],
)
def test_each_mistake_is_named_where_it_stands(old: str, new: str, says: str) -> None:
    assert old in GOOD
    found = mistakes(GOOD.replace(old, new, 1))
    assert any(says in text for _, text in found), found
    assert all(line >= 1 for line, _ in found)


def test_all_mistakes_are_told_at_once_and_a_doubled_name_is_one() -> None:
    bad = GOOD + GOOD.split("playbooks:\n")[1].replace("gentle", "Bad Name") + GOOD.split("playbooks:\n")[1]
    found = mistakes(bad)
    assert [line for line, _ in found] == sorted(line for line, _ in found)
    assert len(found) == 2 and "two playbooks named gentle" in found[1][1]


@given(st.text(max_size=300) | st.sampled_from([GOOD[:n] for n in range(0, len(GOOD), 7)]))
def test_no_text_does_worse_than_being_refused(text: str) -> None:
    try:
        parse(text, "book.yaml")
    except BadPlaybooks as error:
        assert error.mistakes


def test_the_playbooks_that_muster_brings_are_safe_and_answer_every_class_of_remedy_on_metal() -> None:
    book = Book(built_in())
    for action in ("reboot_node", "reset_gpu", "replace_part", "inspect", "contact_support"):
        for recurring in (False, True):
            assert plan_for(Case(action, recurring=recurring), book).playbook
            off_metal = plan_for(Case(action, pool_kind="spot", recurring=recurring), book)
            assert off_metal.attempts == 1 if action == "reset_gpu" else off_metal.why_not
    for action in ("none", "ticket", "", "watch"):
        assert plan_for(Case(action), book).why_not


def test_a_stored_plan_is_read_as_it_was_written_and_survives_keys_of_other_versions() -> None:
    step = PlannedStep("reboot", deadline=60.0, ladder=("reboot", "power_cycle"))
    assert PlannedStep.of(step.as_json()) == step
    assert PlannedStep.of({"verb": "drain", "from_the_future": 1}) == PlannedStep("drain")


def test_the_built_in_book_is_read_once_and_not_for_every_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    parse = shelf.parse
    monkeypatch.setattr(shelf, "_shelves", {})

    def read(text: str, name: str, source: str) -> tuple[Playbook, ...]:
        reads.append(name)
        return parse(text, name, source)

    monkeypatch.setattr(shelf, "parse", read)
    assert shelf.book() is shelf.book() is shelf.book()
    assert reads == ["playbooks.yaml"]
