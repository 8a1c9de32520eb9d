"""Enough other people, in time, on exactly this plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.policy.approvals import KINDS, Ask, Vote, answer, may_vote, plan_hash

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PEOPLE = ["ann", "bo", "cho", "dae"]


def test_one_plan_has_one_hash_whatever_the_order_of_its_keys() -> None:
    assert plan_hash({"a": 1, "b": [2, 3]}) == plan_hash({"b": [2, 3], "a": 1})
    assert plan_hash({"a": 1, "b": [2, 3]}) != plan_hash({"a": 1, "b": [3, 2]})


@given(
    requester=st.sampled_from(PEOPLE),
    needed=st.integers(1, 3),
    tries=st.lists(
        st.tuples(st.sampled_from(PEOPLE), st.booleans(), st.sampled_from(["h", "h", "h", "other"])), max_size=8
    ),
    late=st.booleans(),
)
def test_a_plan_is_allowed_only_by_enough_others_on_this_very_plan(
    requester: str, needed: int, tries: list[tuple[str, bool, str]], late: bool
) -> None:
    ask = Ask("h", requester, needed, NOW + timedelta(minutes=5))
    now = NOW + timedelta(minutes=6 if late else 0)
    votes: list[Vote] = []
    for person, yes, seen in tries:
        if not may_vote(ask, votes, person, seen, now):
            votes.append(Vote(person, yes))
    allowed = answer(ask, votes, "h", now).allowed
    assert len({vote.by for vote in votes}) == len(votes)
    assert requester not in {vote.by for vote in votes}
    assert allowed == (len(votes) >= needed and all(vote.yes for vote in votes))
    assert not answer(ask, votes, "changed", now).allowed
    assert not (late and votes)


def test_what_is_dangerous_takes_more_people() -> None:
    assert KINDS["reprovision"][0] > KINDS["recommend"][0]
    assert all(needed >= 1 and minutes > 0 for needed, minutes in KINDS.values())
