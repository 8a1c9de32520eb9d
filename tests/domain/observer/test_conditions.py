"""Stated problems: since when they hold, and written only when they change."""

from __future__ import annotations

from datetime import timedelta

from fleet.observer.conditions import Conditions
from fleet.ports.cluster import WatchState
from tests.builders import T0


def test_a_watch_that_is_lost_is_stated_and_mended() -> None:
    conditions = Conditions([])
    conditions.watch(WatchState("nodes", False, T0, "Connection refused.", "api_unreachable"), T0)
    listed = conditions.changed(0)
    assert listed == [{"code": "watch_nodes", "text": "Connection refused.", "since": T0.isoformat()}]
    conditions.wrote(listed, 0)
    assert conditions.changed(1) is None
    conditions.watch(WatchState("nodes", True, T0, "Watching nodes.", "watching"), T0)
    assert conditions.changed(2) == []


def test_a_first_list_under_way_is_no_problem() -> None:
    conditions = Conditions([])
    conditions.watch(WatchState("pods", False, T0, "Reading the list.", "listing"), T0)
    assert conditions.changed(0) is None


def test_numbers_that_move_are_rewritten_seldom() -> None:
    conditions = Conditions([])
    conditions.state("scrape", "3 of 512 exporters do not answer", T0)
    conditions.wrote(conditions.changed(0) or [], 0)
    conditions.state("scrape", "4 of 512 exporters do not answer", T0)
    assert conditions.changed(10) is None
    assert conditions.changed(31) is not None


def test_a_problem_keeps_its_beginning_over_a_restart() -> None:
    known = [{"code": "scrape", "text": "1 of 2", "since": T0.isoformat()}]
    conditions = Conditions(known)
    conditions.state("scrape", "1 of 2", T0 + timedelta(hours=1))
    assert conditions.changed(0) is None
