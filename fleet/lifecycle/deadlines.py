"""When a step has taken too long, and what is done about it.

Decides the deadline of each step (the plan's, else the verb's usual one) from the moment it may act, and what follows
when it has passed: stay and say so, ask a person, or count as failed. Refuses to cut short a disruptive verb: what was
sent to a machine is observed to its end by the step itself; and to blame a node for the silence of an API server.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fleet.lifecycle import seen_time
from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.outcomes import Blocked, Failed, Outcome
from fleet.lifecycle.playbooks import (
    ASK,
    CONFIRM,
    DISRUPTIVE,
    DRAIN,
    ESCALATE,
    HOLD,
    RELEASE,
    RETURN,
    SOAK,
    STAY,
    VALIDATE,
    WORDS,
    PlannedStep,
)

USUAL: dict[str, tuple[float, str]] = {
    HOLD: (900, STAY),  # one patch; longer means that the API server or another owner is in the way
    DRAIN: (4 * 3600, ASK),  # NVSentinel's default waits without end; an asked person can weigh the job
    CONFIRM: (2 * 3600, ESCALATE),
    VALIDATE: (2 * 3600, ESCALATE),
    SOAK: (12 * 3600, ASK),  # its time counts only while data comes
    RETURN: (900, STAY),
    RELEASE: (900, STAY),
}
"""Seconds, and what follows. Disruptive verbs and repairs are bounded by their own steps."""


UNSEEN = frozenset({"api_unreachable", "api_timeout", "api_cut", "api_error", "api_certificate", "credential_refused"})
"""Reasons for which a step could not look at its node at all."""
SIGHT = timedelta(minutes=10)
"""What a step gets to come to its end once the API server answers again, however long it did not."""


def of(planned: PlannedStep) -> tuple[float, str] | None:
    """(seconds, what follows); None where the step bounds itself or people work."""
    usual = USUAL.get(planned.verb)
    if usual is None:
        return None
    seconds, follows = usual
    return (planned.deadline, planned.at_deadline) if planned.deadline is not None else (seconds, follows)


def check(workflow: Workflow, step: Step, now: datetime) -> Outcome | None:
    """None while the step may go on. Its first look sets the deadline, so that waiting for a grant does not count."""
    if workflow.verb in DISRUPTIVE:
        return None
    bound = of(PlannedStep.of(workflow.plan[workflow.step]))
    if bound is None:
        return None
    if step.deadline is None:
        step.deadline = now + timedelta(seconds=bound[0])
        Step.objects.filter(pk=step.pk).update(deadline=step.deadline)
    if workflow.blocked_code in UNSEEN and step.deadline < now + SIGHT:
        step.deadline = now + min(SIGHT, timedelta(seconds=bound[0]))
        Step.objects.filter(pk=step.pk).update(deadline=step.deadline)
    unseen = seen_time.lost(step, step.deadline.timestamp() - bound[0])
    if now <= step.deadline + timedelta(seconds=unseen) or bound[1] == STAY:
        return None
    word = WORDS[workflow.verb]
    text = f"{word} has not ended in {_long(bound[0])}. {step.text}".strip()
    if bound[1] == ASK:
        return Blocked("deadline", f"{text} A person decides: retry, skip or abort.", 300)
    return Failed("deadline", text)


def _long(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
