"""A suspicion is shown and plans nothing."""

from __future__ import annotations

import pytest

from fleet.health.grey.advice import Advice
from fleet.health.grey.watch import RULE
from fleet.health.models import Incident
from fleet.inventory.models import Node
from fleet.lifecycle import planner, suspects
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.observer.conditions import Conditions
from fleet.observer.grey import Grey, stated
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from tests.builders import TestClock
from tests.domain.health.edges import an_edge

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


def suspect(judge: Judge) -> None:
    edge = an_edge(NODE, rule_id=RULE, cause=RULE, action_class="confirm", severity="degraded", source="dcgm", code="",
                   latched=False)  # fmt: skip
    judge.suspect([edge], [])
    judge.commit()


def state() -> str:
    return NodeLifecycle.objects.get(node__name=NODE).state


def test_a_suspicion_is_an_incident_whose_test_waits_for_a_person(judge: Judge, clock: TestClock) -> None:
    suspect(judge)
    incident = Incident.objects.get()
    assert incident.action_class == "confirm"
    clock.tick(120)
    judge.settle()
    planner.replan(incident.cluster_id, clock, "test")
    workflow = Workflow.objects.get()
    assert "confirm" in [step["verb"] for step in workflow.plan]
    assert workflow.state in ("planned", "waiting") and workflow.wake_at is None, (
        "nothing is done to the node by itself"
    )


def test_the_node_is_suspect_while_it_lasts_and_serves_on(judge: Judge, session: Session, clock: TestClock) -> None:
    suspect(judge)
    assert suspects.mark(session.cluster_id, clock.now()) == (1, 0)
    assert state() == "suspect"
    assert suspects.mark(session.cluster_id, clock.now()) == (0, 0)
    judge.suspect([], [(NODE, "GPU-3")])
    judge.commit()
    judge.settle()
    assert suspects.mark(session.cluster_id, clock.now()) == (0, 1)
    assert state() == "in_service" and Incident.objects.get().state == "resolved"


def test_only_nodes_that_serve_in_a_gang_are_looked_at(judge: Judge, session: Session) -> None:
    grey = Grey(session, judge.frame, judge, Conditions(), dict)
    Node.objects.filter(name=NODE).update(gang="llm-7")
    assert grey._gangs() == {NODE: "llm-7"}
    NodeLifecycle.objects.filter(node__name=NODE).update(state="held")
    assert grey._gangs() == {}
    for _ in range(4):
        grey.turn()
    assert Incident.objects.count() == 0


def test_advice_is_told_by_gang_with_its_numbers() -> None:
    told = stated(
        [
            Advice("train/a", slower=0.32, pace=0.31, usual=0.46),
            Advice("train/b", starved=True, busy=0.33, memory=0.11, waiting=1.0),
        ]
    )
    assert told.keys() == {"job_slow:train/a", "data_loading:train/b"}
    assert "32%" in told["job_slow:train/a"] and "0.31 instead of 0.46" in told["job_slow:train/a"]
    assert "busy 33%" in told["data_loading:train/b"] and "100%" in told["data_loading:train/b"]


def test_many_slow_gangs_are_not_as_many_conditions() -> None:
    told = stated([Advice(f"train/{n:02d}", slower=0.2, pace=0.4, usual=0.5) for n in range(30)])
    assert len(told) == 9 and "22 more gangs" in told["job_slow"]


def test_a_condition_ends_with_its_cause(judge: Judge, session: Session) -> None:
    conditions = Conditions()
    grey = Grey(session, judge.frame, judge, conditions, dict)
    grey._advise([Advice("train/a", slower=0.3, pace=0.3, usual=0.5)])
    assert [one["code"] for one in conditions.changed(0.0) or []] == ["job_slow:train/a"]
    grey._advise([])
    assert conditions.changed(0.0) == []
