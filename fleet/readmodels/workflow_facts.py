"""What stands around a workflow's current step: its deadline, its ladder, how often its verb helped, what halts it.

Decides which rung was tried how, whether a step is stalled, and the sentence on repair effectiveness. Refuses to
guess: without tries there is no rate, without a deadline nothing is stalled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from fleet.lifecycle import deadlines, effectiveness
from fleet.lifecycle.bounces import DAY
from fleet.lifecycle.effectiveness import WINDOW, Line
from fleet.lifecycle.machine import ENDED_WORKFLOW_STATES
from fleet.lifecycle.models import Remedy, Step, Workflow
from fleet.lifecycle.playbooks import DISRUPTIVE, PlannedStep, remedy_index
from fleet.policy import selectors as policy
from fleet.readmodels import explain, reasons, words


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is when the step's time is over; `follows` what happens then, as a sentence."""

    at: datetime
    follows: str
    over: bool


def deadline_of(workflow: Workflow, step: Step | None, now: datetime) -> Deadline | None:
    """Of the current step; None where none was set yet or the step bounds itself."""
    if step is None or step.deadline is None or workflow.state in ENDED_WORKFLOW_STATES:
        return None
    bound = deadlines.of(PlannedStep.of(workflow.plan[workflow.step]))
    if bound is None:
        return None
    return Deadline(step.deadline, words.word(words.AT_DEADLINE, bound[1]), now > step.deadline)


@dataclass(frozen=True, slots=True)
class Rung:
    """One remedy of the ladder. `state`: failed, cur, todo; `note` says what it came to."""

    verb: str
    label: str
    state: str
    note: str


def rungs_of(workflow: Workflow, steps: Sequence[Step]) -> list[Rung]:
    """The plan's ladder from the gentlest remedy to the harshest; [] without one."""
    index = remedy_index(workflow.plan)
    if index is None:
        return []
    planned = workflow.plan[index]
    ladder = [str(verb) for verb in planned.get("ladder") or ()]
    if len(ladder) < 2:
        return []
    at = ladder.index(planned["verb"]) if planned["verb"] in ladder else 0
    tries = {verb: [step for step in steps if step.verb == verb and step.index == index] for verb in ladder}
    over = workflow.state in ENDED_WORKFLOW_STATES or workflow.state == "repair"
    return [_rung(verb, tries[verb], place < at, place == at and not over) for place, verb in enumerate(ladder)]


def _rung(verb: str, tries: Sequence[Step], below: bool, current: bool) -> Rung:
    label = words.word(words.VERBS, verb)
    if current:
        return Rung(verb, label, "cur", _("tried now") if tries else _("comes first"))
    if tries:
        return Rung(verb, label, "failed" if below else "done", words.word(words.STEP_STATES, tries[-1].state).lower())
    return Rung(
        verb, label, "todo", _("left out: it has mended too few such faults") if below else _("if all before fail")
    )


def record_of(workflow: Workflow, verb: str, now: datetime) -> str:
    """`Reboot mended 12 of 17 xid-79 on NVIDIA H100 ...`; "" where the verb is no remedy. Two queries."""
    if verb not in DISRUPTIVE or workflow.incident is None:
        return ""
    line = effectiveness.measured([workflow], now)[0].get(verb)
    told = {"verb": words.word(words.VERBS, verb), "cause": workflow.incident.cause, "days": WINDOW.days}
    if line is None:
        where = workflow.node.gpu_model or _("this hardware")
        return _("%(verb)s has not been tried on %(cause)s on %(sku)s within %(days)s days.") % {**told, "sku": where}
    told |= {"sku": hardware(line), "held": line.held, "tries": line.tries}
    said = [_("%(verb)s mended %(held)s of %(tries)s %(cause)s on %(sku)s within %(days)s days.") % told]
    if line.bounced:
        said.append(_("%(bounced)s came back within a day.") % {"bounced": line.bounced})
    if line.again:
        said.append(_("After %(again)s another fault took the node out within a day.") % {"again": line.again})
    return " ".join(said)


def hardware(line: Line) -> str:
    """What a line of effectiveness was measured on: as much of SKU, driver and firmware as it tells apart."""
    driver = _("driver %(version)s") % {"version": line.driver} if line.driver else ""
    return ", ".join(part for part in (line.sku, driver, line.firmware) if part) or _("any hardware")


@dataclass(frozen=True, slots=True)
class Lasted:
    """What came of the remedy that returned the node. `result`: held, bounced (the same cause came back within a day),
    again (another fault took the node out within a day), failed."""

    result: str
    text: str
    incident: int | None
    at: datetime | None


def lasted_of(workflow: Workflow, now: datetime) -> Lasted | None:
    """Of its latest try; None where none has ended. One query."""
    remedy = Remedy.objects.filter(workflow=workflow).order_by("-attempt").first()
    if remedy is None:
        return None
    back = {"incident": f"INC-{remedy.back_incident}", "verb": words.word(words.VERBS, remedy.verb)}
    if remedy.back_at is not None:
        back["time"] = words.duration(max(0.0, (remedy.back_at - remedy.ended_at).total_seconds()))
    if remedy.result == Remedy.BOUNCED:
        text = _("Bounced: the same fault came back %(time)s after the return (%(incident)s).") % back
    elif remedy.result == Remedy.AGAIN:
        text = _("Failed again: another fault took the node out %(time)s after the return (%(incident)s).") % back
    elif remedy.result == Remedy.FAILED:
        text = _("%(verb)s did not mend it.") % back
    elif now - remedy.ended_at < DAY:
        text = _("It lasts so far; a fault of the node within a day of its return is counted as a bounce.")
    else:
        text = _("It lasted: the node had no fault of its own for a day.")
    return Lasted(remedy.result, text, remedy.back_incident, remedy.back_at)


@dataclass(frozen=True, slots=True)
class Halt:
    """What stops all new disruption in the workflow's cluster now."""

    name: str
    text: str
    do: str
    link: str


def halt_of(workflow: Workflow, now: datetime) -> Halt | None:
    """Kill switch or breaker. Two queries; none for a workflow that is over."""
    if workflow.state in ENDED_WORKFLOW_STATES:
        return None
    decision = policy.halt(workflow.cluster_id, now)
    if decision is None:
        return None
    reason = reasons.of(decision.code)
    return Halt(str(reason.name), reasons.told(reason, decision.text), str(reason.do), explain.page_of(decision.code))
