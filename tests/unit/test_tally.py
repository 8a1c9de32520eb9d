"""Rounds of drawn schedules: no seed twice, an end in time, and sums that outlive their processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.labs.schedules import Campaign
from tests.labs.tally import read, rounds, told

NAME = "MUSTER_TEST_ROUNDS"


def seeds(monkeypatch: pytest.MonkeyPatch, seed: int, count: int, stride: int = 1) -> list[tuple[int, int]]:
    for name, value in ((NAME, count), ("MUSTER_SEED", seed), ("MUSTER_STRIDE", stride)):
        monkeypatch.setenv(name, str(value))
    return list(rounds(NAME, 1, each=20))


def test_processes_share_no_seed_and_the_last_round_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = seeds(monkeypatch, 7, 50, stride=2), seeds(monkeypatch, 8, 50, stride=2)
    assert first == [(7, 20), (9, 20), (11, 10)]
    assert not {seed for seed, _ in first} & {seed for seed, _ in second}


def test_no_round_begins_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_UNTIL", str(time.time() - 1))
    assert seeds(monkeypatch, 7, 50) == []


def test_without_a_seed_each_run_draws_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_SEED", raising=False)
    assert len({next(rounds(NAME, 1, each=20)) for _ in range(20)}) > 10


def test_what_was_told_is_summed_and_a_later_run_goes_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Campaign(tmp_path, seed=3, processes=1, until=time.time() + 60)
    monkeypatch.setenv("MUSTER_TALLY", str(campaign.tally))
    for _ in seeds(monkeypatch, 3, 100):
        told("effects", runs=5, powers=4)
    assert read(campaign.tally) == {"effects": {"schedules": 5, "runs": 25, "powers": 20, "seed": 7}}
    assert campaign.done("effects") == 25 and campaign.done("postgres") == 0
    begun: list[tuple[int, int]] = []

    def begin(self: Campaign, group: str, each: int, seed: int, until: float) -> None:
        begun.append((each, seed))
        raise TimeoutError

    monkeypatch.setattr(Campaign, "_begin", begin)
    with pytest.raises(TimeoutError):
        campaign.run("effects", 40, campaign.until)
    campaign.run("effects", 25, campaign.until)
    assert begun == [(15, 8)], "only what is missing, with the next seed; nothing where all is done"
