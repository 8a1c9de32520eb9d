"""Stated problems: since when they hold, and written only when they change."""

from __future__ import annotations

from datetime import timedelta

from fleet.health.rules.types import NodeFacts
from fleet.observer.conditions import Conditions
from fleet.observer.cycle import silence
from fleet.ports.cluster import WatchState
from fleet.telemetry.targets import Target
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


def test_exporters_of_nodes_that_we_boot_are_counted_apart_and_are_no_trouble_by_themselves() -> None:
    facts = {name: NodeFacts(name, True, T0, in_remediation=name != "gpu-1") for name in ("gpu-1", "gpu-2", "gpu-3")}
    sick = Target(0, "gpu-1", "dcgm", failures=2, last_error="dcgm on gpu-1: connection refused.")
    ours = [Target(1, "gpu-2", "dcgm", failures=2), Target(2, "gpu-2", "node", failures=2)]
    assert silence([], 9, facts) == "" and silence(ours, 9, facts) == ""
    assert silence([sick], 9, facts) == f"1 of 9 exporters do not answer, for example: {sick.last_error}"
    told = silence([*ours, sick, Target(3, "gpu-3", "node")], 9, facts)
    assert told.startswith("1 of 9 exporters") and told.endswith("Not counted: 2 nodes are booting by us.")
    assert silence([Target(4, "gone", "dcgm", failures=1)], 9, facts).startswith("1 of 9")
