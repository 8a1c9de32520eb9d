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

from fleet.inventory.models import Cluster
from fleet.lifecycle import grants
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.policy.models import Cap
from fleet.ports.cluster import HOLD_ANNOTATION
from tests.domain.lifecycle import counted
from tests.domain.lifecycle.counted import Facts

if TYPE_CHECKING:
    from tests.domain.lifecycle.storm import Storm

OUT = ("draining", "drained", "remediating", "validating", "soaking", "awaiting_repair")
RESET_GPU, SECOND = "reset_gpu", "the second request"
DISRUPTS = ("evict", "power", "fence", "pause", RESET_GPU, "provision")
CLAIM_OF = {"hold": "hold", "evict": "take_out", **dict.fromkeys(DISRUPTS[1:], "in_flight")}
ENDS_WHAT_WAS_BEGUN = ("On", SECOND)
"""Power for a host that is off, and an image for one that is empty: no guard keeps a node from coming back."""
INTENTS = {
    "uncordon": ("release",), "job": ("validate",), "power": ("reset", "power"), "pause": ("pause_gpu",),
    "resume": ("resume_gpu",), "provision": ("reprovision", "provision"),
}  # fmt: skip
BOOTS = ("reboot", "power_cycle", "fence", "reprovision")
KIND_OF_VERB = {"hold": "hold", "drain": "take_out"}


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Act:
    kind: str  # hold, release, uncordon, fence, unfence, evict, job, power, pause, resume, reset_gpu, provision
    node: str
    value: str = ""


@dataclass(slots=True, eq=False)
class Message:
    workflow_id: int
    node: str
    bad: set[str] = field(default_factory=set)


def signature(workflow: Workflow | Facts) -> str:
    """What people agree to, in a form of its own: the steps in order, whichever rung is being tried."""
    return repr([sorted({**step, "verb": (step.get("ladder") or [step["verb"]])[0]}.items()) for step in workflow.plan])


