"""Judges everything that the engine does against the invariants, by counting for itself.

A condition that turned bad while a message was under way cannot be known to its last look; what was bad when the
message began and is bad at the act is a violation. Counts come from rows and from the fake cluster, by formulas of its
own: it shares no code with the guards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.policy.models import Breaker, Cap, Claim, Switch, Window
from fleet.ports.cluster import HOLD_ANNOTATION

if TYPE_CHECKING:
    from tests.domain.lifecycle.storm import Storm

OUT = ("draining", "drained", "remediating", "validating", "soaking", "awaiting_repair")
DISRUPTS = ("evict", "power", "fence")
CLAIM_OF = {"hold": "hold", "evict": "take_out", "power": "in_flight", "fence": "in_flight"}
KIND_OF_VERB = {"hold": "hold", "drain": "take_out"}


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Act:
    kind: str  # hold, release, uncordon, fence, unfence, evict, job, power
    node: str
    value: str = ""


@dataclass(slots=True, eq=False)
class Message:
    workflow_id: int
    node: str
    bad: set[str] = field(default_factory=set)


def signature(workflow: Workflow) -> str:
    """What people agree to, in a form of its own: the steps in order, whichever rung is being tried."""
    return repr([sorted({**step, "verb": (step.get("ladder") or [step["verb"]])[0]}.items()) for step in workflow.plan])


class Oracle:
    """`effective` power calls by (workflow, attempt, verb); votes by workflow; `cordoned` by people, not by us."""

    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        self.stack: list[list[Message]] = []
        self.power: dict[tuple[int, int, str], int] = {}
        self.ops: set[str] = set()
        self.reset_at: dict[str, Any] = {}
        self.tested_at: dict[str, Any] = {}
        self.skipped: set[int] = set()
        self.votes: dict[int, set[tuple[str, str]]] = {}
        self.cordoned: set[str] = set()
        self.acts = 0
        self.grants = 0
        self.broken: Violation | None = None

    # -- messages ---------------------------------------------------------------------------------------------------

    def begin(self, workflow_ids: Iterable[int]) -> list[Message]:
        """One delivery, for one workflow or for many."""
        rows = Workflow.objects.select_related("node").filter(pk__in=list(workflow_ids))
        begun = [Message(workflow.pk, workflow.node.name, self._bad(workflow)) for workflow in rows]
        self.stack.append(begun)
        return begun

    def end(self, begun: list[Message]) -> None:
        for place, other in enumerate(self.stack):
            if other is begun:
                del self.stack[place:]
                return

    def _bad(self, workflow: Workflow) -> set[str]:
        """Everything that forbids to act on the workflow's node now."""
        now, name = self.storm.clock.now(), workflow.node.name
        node = self.storm.nodes.get(name)
        found = set()
        if Switch.objects.filter(stopped=True).exists():
            found.add("stopped")
        row = Breaker.objects.filter(cluster_id=workflow.cluster_id).first()
        if row and (row.state == "open" or (row.state == "cooling" and row.until and row.until > now)):
            found.add("breaker")
        if Cluster.objects.get(pk=workflow.cluster_id).mode == "observe":
            found.add("observe")
        if Window.objects.filter(kind="freeze", begins__lte=now, ends__gt=now).exists():
            found.add("freeze")
        if workflow.incident_id and not Incident.objects.filter(pk=workflow.incident_id, state="open").exists():
            found.add("closed")
        mine = workflow.hold_value and node and node.annotations.get(HOLD_ANNOTATION) == workflow.hold_value
        if not (mine and node and node.unschedulable):
            found.add("hold")
        if node is None or (workflow.node_uid and node.uid != workflow.node_uid):
            found.add("identity")
        fresh = Workflow.objects.get(pk=workflow.pk)
        if fresh.needs_approval and not self._agreed(fresh):
            found.add("approval")
        if Signal.objects.filter(node=workflow.node, cleared_at=None, severity="unhealthy").exists():
            found.add("signal")
        verdict = NodeVerdict.objects.filter(node=workflow.node).values_list("verdict", flat=True).first()
        if verdict in (None, "unknown", "lost"):
            found.add("unknown")
        if fresh.state not in ("running", "blocked"):
            found.add("over")
        return found

    def _agreed(self, workflow: Workflow) -> bool:
        agreed = self.votes.get(workflow.pk, set())
        return any(by != workflow.created_by and plan == signature(workflow) for by, plan in agreed)

    # -- acts -------------------------------------------------------------------------------------------------------

    def judge(self, act: Act, effective: bool) -> None:
        """Raises Violation for an act that must not be; kept, because the engine takes it for a bug of a step."""
        self.acts += 1
        try:
            self._judge(act, effective)
        except Violation as violation:
            self.broken = self.broken or violation
            raise

    def _judge(self, act: Act, effective: bool) -> None:
        if not self.stack:
            raise Violation(f"{act.kind} on {act.node} without a message")
        message = next((message for message in self.stack[-1] if message.node == act.node), None)
        if message is None:
            raise Violation(f"{act.kind} on {act.node}, which is no node of the message's workflows")
        workflow = Workflow.objects.select_related("node").get(pk=message.workflow_id)
        bad = message.bad & self._bad(workflow)
        forbidden = {"observe", "identity", "over"}
        if act.kind in DISRUPTS and act.value != "On":
            forbidden |= {"stopped", "breaker", "freeze", "closed", "hold", "approval"}
        if act.kind == "job":
            forbidden |= {"hold"}
        if act.kind == "hold":
            forbidden |= {"approval"}
        if bad & forbidden:
            raise Violation(f"{act.kind} {act.value} on {act.node} although: {', '.join(sorted(bad & forbidden))}")
        self._claimed(act, workflow)
        self._intended(act, workflow)
        if act.kind == "power":
            self._powered(act, workflow, effective)
        if act.kind == "fence" and act.node not in self.storm.off:
            raise Violation(f"{act.node} was fenced while its power was on")
        if act.kind == "uncordon":
            self._uncordoned(act, workflow, bad)
        if act.kind == "job":
            self.tested_at[act.node] = self.storm.clock.now()

    def _claimed(self, act: Act, workflow: Workflow) -> None:
        kind = CLAIM_OF.get(act.kind)
        if kind and not Claim.objects.filter(workflow_id=workflow.pk, kind=kind, released_at=None).exists():
            raise Violation(f"{act.kind} on {act.node} without a claim of {kind}")

    def _intended(self, act: Act, workflow: Workflow) -> None:
        """A committed intent stands behind every side effect; one that names a call stands for one call."""
        rows = Intent.objects.filter(workflow=workflow)
        if act.kind == "evict":
            if not any(act.value in intent.before.get("pods", {}) for intent in rows.filter(verb="evict")):
                raise Violation(f"evicted from {act.node} without an intent that names the pod")
            return
        verbs = {"uncordon": ("release",), "job": ("validate",), "power": ("reset", "power")}.get(act.kind, (act.kind,))
        waiting = rows.filter(verb__in=verbs)
        if act.kind != "job":
            waiting = waiting.filter(resolved_at=None)
        row = waiting.order_by("-created_at").first()
        if row is None:
            raise Violation(f"{act.kind} on {act.node} without an intent that was written before")
        if act.kind == "power":
            if str(row.op_id) in self.ops:
                raise Violation(f"op {row.op_id} was sent to the BMC of {act.node} twice")
            self.ops.add(str(row.op_id))

    def _powered(self, act: Act, workflow: Workflow, effective: bool) -> None:
        lies = self.storm.bmc.get(act.node) == "lies"
        if not effective or lies:
            return
        verb = "reset" if act.value in ("ForceRestart", "PowerCycle") else act.value
        if verb == "On" and act.node in self.storm.boots_at:
            verb = "reset"  # a node that was found off is powered on in place of a reset
        key = (workflow.pk, workflow.attempt, verb)
        self.power[key] = self.power.get(key, 0) + 1
        if self.power[key] > 1:
            raise Violation(f"{act.node} took {self.power[key]} of {verb} in one attempt")
        if act.node in self.storm.boots_at and act.value != "ForceOff":
            raise Violation(f"{act.node} was reset while it boots")
        self.reset_at[act.node] = self.storm.clock.now()

    def _uncordoned(self, act: Act, workflow: Workflow, bad: set[str]) -> None:
        if act.node in self.cordoned:
            raise Violation(f"a person's cordon was taken off {act.node}")
        if workflow.verb != "return":
            return
        if bad & {"signal", "unknown"}:
            raise Violation(f"{act.node} was returned although: {', '.join(sorted(bad & {'signal', 'unknown'}))}")
        if workflow.pk in self.skipped:
            return
        for verb in ("validate", "soak"):
            if not Step.objects.filter(workflow=workflow, verb=verb, attempt=workflow.attempt, state="done").exists():
                raise Violation(f"{act.node} was returned without {verb}")
        self._rebooted(act, workflow)
        reset, tested = self.reset_at.get(act.node), self.tested_at.get(act.node)
        if reset is not None and (tested is None or tested < reset):
            raise Violation(f"{act.node} was returned on a test from before its reset")

    def _rebooted(self, act: Act, workflow: Workflow) -> None:
        """A reboot that is told as done has changed the boot."""
        done = Step.objects.filter(workflow=workflow, verb__in=("reboot", "power_cycle", "fence"), state="done")
        if done.exists() and self.storm.nodes[act.node].boot_id == f"boot-{act.node}-1":
            raise Violation(f"{act.node} was returned as rebooted and runs since before its fault")

    # -- grants -----------------------------------------------------------------------------------------------------

    def granted(self, cluster: Cluster, rows: Sequence[Workflow]) -> None:
        """Called with what is being granted, in its transaction and before the claims are written."""
        now = self.storm.clock.now()
        halted = {"stopped", "breaker", "observe", "freeze", "approval"}
        places = self._places()
        used = {kind: self._used(kind, places) for kind in ("hold", "take_out", "in_flight")}
        begun = list(Claim.objects.filter(kind="in_flight").values_list("node_id", "claimed_at"))
        for workflow in rows:
            kind = _kind(workflow.verb)
            if kind is None:
                continue
            self.grants += 1
            bad = self._bad(workflow) & (halted - ({"freeze"} if kind == "hold" else set()))
            if bad:
                raise Violation(f"{kind} was granted for {workflow.node.name} although: {', '.join(sorted(bad))}")
            place = places.get(workflow.node_id)
            if place is None:
                raise Violation(f"{kind} was granted for {workflow.node.name}, which is not managed")
            if not (kind == "take_out" and not place["pods"]):
                self._fits(cluster, kind, place, used, places, [at for _, at in begun], now)
            used[kind].add(workflow.node_id)
            if kind == "in_flight":
                begun.append((workflow.node_id, now))

    @staticmethod
    def _places() -> dict[int, dict[str, Any]]:
        rows = Node.objects.filter(managed=True, gone_at=None).values(
            "pk", "name", "rack", "leaf", "tenant", "pods", "foreign_hold", "ready"
        )
        return {row["pk"]: {**row, "fleet": "", "cluster": ""} for row in rows}

    @staticmethod
    def _used(kind: str, places: dict[int, dict[str, Any]]) -> set[int]:
        found = set(Claim.objects.filter(kind=kind, released_at=None).values_list("node_id", flat=True))
        if kind == "take_out":
            states = dict(NodeLifecycle.objects.values_list("node_id", "state"))
            verdicts = dict(NodeVerdict.objects.values_list("node_id", "verdict"))
            for pk, row in places.items():
                if (
                    row["foreign_hold"] or not row["ready"] or states.get(pk) in OUT
                    or verdicts.get(pk, "unknown") in ("unknown", "lost")
                ):  # fmt: skip
                    found.add(pk)
        return {pk for pk in found if pk in places}

    def _fits(
        self,
        cluster: Cluster,
        kind: str,
        place: dict[str, Any],
        used: dict[str, set[int]],
        places: dict[int, dict[str, Any]],
        begun: list[Any],
        now: Any,
    ) -> None:
        if place["pk"] in used[kind] and kind != "in_flight":
            return
        if cluster.half_open and kind != "hold" and len(used[kind] - {place["pk"]}) >= 1:
            raise Violation(f"{kind} for {place['name']}: more than one node after a reset or a raised mode")
        for cap in Cap.objects.all():
            if cap.scope not in place or (cap.scope not in ("fleet", "cluster") and not place[cap.scope]):
                continue
            inside = {pk for pk, row in places.items() if row[cap.scope] == place[cap.scope]}
            if cap.kind == kind:
                limits = [n for n in (cap.absolute, _percent(cap.percent, len(inside))) if n is not None]
                count = len((used[kind] & inside) | {place["pk"]})
                if limits and count > max(1, min(limits)):
                    raise Violation(f"{kind} for {place['name']}: {count} in {cap.scope}, {min(limits)} may")
            if cap.kind == "floor" and kind == "take_out":
                least = max(cap.absolute or 0, math.ceil(len(inside) * (cap.percent or 0) / 100))
                left = len(inside) - len((used["take_out"] & inside) | {place["pk"]})
                if left < least:
                    raise Violation(f"take_out for {place['name']}: {left} of {least} stay in {cap.scope}")
            if cap.kind == "rate" and kind == "in_flight":
                recent = sum(at > now - timedelta(seconds=cap.window or 3600) for at in begun)
                if cap.absolute is not None and recent + 1 > max(1, cap.absolute):
                    raise Violation(f"in_flight for {place['name']}: {recent + 1} begun, {cap.absolute} may")

    # -- at every instant ------------------------------------------------------------------------------------------

    def look(self) -> None:
        """What holds between any two events."""
        self.stack.clear()
        if self.broken is not None:
            raise self.broken
        for workflow in Workflow.objects.filter(state__in=OPEN_WORKFLOW_STATES).select_related("node"):
            told = workflow.blocked_code and workflow.blocked_text
            if workflow.state != WorkflowState.RUNNING and not told:
                raise Violation(f"{workflow.label} is {workflow.state} and does not say why")
            if workflow.state == WorkflowState.BLOCKED and not (workflow.blocked_since and workflow.blocked_until):
                raise Violation(f"{workflow.label} is blocked ({workflow.blocked_code}) without since or until")
            if workflow.state == WorkflowState.RUNNING and workflow.wake_at is None:
                raise Violation(f"{workflow.label} runs and nothing will wake it")
        off = [name for name in self.storm.boots_at if name in self.storm.nodes]
        if len(off) > self._most_in_flight():
            raise Violation(f"{len(off)} nodes boot at once")

    @staticmethod
    def _most_in_flight() -> int:
        return Claim.objects.filter(kind="in_flight", released_at=None).count()


def _kind(verb: str) -> str | None:
    if verb in ("reset_gpu", "reboot", "power_cycle", "reprovision", "fence", "confirm"):
        return "in_flight"
    return KIND_OF_VERB.get(verb)


def _percent(percent: float | None, size: int) -> int | None:
    return None if percent is None else int(size * percent // 100)
