"""Which steps mend which fault.

Decides the words of a plan (verbs, what each must have a claim of) and which playbook answers a case: the first of the
book whose `match` fits. Pure: no Django, no I/O; `playbook_file` reads books. Refuses a BMC verb or a hardware ticket
off metal, and any plan that disrupts a node without validation and soak before its return.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

HOLD, DRAIN, CONFIRM = "hold", "drain", "confirm"
RESET_GPU, REBOOT, POWER_CYCLE, REPROVISION = "reset_gpu", "reboot", "power_cycle", "reprovision"
FENCE, WAIT_REPAIR, KEEP = "fence", "wait_repair", "keep"
VALIDATE, SOAK, RETURN, RELEASE = "validate", "soak", "return", "release"

REMEDIES = (RESET_GPU, REBOOT, POWER_CYCLE, REPROVISION)
"""The disruptive verbs of the ladder, the gentlest first."""
DISRUPTIVE = (*REMEDIES, FENCE)
BMC_VERBS = (REBOOT, POWER_CYCLE, FENCE)
VERBS = (HOLD, DRAIN, CONFIRM, *REMEDIES, FENCE, WAIT_REPAIR, KEEP, VALIDATE, SOAK, RETURN, RELEASE)

MAX_ATTEMPTS = 2
"""gpud sends a node to inspection after two reboots without effect; so do we unless a playbook says more."""

CLAIMS: dict[str, str] = {
    HOLD: "hold",
    DRAIN: "take_out",
    CONFIRM: "in_flight",
    **dict.fromkeys(DISRUPTIVE, "in_flight"),
}
"""The cap that a step must hold a claim of before it may act."""

WORDS: dict[str, str] = {
    HOLD: "Hold",
    DRAIN: "Drain",
    CONFIRM: "Confirm by an active test",
    RESET_GPU: "Reset GPU",
    REBOOT: "Reboot",
    POWER_CYCLE: "Power-cycle",
    REPROVISION: "Reprovision",
    FENCE: "Fence",
    WAIT_REPAIR: "Wait for repair",
    KEEP: "Keep until released",
    VALIDATE: "Validate",
    SOAK: "Soak",
    RETURN: "Return to service",
    RELEASE: "Release",
}

STAY, ASK, ESCALATE = "stay", "ask", "escalate"
AT_DEADLINE = (STAY, ASK, ESCALATE)
"""What a step does at its deadline: stay blocked and say so, ask a person, or count as failed. Force is a person's."""
NEXT, REPAIR, STOP = "next", "repair", "stop"
ON_FAILURE = (NEXT, REPAIR, STOP)
"""Where a failed step leads: the next rung of the ladder, a ticket, or a stop that a person must resolve."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One verb of a plan. Times in seconds; `deadline` None means the verb's usual one. A remedy has a `ladder`."""

    verb: str
    deadline: float | None = None
    at_deadline: str = ESCALATE
    retries: int = 0
    backoff: float = 10.0
    on_failure: str = NEXT
    ladder: tuple[str, ...] = ()
    left_out: str = ""  # which rung is not in this plan, and why

    def as_json(self) -> dict[str, Any]:
        """Only what differs from the usual, so that a plan reads as short as it is."""
        usual = PlannedStep(self.verb)
        told: dict[str, Any] = {"verb": self.verb}
        for name in ("deadline", "at_deadline", "retries", "backoff", "on_failure", "ladder", "left_out"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                told[name] = list(value) if isinstance(value, tuple) else value
        return told

    @classmethod
    def of(cls, stored: dict[str, Any]) -> PlannedStep:
        """From a stored plan; what it does not say is the usual, and keys of other versions are passed over."""
        known = {key: stored[key] for key in cls.__dataclass_fields__ if key in stored}
        if "ladder" in known:
            known["ladder"] = tuple(known["ladder"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Case:
    """What a playbook is chosen by. `recurring`: the same cause was mended here again and again within a day."""

    action: str
    cause: str = ""
    device: str = ""
    pool: str = ""
    pool_kind: str = "bare_metal"
    sku: str = ""
    recurring: bool = False
    provisioned: bool = False  # somebody can install its image anew


@dataclass(frozen=True, slots=True)
class Match:
    """Empty means any. Names may hold `*`. `recurring` None: whether or not it recurs."""

    action: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    pool_kind: tuple[str, ...] = ()
    sku: tuple[str, ...] = ()
    recurring: bool | None = None

    def fits(self, case: Case) -> bool:
        names = ("action", "cause", "device", "pool", "pool_kind", "sku")
        return all(_any(getattr(self, name), getattr(case, name)) for name in names) and (
            self.recurring is None or self.recurring == case.recurring
        )

    def suits(self, pool: str, pool_kind: str, sku: str) -> bool:
        """Whatever the fault: is it for such nodes?"""
        return _any(self.pool, pool) and _any(self.pool_kind, pool_kind) and _any(self.sku, sku)


def _any(patterns: Sequence[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Playbook:
    name: str
    title: str
    match: Match
    steps: tuple[PlannedStep, ...]
    attempts: int = MAX_ATTEMPTS
    source: str = "built in"

    @property
    def version(self) -> str:
        """Of what it does and where: another text is another version, its title and its file are none of it."""
        told = [self.name, self.attempts, asdict(self.match), [asdict(step) for step in self.steps]]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Book:
    """Playbooks in the order in which they are asked. `problem` says why a site's file is not part of it."""

    playbooks: tuple[Playbook, ...]
    problem: str = ""

    def named(self, name: str) -> Playbook | None:
        return next((playbook for playbook in self.playbooks if playbook.name == name), None)


@dataclass(frozen=True, slots=True)
class Plan:
    """`playbook` is "" when nothing is to be done; `why_not` then says so in a sentence."""

    playbook: str
    steps: tuple[PlannedStep, ...] = ()
    attempts: int = MAX_ATTEMPTS
    why_not: str = field(default="")

    def as_json(self) -> list[dict[str, Any]]:
        return [step.as_json() for step in self.steps]


def plan_for(case: Case, book: Book) -> Plan:
    """The plan for one case: the first playbook that fits it."""
    for playbook in book.playbooks:
        if playbook.match.fits(case):
            return adapted(playbook, case.provisioned)
    if case.pool_kind != "bare_metal":
        return Plan("", why_not=f"The pool is {case.pool_kind}: no BMC verb and no hardware ticket off metal.")
    return Plan("", why_not=f"No playbook answers the action class {case.action}.")


NO_PROVISIONER = "Reprovision is left out: no provisioner is configured for the cluster."


def adapted(playbook: Playbook, provisioned: bool) -> Plan:
    """Without a provisioner the rung `reprovision` goes, and with it the attempt that it was for."""
    if provisioned or not any(REPROVISION in (step.verb, *step.ladder) for step in playbook.steps):
        return Plan(playbook.name, playbook.steps, playbook.attempts)
    steps = []
    for step in playbook.steps:
        rungs = tuple(verb for verb in step.ladder or (step.verb,) if verb != REPROVISION)
        if not rungs:
            return Plan("", why_not=f"The playbook {playbook.name} has no other remedy. {NO_PROVISIONER}")
        gone = REPROVISION in step.ladder
        steps.append(replace(step, verb=rungs[0], ladder=rungs, left_out=NO_PROVISIONER) if gone else step)
    return Plan(playbook.name, tuple(steps), max(1, playbook.attempts - 1))


def remedy_index(plan: Sequence[dict[str, Any]]) -> int | None:
    """Where another attempt begins: the plan's remedy; None when the plan has none."""
    return next((index for index, step in enumerate(plan) if step["verb"] in REMEDIES), None)


def faults_of(steps: Sequence[PlannedStep], pool_kinds: Sequence[str]) -> list[str]:
    """What makes a plan unsafe or impossible, as sentences; [] for a good one."""
    verbs = [step.verb for step in steps]
    every = [verb for step in steps for verb in (step.verb, *step.ladder)]
    told = [f"{verb!r} is no verb." for verb in every if verb not in VERBS]
    if told:
        return told
    if not verbs or verbs[0] != HOLD:
        told.append("A plan begins with hold.")
    if any(verbs.count(verb) > 1 for verb in verbs):
        told.append("A verb stands twice.")
    if sum(verb in REMEDIES for verb in verbs) > 1:
        told.append("A plan has one remedy; further ones are rungs of its ladder.")
    if CONFIRM in verbs and DRAIN not in verbs[: verbs.index(CONFIRM)]:
        told.append("A confirming test comes after the drain.")
    if verbs[-3:] != [VALIDATE, SOAK, RETURN]:
        told.append("A plan ends with validate, soak, return.")
    if any(verb in DISRUPTIVE or verb == WAIT_REPAIR for verb in verbs) and not {DRAIN, FENCE} & set(verbs):
        told.append("What disrupts a node comes after its drain.")
    off_metal = not pool_kinds or any(kind != "bare_metal" for kind in pool_kinds)
    if off_metal and any(verb in BMC_VERBS or verb == WAIT_REPAIR for verb in every):
        told.append("A BMC verb or a hardware ticket needs `pool_kind: bare_metal` alone.")
    for step in steps:
        if step.ladder and (step.verb not in REMEDIES or step.ladder[0] != step.verb):
            told.append(f"The ladder of {step.verb} must begin with that remedy.")
        if list(step.ladder) != sorted(step.ladder, key=lambda verb: REMEDIES.index(verb) if verb in REMEDIES else 9):
            told.append(f"The ladder of {step.verb} must go from the gentlest remedy to the harshest.")
    return told