class Oracle:
    """`effects`: power calls, resets of GPUs and requests to install that took effect, by (workflow, attempt, verb);
    votes by workflow; `cordoned` by people, not by us."""

    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        self.stack: list[list[Message]] = []
        self.effects: dict[tuple[int, int, str], int] = {}
        self.ops: set[str] = set()
        self.reset_at: dict[str, float] = {}  # monotonic: people set the clock back
        self.tested_at: dict[str, float] = {}
        self.skipped: set[int] = set()
        self.votes: dict[int, set[tuple[str, str]]] = {}
        self.cordoned: set[str] = set()
        self.acts = 0
        self.grants = 0
        self.broken: Violation | None = None

    # -- messages ---------------------------------------------------------------------------------------------------

    def begin(self, workflow_ids: Iterable[int]) -> list[Message]:
        """One delivery, for one workflow or for many."""
        found = counted.facts(workflow_ids, self.storm.clock.now())
        begun = [Message(facts.pk, facts.name, self._bad(facts)) for facts in found.values()]
        self.stack.append(begun)
        return begun

    def end(self, begun: list[Message]) -> None:
        for place, other in enumerate(self.stack):
            if other is begun:
                del self.stack[place:]
                return

    def _bad(self, workflow: Facts) -> set[str]:
        """Everything that forbids to act on the workflow's node now."""
        node = self.storm.nodes.get(workflow.name)
        mine = workflow.hold_value and node and node.annotations.get(HOLD_ANNOTATION) == workflow.hold_value
        found = {
            "stopped": workflow.stopped,
            "breaker": workflow.breaker,
            "observe": workflow.mode == "observe",
            "freeze": workflow.freeze,
            "closed": workflow.closed,
            "hold": not (mine and node and node.unschedulable),
            "identity": node is None or (workflow.node_uid and node.uid != workflow.node_uid),
            "approval": workflow.needs_approval and not self._agreed(workflow),
            "signal": workflow.signal,
            "unknown": workflow.verdict in (None, "unknown", "lost"),
            "over": workflow.state not in ("running", "blocked"),
        }
        return {what for what, is_so in found.items() if is_so}

    def _agreed(self, workflow: Facts) -> bool:
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
        workflow = counted.facts([message.workflow_id], self.storm.clock.now())[message.workflow_id]
        bad = message.bad & self._bad(workflow)
        forbidden = {"observe", "identity", "over"} - ({"identity"} if act.value == SECOND else set())
        if act.kind in DISRUPTS and act.value not in ENDS_WHAT_WAS_BEGUN:
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
        if act.kind in (RESET_GPU, "provision") or (act.kind == "power" and workflow.verb != "fence"):
            self._drained(act)
        if act.kind == "uncordon":
            self._uncordoned(act, workflow, bad)
        if act.kind == "job":
            self.tested_at[act.node] = self.storm.clock.monotonic()

    def _drained(self, act: Act) -> None:
        """Nobody's work stands on the node; what is ending is bounded by its grace period."""
        if any(pod.node == act.node and pod.deleting_since is None for pod in self.storm.pods.values()):
            raise Violation(f"{act.kind} {act.value} on {act.node} while work runs there")

    @staticmethod
    def _claimed(act: Act, workflow: Facts) -> None:
        kind = CLAIM_OF.get(act.kind)
        if kind and kind not in workflow.claims:
            raise Violation(f"{act.kind} on {act.node} without a claim of {kind}")

    def _intended(self, act: Act, workflow: Facts) -> None:
        """A committed intent stands behind every side effect; one that names a call stands for one call."""
        rows = Intent.objects.filter(workflow_id=workflow.pk)
        if act.kind == "evict":
            if not any(act.value in intent.before.get("pods", {}) for intent in rows.filter(verb="evict")):
                raise Violation(f"evicted from {act.node} without an intent that names the pod")
            return
        waiting = rows.filter(verb__in=INTENTS.get(act.kind, (act.kind,)))
        if act.kind == RESET_GPU:  # asked for again by the name of its op, it is the same reset
            waiting = waiting.filter(before__job=act.value)
        elif act.kind != "job":
            waiting = waiting.filter(resolved_at=None)
        row = waiting.order_by("-created_at").first()
        if row is None:
            raise Violation(f"{act.kind} on {act.node} without an intent that was written before")
        if act.kind in ("power", "provision"):
            if str(row.op_id) in self.ops:
                raise Violation(f"op {row.op_id} was sent to the BMC or the provider of {act.node} twice")
            self.ops.add(str(row.op_id))

    def _powered(self, act: Act, workflow: Facts, effective: bool) -> None:
        lies = self.storm.bmc.get(act.node) == "lies"
        if not effective or lies:
            return
        verb = "reset" if act.value in ("ForceRestart", "PowerCycle") else act.value
        if verb == "On" and act.node in self.storm.boots_at:
            verb = "reset"  # a node that was found off is powered on in place of a reset
        self._count(act.node, workflow, verb)
        if act.node in self.storm.boots_at and act.value != "ForceOff":
            raise Violation(f"{act.node} was reset while it boots")

    def took(self, node: str, verb: str) -> None:
        """A reset of GPUs or a request to install has taken effect, whatever is answered. Raises as `judge` does."""
        message = next(message for message in self.stack[-1] if message.node == node)
        workflow = counted.facts([message.workflow_id], self.storm.clock.now())[message.workflow_id]
        try:
            self._count(node, workflow, verb)
        except Violation as violation:
            self.broken = self.broken or violation
            raise

    def _count(self, node: str, workflow: Facts, verb: str) -> None:
        key = (workflow.pk, workflow.attempt, verb)
        self.effects[key] = self.effects.get(key, 0) + 1
        if self.effects[key] > 1:
            raise Violation(f"{node} took {self.effects[key]} of {verb} in one attempt")
        self.reset_at[node] = self.storm.clock.monotonic()

    def _uncordoned(self, act: Act, workflow: Facts, bad: set[str]) -> None:
        if act.node in self.cordoned:
            raise Violation(f"a person's cordon was taken off {act.node}")
        if workflow.verb != "return":
            return
        if bad & {"signal", "unknown"}:
            raise Violation(f"{act.node} was returned although: {', '.join(sorted(bad & {'signal', 'unknown'}))}")
        if workflow.pk in self.skipped:
            return
        steps = Step.objects.filter(workflow_id=workflow.pk, attempt=workflow.attempt, state="done")
        done = set(steps.values_list("verb", flat=True))
        for verb in ("validate", "soak"):
            if verb not in done:
                raise Violation(f"{act.node} was returned without {verb}")
        self._rebooted(act, workflow)
        reset, tested = self.reset_at.get(act.node), self.tested_at.get(act.node)
        if reset is not None and (tested is None or tested < reset):
            raise Violation(f"{act.node} was returned on a test from before its reset")

    def _rebooted(self, act: Act, workflow: Facts) -> None:
        """A reboot that is told as done has changed the boot."""
        done = Step.objects.filter(workflow_id=workflow.pk, verb__in=BOOTS, state="done")
        if done.exists() and self.storm.nodes[act.node].boot_id == f"boot-{act.node}-1":
            raise Violation(f"{act.node} was returned as rebooted and runs since before its fault")

    # -- grants -----------------------------------------------------------------------------------------------------

    def granted(self, cluster: Cluster, rows: Sequence[Workflow]) -> None:
        """Called with what is being granted, in its transaction and before the claims are written."""
        rows = [workflow for workflow in rows if _kind(workflow.verb)]
        if not rows:
            return
        now = self.storm.clock.now()
        halted = {"stopped", "breaker", "observe", "freeze", "approval"}
        places, taken = self._places(), counted.rows(counted.CLAIMS)
        used = {kind: self._used(kind, places, taken) for kind in ("hold", "take_out", "in_flight")}
        begun = [at for kind, _, at, _ in taken if kind == "in_flight"]
        facts, caps = counted.facts([workflow.pk for workflow in rows], now), list(Cap.objects.all())
        for workflow in rows:
            kind = _kind(workflow.verb) or ""
            self.grants += 1
            bad = self._bad(facts[workflow.pk]) & (halted - ({"freeze"} if kind == "hold" else set()))
            if bad:
                raise Violation(f"{kind} was granted for {workflow.node.name} although: {', '.join(sorted(bad))}")
            place = places.get(workflow.node_id)
            if place is None:
                raise Violation(f"{kind} was granted for {workflow.node.name}, which is not managed")
            goes_on = kind == "in_flight" and place["pk"] in used[kind] and workflow.blocked_code in grants.GOES_ON
            free = (kind == "take_out" and not place["pods"]) or (kind == "hold" and not place["ready"])
            if not goes_on and not free:
                self._fits(cluster, caps, kind, place, used, places, begun, now)
            used[kind].add(workflow.node_id)
            if kind == "in_flight":
                begun.append(now)

    @staticmethod
    def _places() -> dict[int, dict[str, Any]]:
        names = ("pk", "name", "rack", "leaf", "tenant", "pods", "foreign_hold", "ready", "state", "verdict")
        found = [dict(zip(names, row, strict=True)) for row in counted.rows(counted.PLACES)]
        return {row["pk"]: {**row, "fleet": "", "cluster": ""} for row in found}

    @staticmethod
    def _used(kind: str, places: dict[int, dict[str, Any]], taken: list[tuple[Any, ...]]) -> set[int]:
        found = {node_id for of, node_id, _, is_held in taken if of == kind and is_held}
        if kind == "take_out":
            for pk, row in places.items():
                unwell = row["verdict"] in (None, "unknown", "lost")
                if row["foreign_hold"] or not row["ready"] or row["state"] in OUT or unwell:
                    found.add(pk)
        return {pk for pk in found if pk in places}

    def _fits(
        self,
        cluster: Cluster,
        caps: Sequence[Cap],
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
        for cap in caps:
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
        for pk, state, told, timed, will_wake, code in counted.rows(counted.UNTOLD):
            label = f"WF-{pk}"
            if state != WorkflowState.RUNNING and not told:
                raise Violation(f"{label} is {state} and does not say why")
            if state == WorkflowState.BLOCKED and not timed:
                raise Violation(f"{label} is blocked ({code}) without since or until")
            if state == WorkflowState.RUNNING and not will_wake:
                raise Violation(f"{label} runs and nothing will wake it")
        off = [name for name in self.storm.boots_at if name in self.storm.nodes]
        if off and len(off) > sum(kind == "in_flight" and held for kind, _, _, held in counted.rows(counted.CLAIMS)):
            raise Violation(f"{len(off)} nodes boot at once")


def _kind(verb: str) -> str | None:
    if verb in ("reset_gpu", "reboot", "power_cycle", "reprovision", "fence", "confirm"):
        return "in_flight"
    return KIND_OF_VERB.get(verb)


def _percent(percent: float | None, size: int) -> int | None:
    return None if percent is None else int(size * percent // 100)
