"""The fake world in bad weather: it dies, waits, lies and is interrupted between any two lines of the engine.

Every SQL statement and every call to the outside is a point; between two points a line of Python can change nothing
that anybody sees, so a crash or another's act at each point is one at each line. Others act only where the engine
holds no transaction: inside one, locks keep them waiting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import approving, engine, grants, planner, services
from fleet.lifecycle.context import Ports, Timing
from fleet.lifecycle.models import Workflow
from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest, JobRequest, JobSeen, NodeSeen, PodSeen
from fleet.ports.errors import TemporaryError, UnknownOutcome
from fleet.ports.power import BmcTarget, PowerSeen, PowerVerb
from tests.builders import TestClock
from tests.domain.lifecycle import counted
from tests.domain.lifecycle.oracle import RESET_GPU, Act, Oracle, Violation
from tests.domain.lifecycle.world import Crash, Holds, Message, World

SLOW = Timing(
    soak=10, reboot_timeout=300, reboot_observe=60, drain_margin=20, validate_deadline=120, poll=9, bmc_patience=600
)
MOODS = ("before", "lost", "slow", "late", "error_after", "lies", "crash_before", "crash_after")
"""How a call goes wrong: refused before it did anything; done, but no answer; done, but the answer comes after another
worker could have taken over; done and answered in time but only just; done and told as failed; told as done and not
done; the process dies before it, or after it."""
SURE = (RESET_GPU, "provision")
"""What their servers refuse for the moment was not done: a failure of theirs is told as no answer, by the adapters."""
MOST_MESSAGES = 200
TRANSACTIONAL = ("SAVEPOINT", "RELEASE", "ROLLBACK")


class Storm(World):
    """`plan(n, act)`: at the n-th point from now `act` happens. `moods`: the next calls of that kind go wrong so."""

    def __init__(self, cluster: Cluster, clock: TestClock) -> None:
        super().__init__(cluster, clock)
        self.oracle = Oracle(self)
        self.planned: dict[int, Callable[[], None]] = {}
        self.moods: list[tuple[str, str]] = []
        self.sent: list[Message] = []
        self.passed = 0
        self.crashes = 0
        self.blind = False  # the observer's rows lag behind
        self.told: dict[str, dict[str, Any]] = {}  # rows as the observer wrote them last
        self.ids = dict(Node.objects.filter(cluster=cluster).values_list("name", "pk"))
        self.stride = 60.0  # the longest time without a look
        self.least = 1.0  # the shortest: how late a tick may come
        self._open = False
        self._base = 0
        self._swept = clock.now()

    # -- points -------------------------------------------------------------------------------------------------

    def plan(self, points: int, act: Callable[[], None]) -> None:
        self.planned[self.passed + max(1, points)] = act

    def point(self) -> None:
        if not self._open:
            return
        self.passed += 1
        act = self.planned.pop(self.passed, None)
        if act is None:
            return
        if act is not die and len(connection.savepoint_ids) > self._base:
            self.planned[self.passed + 1] = act  # a lock keeps others waiting until the transaction is over
            return
        with self.closed():
            act()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """What others do is no line of ours."""
        before, self._open = self._open, False
        try:
            yield
        finally:
            self._open = before

    def statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self._open and not sql.startswith(TRANSACTIONAL):
            self.point()
        return execute(sql, params, many, context)

    def guarded(self, job: Callable[[], object]) -> None:
        """One process's work, with points; when it dies, its queue and memory are gone and the rows stay."""
        before, self._open, self._base = self._open, True, len(connection.savepoint_ids)
        try:
            with connection.execute_wrapper(self.statement):
                job()
        except Crash:
            self.crashes += 1
            self.queue.clear()
            connection.set_rollback(False)  # the statement that would have been next was never sent
        finally:
            self._open = before

    # -- time ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """As the base does, then what the observer writes of it, and its word on nodes that people took back."""
        super().settle()
        if self.blind:
            return
        taken = []
        for name, seen in self.nodes.items():
            mark = seen.annotations.get(HOLD_ANNOTATION, "")
            row = {
                "hold_value": mark,
                "unschedulable": seen.unschedulable,
                "foreign_hold": seen.unschedulable and not mark,
                "ready": seen.ready,
                "boot_id": seen.boot_id,
                "pods": sum(pod.node == name for pod in self.pods.values()),
            }
            if self.told.get(name) != row:
                Node.objects.filter(name=name, gone_at=None).update(**row)
                self.told[name] = row
            if mark and not seen.unschedulable:
                taken.append(self.ids[name])
        if taken:
            services.person_uncordoned(self.cluster.pk, taken, self.clock.now())

    def renew(self, up: list[str]) -> None:
        """Fresh telemetry, and the observer's word on what has no open signal any more."""
        counted.renewed([self.ids[name] for name in up], self.clock.now())

    def live(self, seconds: float) -> None:
        """Time passes from one event to the next."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < end:
            ahead = min(self._next(end), end) - self.clock.now()
            self.clock.tick(max(self.least, ahead.total_seconds()))
            self.settle()
            self.work()
            self.oracle.look()

    def _next(self, end: Any) -> Any:
        now = self.clock.now()
        wake = counted.soonest(now)
        ends = [pod.deleting_since + timedelta(seconds=2) for pod in self.pods.values() if pod.deleting_since]
        later = [
            at for at in (wake, *self.boots_at.values(), *ends, now + timedelta(seconds=self.stride)) if at and at > now
        ]
        return min(end, *later)

    def work(self) -> None:
        """A tick, a sweep where it is due, and the messages."""
        if abs(self.clock.now() - self._swept) >= timedelta(seconds=20):
            self._swept = self.clock.now()
            self.guarded(self.sweep)
        elif Workflow.objects.filter(blocked_code=grants.ASKING).exists():
            self.guarded(lambda: grants.run(self.cluster.pk, self.clock))
        self.guarded(lambda: engine.claim_due(self.clock))
        self.guarded(self.deliver)

    def sweep(self) -> None:
        now = self.clock.now()
        services.drop_settled_plans(now)
        approving.expire(now)
        services.settle_released(now)
        planner.replan(self.cluster.pk, self.clock, "muster:sweep")
        grants.run(self.cluster.pk, self.clock)

    def deliver(self) -> None:
        for _ in range(MOST_MESSAGES):
            if not self.queue:
                return
            sent = self.queue.pop(0)
            self.sent.append(sent)
            with self.closed():
                begun = self.oracle.begin(pk for pk, _ in (sent.pairs if isinstance(sent, Holds) else [sent]))
            self.take(sent, SLOW)
            self.oracle.end(begun)
        raise Violation(f"{MOST_MESSAGES} messages in one moment: it spins, {self.sent[-4:]}")

    def ports_of(self, cluster: Cluster) -> Ports:
        me: Any = self
        return Ports(me, me, power=self, target=self.target, lease=lambda: True, provision=self.provision)

    # -- calls --------------------------------------------------------------------------------------------------

    def _mood(self, kind: str) -> str:
        for place, (of, mood) in enumerate(self.moods):
            if of == kind:
                del self.moods[place]
                return mood
        return ""

    def call(self, act: Act, do: Callable[[], Any], untrue: Callable[[], Any]) -> Any:
        """One side effect, judged and done as the mood says."""
        self.point()
        mood = self._mood(act.kind)
        if mood == "before":
            raise TemporaryError("the server is busy", code="busy")
        if mood == "crash_before":
            raise Crash(act.kind)
        with self.closed():
            self.oracle.judge(act, effective=mood != "lies")
            answer = untrue() if mood == "lies" else do()
        if mood == "crash_after":
            raise Crash(act.kind)
        if mood in ("slow", "late"):
            self.clock.tick({"slow": 12.0, "late": 5.0}[mood])
            with self.closed():
                self.another_worker()
        self.point()
        if mood in ("lost", "slow"):
            raise UnknownOutcome("timed out after sending")
        if mood == "error_after" and act.kind not in SURE:
            raise TemporaryError("500", code="bmc_error")
        if mood == "error_after":
            raise UnknownOutcome("500")
        return answer

    def another_worker(self) -> None:
        """Whose tick takes whatever lease has run out, while this one's call is under way."""
        engine.claim_due(self.clock)
        self.deliver()

    def node(self, name: str) -> NodeSeen:
        self.point()
        return super().node(name)

    def pods_on(self, node: str) -> list[PodSeen]:
        self.point()
        return super().pods_on(node)

    def hold(self, request: HoldRequest) -> NodeSeen:
        act = Act("hold", request.node, value=request.value)
        return self.call(act, lambda: World.hold(self, request), lambda: self.nodes[request.node])  # type: ignore[no-any-return]

    def release(self, name: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        act = Act("uncordon" if uncordon else "release", name, value=value)
        do = lambda: World.release(self, name, value, resource_version, uncordon)  # noqa: E731
        return self.call(act, do, lambda: self.nodes[name])  # type: ignore[no-any-return]

    def fence(self, name: str, on: bool) -> NodeSeen:
        do = lambda: World.fence(self, name, on)  # noqa: E731
        return self.call(Act("fence" if on else "unfence", name), do, lambda: self.nodes[name])  # type: ignore[no-any-return]

    def evict(self, pod: PodSeen, *more: Any, **how: Any) -> None:
        self.call(Act("evict", pod.node, value=pod.uid), lambda: World.evict(self, pod, *more, **how), lambda: None)

    def create_job(self, request: JobRequest) -> None:
        """A test, or the Job that resets GPUs: that one takes effect once for each name."""
        if "--gpu-reset" not in request.command:
            self.call(Act("job", request.node), lambda: World.create_job(self, request), lambda: None)
            return

        def reset() -> None:
            if request.name not in self.jobs:
                self.oracle.took(request.node, RESET_GPU)
            World.create_job(self, request)

        self.call(Act(RESET_GPU, request.node, value=request.name), reset, lambda: None)

    def pause_gpu_services(self, name: str, on: bool) -> NodeSeen:
        do = lambda: World.pause_gpu_services(self, name, on)  # noqa: E731
        return self.call(Act("pause" if on else "resume", name), do, lambda: self.nodes[name])  # type: ignore[no-any-return]

    def job(self, namespace: str, name: str) -> JobSeen:
        self.point()
        return super().job(namespace, name)

    def observe(self, target: BmcTarget, deadline_seconds: float) -> PowerSeen:
        self.point()
        mood = self._mood("observe")
        if mood in ("before", "lost"):
            raise TemporaryError("no answer", code="bmc_silent")
        return super().observe(target, deadline_seconds)

    def reset(self, target: BmcTarget, verb: PowerVerb, deadline_seconds: float) -> PowerSeen:
        do = lambda: World.reset(self, target, verb, deadline_seconds)  # noqa: E731
        return self.call(Act("power", target.node, value=str(verb)), do, lambda: self._seen(target))  # type: ignore[no-any-return]

    # -- what people and machines do to nodes -----------------------------------------------------------------------

    def cordon(self, name: str) -> None:
        """`kubectl cordon`: no change where it is cordoned already."""
        if name in self.nodes and not self.nodes[name].unschedulable:
            self.change(name, unschedulable=True)
            self.oracle.cordoned.add(name)

    def uncordon(self, name: str) -> None:
        if name in self.nodes and self.nodes[name].unschedulable:
            self.change(name, unschedulable=False)
            self.oracle.cordoned.discard(name)

    def vanish(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.boots_at.pop(name, None)
        self.pods = {key: pod for key, pod in self.pods.items() if pod.node != name}

    def replace(self, name: str) -> None:
        """Another machine under the same name."""
        if name in self.nodes:
            self.nodes[name] = dataclasses.replace(
                self.nodes[name], uid=f"{self.nodes[name].uid}x", annotations={}, unschedulable=False
            )


def die() -> None:
    raise Crash("between two lines")
