"""Whatever does not move says why: a code of the catalogue, a sentence, since when, and a time or a person."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import datetime, time, timedelta

import pytest

from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import asked, manual, services
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import Step, Workflow
from fleet.policy import services as policy
from fleet.policy.models import Approval, Window
from fleet.readmodels import explain, reasons
from fleet.readmodels.why import why
from fleet.tickets.models import Ticket
from tests.builders import an_incident
from tests.domain.lifecycle.conftest import Build, build, clock, cluster  # noqa: F401  fixtures
from tests.domain.lifecycle.world import World, a_pod

NAMES = tuple(f"gpu-r01-{number:02d}" for number in range(1, 7))
ACTIONS = ("reboot_node", "reset_gpu", "replace_part", "fence_node", "monitor", "confirm")


class Chance:
    """What may befall the fleet at any second."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.dice, self.count = world, random.Random(seed), 0

    def befall(self) -> None:
        act = self.dice.choice((*(self.fault,) * 4, self.person, self.mood, self.guard, self.owner, self.answer))
        act()

    def _node(self) -> Node:
        return Node.objects.get(name=self.dice.choice(NAMES))

    def fault(self) -> None:
        now, action = self.world.clock.now(), self.dice.choice(ACTIONS)
        self.count += 1
        fields = {"action_class": action, "severity": self.dice.choice(("unhealthy", "degraded"))}
        muted = now + timedelta(minutes=5) if self.dice.random() < 0.1 else None
        incident = an_incident(
            self._node(), cause=f"xid-{self.count}", detected_at=now, first_bad_at=now, muted_until=muted,
            muted_by="ann" if muted else "", muted_reason="Known." if muted else "", **fields,
        )  # fmt: skip
        services.plan(self.world.cluster.pk, [incident.pk], clock=self.world.clock)

    def person(self) -> None:
        flows = list(Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).values_list("pk", flat=True))
        now = self.world.clock.now()
        with suppress(services.Refused, manual.ManualRefused):
            if not flows or self.dice.random() < 0.3:
                manual.request([self._node().pk], self.dice.choice(list(asked.ACTIONS)), "ann", "A test.", now)
                return
            pk = self.dice.choice(flows)
            self.dice.choice(
                (
                    lambda: services.retry_now(pk, "ann", now),
                    lambda: services.skip_step(pk, "ann", "A test.", now),
                    lambda: services.abort(pk, "ann", "A test.", now),
                )
            )()

    def answer(self) -> None:
        now = self.world.clock.now()
        with suppress(services.Refused):
            for ask in Approval.objects.filter(state=Approval.PENDING)[:1]:
                services.approve(int(ask.subject.split(":")[1]), "bo", now)
            for ticket in Ticket.objects.filter(state=Ticket.OPEN)[:1]:
                services.close_ticket(ticket.pk, "bo", "Mended.", now)

    def mood(self) -> None:
        """Of the outside: budgets, BMCs, tests, telemetry, the observer."""
        world, name = self.world, self.dice.choice(NAMES)
        world.pods[f"train/p-{name}"] = a_pod(f"p-{name}", name)
        world.budgets = {f"p-{name}": "train/llm"} if self.dice.random() < 0.6 else {}
        world.bmc[name] = self.dice.choice(("", "lies", "no_answer", "wrong_serial"))
        world.job_result = self.dice.choice(("succeeded", "failed", "running"))
        NodeVerdict.objects.filter(node__name=name).update(
            verdict=self.dice.choice(("healthy", "unknown", "unhealthy"))
        )
        seen = timedelta(seconds=self.dice.choice((3600, 3600, -60)))
        Cluster.objects.filter(pk=world.cluster.pk).update(observer_until=world.clock.now() + seen)

    def guard(self) -> None:
        world, now = self.world, self.world.clock.now()
        Window.objects.all().delete()
        choice = self.dice.randrange(6)
        if choice == 0:
            policy.stop_all(stopped=True, by="ann", reason="A test.", now=now)
        elif choice == 1:
            policy.stop_all(stopped=False, by="ann", reason="Over.", now=now)
        elif choice == 2:
            self._window("freeze", "year-end", time(0), 1440)
        elif choice == 3:
            Window.objects.create(
                kind="opening", name="night", zone="UTC", days="1234567", start=time(23), minutes=5, created_at=now
            )
        else:
            mode = self.dice.choice(("observe", "recommend", "automate", "automate"))
            services.set_mode(Cluster.objects.get(pk=world.cluster.pk), mode, "ann", now, world.clock)

    def _window(self, kind: str, name: str, start: time, minutes: int) -> None:
        fields = {"zone": "UTC", "days": "1234567", "created_at": self.world.clock.now()}
        Window.objects.create(kind=kind, name=name, start=start, minutes=minutes, **fields)

    def owner(self) -> None:
        """A person or another controller cordons or uncordons."""
        name = self.dice.choice(NAMES)
        self.world.change(name, unschedulable=self.dice.random() < 0.7)


