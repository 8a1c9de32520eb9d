"""A small fleet in a storm, and everything that may befall it, as operations.

State machines draw them, planted bugs are shown by short lists of them. Each operation is possible at every moment:
what the services refuse is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from fleet.health import services as health
from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import engine, grants, manual, services
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.policy import services as policy
from fleet.policy.models import BreakerRule, Cap, Window
from fleet.tickets.models import Ticket
from tests.builders import T0, TestClock, a_bmc, a_cluster, a_node, a_person, an_incident
from tests.domain.lifecycle.oracle import Violation, signature
from tests.domain.lifecycle.savepoints import carried
from tests.domain.lifecycle.storm import Storm, die
from tests.domain.lifecycle.world import a_pod

NODES = {"n1": ("r1", ""), "n2": ("r1", ""), "n3": ("r1", "vision"), "n4": ("r2", "vision"), "n5": ("r2", "")}
FLEET = {**NODES, **{f"n{number}": (f"r{number // 3 + 1}", "") for number in range(6, 16)}}
"""Those and more, for stories in which much happens at once: what a sweep costs is shared by all."""
CAPS = (
    ("hold", "fleet", 4, None, None), ("hold", "rack", None, 70.0, None), ("take_out", "rack", 2, None, None),
    ("take_out", "fleet", None, 70.0, None), ("in_flight", "rack", 1, None, None),
    ("in_flight", "fleet", None, 50.0, None), ("floor", "tenant", 1, None, None), ("rate", "fleet", 4, None, 1200.0),
)  # fmt: skip
PEOPLE = ("ann", "bo")
ENDED = (WorkflowState.SUCCEEDED, WorkflowState.FAILED, WorkflowState.CANCELLED)


class Story:
    def __init__(self, patch: pytest.MonkeyPatch, nodes: int = 5) -> None:
        self.clock = TestClock()
        self.ahead = 0.0
        self.cluster: Cluster = a_cluster(observer_until=T0 + timedelta(days=30))
        Cap.objects.all().delete()
        Cap.objects.bulk_create(
            Cap(kind=kind, scope=scope, absolute=most, percent=share, window=window)
            for kind, scope, most, share, window in CAPS
        )
        BreakerRule.objects.all().delete()
        BreakerRule.objects.create(cluster_id=self.cluster.pk, percent=1, least=4, window=300, failed=4, cooldown=60)
        self.names = list(FLEET)[:nodes]
        for person in PEOPLE:
            a_person(person)
        for name in self.names:
            rack, tenant = FLEET[name]
            a_bmc(a_node(self.cluster, name, rack=rack, leaf="l1", tenant=tenant))
        self.storm = Storm(self.cluster, self.clock)
        for name in self.names:
            self.storm.pods[f"train/p-{name}"] = a_pod(f"p-{name}", name, gang="")
        self._instrument(patch)

    def _instrument(self, patch: pytest.MonkeyPatch) -> None:
        storm, save = self.storm, grants._save

        def judged(cluster: Cluster, granted: list[Workflow], *rest: Any) -> None:
            with storm.closed():
                storm.oracle.granted(cluster, granted)
            save(cluster, granted, *rest)

        patch.setattr(grants, "_save", judged)
        for module in (engine, grants):
            patch.setattr(module, "send", storm.send)

    # -- what happens -------------------------------------------------------------------------------------------

    def fault(self, name: str, action: str = "reboot_node", cause: str = "") -> None:
        node = Node.objects.get(name=name)
        cause = cause or {"fence_node": "host-lost", "replace_part": "remapped-rows"}.get(action, "gpu-lost")
        if node.gone_at or Incident.objects.filter(node=node, cause=cause, state="open").exists():
            return
        now = self.clock.now()
        row = an_incident(node, cause, action_class=action, detected_at=now, first_bad_at=now)
        Signal.objects.create(
            cluster_id=self.cluster.pk, node=node, rule=cause, cause=cause, source="test", severity="unhealthy",
            action_class=action, title=cause, first_bad_at=now, opened_at=now, seen_at=now, incident=row,
        )  # fmt: skip
        if action == "fence_node" and name in self.storm.nodes:
            self.storm.change(name, ready=None)
        NodeVerdict.objects.filter(node=node).update(verdict="unhealthy", since=now)
        services.plan(self.cluster.pk, [row.pk], clock=self.clock)

    def clear(self, name: str) -> None:
        """The fault went away by itself: the observer closes the incident."""
        now = self.clock.now()
        Signal.objects.filter(node__name=name, cleared_at=None).update(cleared_at=now)
        rows = Incident.objects.filter(node__name=name, state="open").values_list("pk", flat=True)
        with transaction.atomic():
            health.resolve_incidents(list(rows), "cleared", now)

    def live(self, seconds: float) -> None:
        self.storm.live(seconds)

    def crash(self, points: int) -> None:
        self.storm.plan(points, die)

    def meanwhile(self, points: int, what: Callable[[], None]) -> None:
        """`what` happens while the engine is at that point."""
        self.storm.plan(points, lambda: self.anyhow(what))

    @staticmethod
    def anyhow(what: Callable[[], None]) -> None:
        with suppress(services.Refused, manual.ManualRefused, Node.DoesNotExist):
            with transaction.atomic():
                what()

    def go_wrong(self, kind: str, mood: str) -> None:
        self.storm.moods.append((kind, mood))

    def again(self) -> None:
        """Every message once more, the newest first, and the current ones."""
        self.storm.queue += [*reversed(self.storm.sent[-12:]), *Workflow.objects.values_list("pk", "version")]
        amid = bool(self.storm.oracle.stack)  # of another message, which is judged when it has ended
        self.storm.guarded(self.storm.deliver)
        if not amid:
            self.storm.oracle.look()

    def lose(self) -> None:
        self.storm.queue.clear()

    def pause(self, seconds: float = 12.0) -> None:
        """The process stands still; another worker's tick takes what it held."""
        self.clock.tick(seconds)
        self.storm.another_worker()

    def jump(self, seconds: float) -> None:
        """The wall clock is set; at most an hour away from the true time. No machine boots longer when it is set back;
        when it is set forward the time has passed for machines, as for one that was suspended."""
        if abs(self.ahead + seconds) <= 3600:
            self.ahead += seconds
            self.clock.step(seconds)
            back = timedelta(seconds=min(seconds, 0))
            self.storm.boots_at = {name: at + back for name, at in self.storm.boots_at.items()}

    def blind(self, on: bool) -> None:
        self.storm.blind = on

    def unknown(self, name: str) -> None:
        NodeVerdict.objects.filter(node__name=name).update(verdict="unknown", since=self.clock.now())

    def known(self, name: str) -> None:
        NodeVerdict.objects.filter(node__name=name, verdict="unknown").update(verdict="healthy", since=self.clock.now())

    # -- people -------------------------------------------------------------------------------------------------

    def open_of(self, name: str) -> Workflow | None:
        return Workflow.objects.filter(node__name=name, state__in=OPEN_WORKFLOW_STATES).first()

    def cordon(self, name: str) -> None:
        self.storm.cordon(name)

    def uncordon(self, name: str) -> None:
        self.storm.uncordon(name)

    def vanish(self, name: str) -> None:
        self.storm.vanish(name)
        node = Node.objects.get(name=name)
        with transaction.atomic():
            Node.objects.filter(pk=node.pk).update(gone_at=self.clock.now())
            services.retire_nodes(self.cluster.pk, [node.pk], self.clock.now())

    def abort(self, name: str) -> None:
        if workflow := self.open_of(name):
            services.abort(workflow.pk, "ann", "a test", self.clock.now())

    def skip(self, name: str) -> None:
        if workflow := self.open_of(name):
            services.skip_step(workflow.pk, "ann", "a test", self.clock.now())
            self.storm.oracle.skipped.add(workflow.pk)

    def retry(self, name: str) -> None:
        if workflow := self.open_of(name):
            services.retry_now(workflow.pk, "ann", self.clock.now())

    def approve(self, name: str, person: str) -> None:
        if workflow := self.open_of(name):
            services.approve(workflow.pk, person, self.clock.now())
            agreed = self.storm.oracle.votes.setdefault(workflow.pk, set())
            agreed.add((person, signature(Workflow.objects.get(pk=workflow.pk))))

    def reject(self, name: str) -> None:
        if workflow := self.open_of(name):
            services.reject(workflow.pk, "bo", "a test", self.clock.now())

    def edit(self, name: str) -> None:
        """The plan of a workflow that waits or works is another one now."""
        workflow = self.open_of(name)
        if workflow and workflow.step < len(workflow.plan) and workflow.plan[-1]["verb"] == "return":
            workflow.plan[-2] = {**workflow.plan[-2], "deadline": 7000 + workflow.plan[-2].get("deadline", 0) % 7}
            Workflow.objects.filter(pk=workflow.pk).update(plan=workflow.plan)

    def ask_reboot(self, name: str, person: str) -> None:
        node = Node.objects.get(name=name)
        manual.request([node.pk], "reboot", person, "a test", self.clock.now(), self.clock)

    def stop(self, on: bool) -> None:
        policy.stop_all(stopped=on, by="ann", reason="a test", now=self.clock.now())

    def mode(self, mode: str) -> None:
        services.set_mode(self.cluster, mode, "ann", self.clock.now(), self.clock)

    def cap(self, kind: str, most: int) -> None:
        Cap.objects.filter(kind=kind, scope="rack").update(absolute=most, percent=None)

    def freeze(self, seconds: float) -> None:
        now = self.clock.now()
        Window.objects.create(
            kind="freeze", name="works", zone="UTC", start=(now - timedelta(minutes=1)).time(), minutes=1440,
            begins=now - timedelta(minutes=1), ends=now + timedelta(seconds=seconds), created_at=now,
        )  # fmt: skip

    def trip(self) -> None:
        with transaction.atomic():
            policy.trip(self.cluster.pk, "a test", self.clock.now())

    def reset_breaker(self) -> None:
        services.reset_breaker(self.cluster, "ann", "a test", self.clock.now(), self.clock)

    def close_tickets(self) -> None:
        for ticket in Ticket.objects.filter(closed_at=None):
            Signal.objects.filter(node=ticket.node, cleared_at=None).update(cleared_at=self.clock.now())
            self.mend(ticket.node.name)
            self.anyhow(lambda pk=ticket.pk: services.close_ticket(pk, "bo", "swapped", self.clock.now()))  # type: ignore[misc]

    def mend(self, name: str) -> None:
        """Hands at the machine: a host that was dead runs again. Nothing else heals one that nobody fences."""
        node = self.storm.nodes.get(name)
        if node is not None and not node.ready and name not in self.storm.boots_at:
            self.storm.off.discard(name)
            self.storm.change(name, ready=True, boot_id=f"{node.boot_id}-by-hand")

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self, hours: float = 8) -> None:
        """The weather clears and people answer: everything must end, and nothing of ours may be left behind."""
        storm = self.storm
        storm.planned.clear()
        storm.moods.clear()
        storm.bmc.clear()
        storm.budgets.clear()
        storm.stride, storm.least = 300.0, 15.0  # what ends need not be watched by the second
        self.blind(False)
        self.stop(False)
        Window.objects.all().delete()
        BreakerRule.objects.update(enabled=False)
        Cap.objects.filter(kind__in=["rate", "floor"]).delete()
        self.anyhow(self.reset_breaker)
        self.anyhow(lambda: self.mode("automate"))
        NodeVerdict.objects.filter(verdict="unknown").update(verdict="healthy", since=self.clock.now())
        for _ in range(int(hours * 20)):
            for name in [name for name in storm.nodes if name in storm.oracle.cordoned]:
                storm.uncordon(name)
            self.live(180)
            self._answer()
            if not Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).exists():
                break
        self._all_ended()

    def _answer(self) -> None:
        self.close_tickets()
        at_work = set(Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).values_list("node__name", flat=True))
        for name in self.storm.nodes.keys() - at_work:
            self.mend(name)
        for workflow in Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).select_related("node"):
            if workflow.needs_approval:
                self.anyhow(lambda name=workflow.node.name: self.approve(name, "bo"))  # type: ignore[misc]
                self.anyhow(lambda name=workflow.node.name: self.approve(name, "cho"))  # type: ignore[misc]
            if workflow.blocked_code in ("deadline", "stopped_here", "kept", "foreign_hold"):
                self.anyhow(lambda name=workflow.node.name: self.abort(name))  # type: ignore[misc]

    def _all_ended(self) -> None:
        for workflow in Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).select_related("node"):
            raise Violation(
                f"{workflow.label} never ends: {workflow.state}, {workflow.verb}, {workflow.blocked_code}: "
                f"{workflow.blocked_text}"
            )
        for name, node in self.storm.nodes.items():
            if node.annotations:
                raise Violation(f"our mark was left on {name}: {node.annotations}")
            if node.unschedulable and name not in self.storm.oracle.cordoned:
                raise Violation(f"our cordon was left on {name}")
            if node.taints:
                raise Violation(f"our taint was left on {name}")


@contextmanager
def a_story(nodes: int = 5) -> Iterator[Story]:
    """A fleet whose rows are gone again at the end."""
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        with carried():
            yield Story(patch, nodes)
        transaction.set_rollback(True)
