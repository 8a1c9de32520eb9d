"""What is told of caps afterwards: the fullest moment of each scope, and slots that stood empty though wanted."""

from fleet.ops.bench._capwatch import Asked, most_at_once, use

LEAF, RED, BLUE = ("leaf", "l1"), ("rack", "red"), ("rack", "blue")
LIMITS = {LEAF: 2, RED: 1, BLUE: 2}


def test_the_fullest_moment_of_each_scope() -> None:
    asked = [Asked((LEAF, RED), 0, 1, 5), Asked((LEAF, BLUE), 0, 2, 4), Asked((LEAF, BLUE), 0, 4, 9)]
    assert most_at_once(asked) == {LEAF: 2, RED: 1, BLUE: 1}
    assert most_at_once([*asked, Asked((RED,), 3, 4.5, 6)])[RED] == 2
    assert most_at_once([Asked((RED,), 3, None)]) == {}


def test_a_slot_that_somebody_waits_for_is_empty_until_it_is_taken() -> None:
    asked = [Asked((LEAF, RED), 0, 1, 10), Asked((LEAF, BLUE), 0, 1, 4), Asked((LEAF, BLUE), 2, 7, 10)]
    told = use(asked, LIMITS, "leaf", 10)
    assert told.empty == [3] and told.idle == 3
    assert told.busy == 9 + 3 + 3 and told.share == 15 / 18


def test_a_slot_that_another_cap_keeps_from_everybody_is_not_empty() -> None:
    asked = [Asked((LEAF, RED), 0, 1, 10), Asked((LEAF, RED), 0, None)]
    told = use(asked, LIMITS, "leaf", 10)
    assert told.empty == [] and told.share == 1


def test_one_free_slot_is_counted_once_whoever_waits_for_it() -> None:
    asked = [Asked((LEAF, RED), 0, 1, 10), *[Asked((LEAF, BLUE), 3, None) for _ in range(5)]]
    told = use(asked, LIMITS, "leaf", 10)
    assert told.idle == 7 and told.empty == [7]


def test_a_slot_that_nobody_wants_is_not_counted() -> None:
    assert use([Asked((LEAF, RED), 0, 1, 3)], LIMITS, "leaf", 10).empty == []
    assert use([], LIMITS, "leaf", 10).share == 1