def said_well(wait: explain.Wait | None, now: datetime, whose: str) -> explain.Wait:
    assert wait is not None, f"{whose} does not move and says nothing"
    assert wait.code in reasons.CATALOGUE, f"{whose}: {wait.code}"
    assert len(wait.text) > 10, f"{whose}: {wait.code} says {wait.text!r}"
    assert wait.since <= now and (wait.until is not None or wait.person), whose
    assert wait.clears and wait.do and wait.who
    return wait


def everything_is_said(now: datetime) -> set[str]:
    """The codes that were met."""
    met = set()
    for flow in Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).select_related("node", "incident"):
        whose = f"{flow.label} {flow.state} {flow.verb}"
        if flow.state != "running":
            wait = said_well(explain.in_full(flow, now), now, whose)
            told = reasons.parts_of(wait.reason, flow.blocked_text)
            assert told or not wait.reason.says or flow.state == "waiting", (
                f"{whose}: no template of {flow.blocked_text!r}"
            )
            met.add(wait.code)
            continue
        assert flow.wake_at is not None and flow.wake_at - now <= timedelta(hours=1), whose
        assert explain.of_workflow(flow, now) is None, whose
        step = Step.objects.filter(workflow=flow, index=flow.step, attempt=flow.attempt).first()
        assert flow.wake_at <= now or (step is not None and step.text), f"{whose} says nothing of what it waits for"
    quiet = Incident.objects.filter(state=Incident.OPEN).select_related(
        "node__lifecycle", "node__pool", "node__cluster"
    )
    for incident in quiet:
        node = incident.node
        if node is not None and not Workflow.objects.filter(node=node, ended_at=None).exists():
            wait = said_well(explain.of_incident(incident, node, now), now, f"{incident.label} of {node.name}")
            met.add(wait.code)
    return met


@pytest.mark.parametrize("seed", range(3))
def test_whatever_befalls_the_fleet(build: Build, seed: int) -> None:  # noqa: F811
    world = build(*NAMES)
    chance, met = Chance(world, seed), set()
    for _ in range(45):
        chance.befall()
        world.run(chance.dice.randrange(1, 8))
        met |= everything_is_said(world.clock.now())
    assert len(met) >= 4, f"the schedule was too tame: {met}"


def test_why_tells_line_and_what_to_do(build: Build) -> None:  # noqa: F811
    world = build(*NAMES)
    for name in NAMES:
        world.pods[f"train/p-{name}"] = a_pod(f"p-{name}", name, gang="")
        node = Node.objects.get(name=name)
        incident = an_incident(node, detected_at=world.clock.now(), first_bad_at=world.clock.now())
        services.plan(world.cluster.pk, [incident.pk], clock=world.clock)
        world.clock.tick(1)
    world.run(60, lambda: Workflow.objects.filter(blocked_code="cap_in_flight").count() >= 2)
    waiting = Workflow.objects.filter(blocked_code="cap_in_flight").order_by("created_at")
    told = [why("", flow.node.name, world.clock.now())["blocked"] for flow in waiting]
    assert [blocked["line"]["place"] for blocked in told] == list(range(1, len(told) + 1))
    assert all(blocked["line"]["of"] == len(told) for blocked in told)
    assert all(blocked["do"] and blocked["clears"] and blocked["waits_for"] == "the guard" for blocked in told)
