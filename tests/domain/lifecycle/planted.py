"""Bugs that engines like this one have had, each planted by one patch, with a short story that shows it.

A story is good when the engine as it is passes it and the oracle sees a violation once the bug is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.health.models import Signal
from fleet.lifecycle import approving, grants, intents, persist
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.outcomes import Done, Outcome, Wait
from fleet.lifecycle.steps import emptying, give_back, moves, reboot, reprovision, reset_gpu, soak, taken_back
from fleet.policy import rules
from fleet.policy import selectors as policy
from fleet.policy import services as claims
from tests.domain.lifecycle.installing import Installing, on_the_last_rung
from tests.domain.lifecycle.oracle import RESET_GPU
from tests.domain.lifecycle.story import Story

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    plant: Plant
    show: Callable[[Story], None]


def no_version_in_where(patch: pytest.MonkeyPatch) -> None:
    real = persist.write

    def write(workflow: Workflow, *args: Any, **kwargs: Any) -> None:
        workflow.version = Workflow.objects.values_list("version", flat=True).get(pk=workflow.pk)
        real(workflow, *args, **kwargs)

    for module in (persist, intents, moves):
        patch.setattr(module, "write", write)


def intent_after_the_act(patch: pytest.MonkeyPatch) -> None:
    begin = intents.begin

    def later(workflow: Any, step: Any, verb: str, target: str, now: Any, **how: Any) -> Intent:
        intent = begin(workflow, step, verb, target, now, **how)
        Intent.objects.filter(pk=intent.pk).delete()
        return intent

    def resolve(intent: Intent, outcome: str, text: str, now: Any) -> None:
        intent.outcome, intent.text, intent.resolved_at = outcome, text, now
        intent.save(force_insert=True)

    patch.setattr(intents, "begin", later)
    patch.setattr(intents, "resolve", resolve)


def reset_again_without_looking(patch: pytest.MonkeyPatch) -> None:
    def find_out(ctx: Any, node: Any, sent: Intent) -> Outcome:
        intents.conclude(sent, intents.EXPIRED, "It timed out.", ctx.now)
        return Wait(0, "Once more.")

    patch.setattr(reboot, "_find_out", find_out)
    patch.setattr(reboot, "_proved", lambda node, sent: False)


def peoples_cordons_not_counted(patch: pytest.MonkeyPatch) -> None:
    real = policy.read_fleet

    def read(now: Any, states: Any) -> policy.Fleet:
        fleet = real(now, states)
        tally = rules.Tally(fleet.tally.sizes)
        policy._count_claims(tally, fleet.places, now)
        return policy.Fleet(fleet.places, fleet.cluster_of, tally)

    patch.setattr(policy, "read_fleet", read)


def percent_rounded_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "math", SimpleNamespace(floor=math.ceil, ceil=math.ceil))


def claim_released_before_the_boot(patch: pytest.MonkeyPatch) -> None:
    real = reboot._begin

    def begin(ctx: Any, *args: Any) -> Outcome:
        came = real(ctx, *args)
        claims.release(ctx.workflow.pk, ctx.now, ["in_flight"])
        return came

    patch.setattr(reboot, "_begin", begin)


def a_persons_cordon_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(give_back, "_foreign", lambda ctx: False)


def unknown_returns_a_node(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(soak, "run", lambda ctx: moves.move(ctx, "soaking") or Done("Nothing bad was heard."))
    patch.setitem(__import__("fleet.lifecycle.steps", fromlist=["RUN"]).RUN, "soak", soak.run)


def an_old_boot_proves_a_reset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reboot, "_proved", lambda node, sent: node.ready is True)


def approval_of_any_plan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(approving, "lacking", lambda workflow: workflow.needs_approval and not workflow.approved_hash)


def breaker_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "halt", lambda cluster_id, now: None)


def uncordon_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(taken_back, "check", lambda ctx, node: None)


def rate_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "_count_begun", lambda *args: None)


def reason_lost(patch: pytest.MonkeyPatch) -> None:
    real = grants._tell

    def tell(workflow: Workflow, decision: Any, now: Any) -> None:
        real(workflow, decision, now)
        workflow.blocked_text = ""

    patch.setattr(grants, "_tell", tell)


def gpus_reset_again_without_looking(patch: pytest.MonkeyPatch) -> None:
    follow = reset_gpu._follow

    def again(ctx: Any, node: Any, sent: Intent) -> Outcome:
        if sent.outcome != intents.UNKNOWN:
            return follow(ctx, node, sent)
        intents.conclude(sent, intents.REFUSED, "It timed out.", ctx.now)
        return Wait(0, "Once more.")

    patch.setattr(reset_gpu, "_follow", again)


def installed_again_without_looking(patch: pytest.MonkeyPatch) -> None:
    follow = reprovision._follow

    def again(ctx: Any, port: Any, sent: Intent) -> Outcome:
        if sent.outcome != intents.UNKNOWN:
            return follow(ctx, port, sent)
        intents.conclude(sent, intents.EXPIRED, "It timed out.", ctx.now)
        return Wait(0, "Once more.")

    patch.setattr(reprovision, "_follow", again)


def evicted_without_an_intent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emptying, "_intend", lambda ctx, standing: None)


def simple(story: Story) -> None:
    story.fault("n1")
    story.live(150)


def stands_still(story: Story) -> None:
    """A worker has looked, and stops for longer than its lease before it writes what it means to do."""
    move, paused = reboot.move, []

    def late(ctx: Any, *args: Any, **how: Any) -> None:
        move(ctx, *args, **how)
        if not paused:
            paused.append(ctx)
            story.pause()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reboot, "move", late)
        simple(story)
    assert paused


def no_answer(story: Story) -> None:
    story.go_wrong("power", "lost")
    simple(story)


def no_answer_to_a_gpu_reset(story: Story) -> None:
    story.go_wrong(RESET_GPU, "lost")
    story.fault("n1", RESET_GPU)
    story.live(150)


def no_answer_to_an_installation(story: Story) -> None:
    Installing(story.storm, stages=1, recreates=False)
    story.go_wrong("provision", "lost")
    story.fault("n1")
    on_the_last_rung()
    story.live(200)


def made_anew(story: Story) -> None:
    Installing(story.storm, stages=1, recreates=True)
    story.fault("n1")
    on_the_last_rung()
    story.live(200)


def people_cordoned(story: Story) -> None:
    story.cordon("n2")
    story.cordon("n3")
    story.live(2)
    simple(story)


def many(story: Story) -> None:
    for name in ("n1", "n2", "n3"):
        story.fault(name)
    story.live(3)


def cordoned_before(story: Story) -> None:
    story.cordon("n1")
    simple(story)


def unknown(story: Story) -> None:
    story.fault("n1")
    story.live(30)
    for _ in range(8):
        story.unknown("n1")
        story.live(20)


def lying_bmc(story: Story) -> None:
    story.storm.bmc["n1"] = "lies"
    story.fault("n1")
    story.live(40)
    Signal.objects.filter(node__name="n1").update(cleared_at=story.clock.now())
    for _ in range(6):
        story.live(20)


def edited_plan(story: Story) -> None:
    story.ask_reboot("n1", "ann")
    story.approve("n1", "bo")
    story.edit("n1")
    story.live(30)


def tripped(story: Story) -> None:
    story.trip()
    story.fault("n1")
    story.live(30)


def uncordoned(story: Story) -> None:
    story.go_wrong("observe", "before")
    story.fault("n1")
    story.live(14)
    story.blind(True)
    story.uncordon("n1")
    story.live(60)


def five_in_a_row(story: Story) -> None:
    for name in ("n1", "n4", "n2", "n5", "n3"):
        story.fault(name)
        story.live(130)


BUGS = (
    Bug("no version in WHERE", no_version_in_where, stands_still),
    Bug("the intent is written after the act", intent_after_the_act, simple),
    Bug("a reset without an answer is sent again unseen", reset_again_without_looking, no_answer),
    Bug(
        "a GPU reset without an answer is asked for again unseen",
        gpus_reset_again_without_looking,
        no_answer_to_a_gpu_reset,
    ),
    Bug(
        "an installation without an answer is asked for again unseen",
        installed_again_without_looking,
        no_answer_to_an_installation,
    ),
    Bug("a pod is evicted without an intent", evicted_without_an_intent, made_anew),
    Bug("people's cordons are not counted", peoples_cordons_not_counted, people_cordoned),
    Bug("a percent is rounded up", percent_rounded_up, many),
    Bug("the claim ends before the boot is proved", claim_released_before_the_boot, simple),
    Bug("a person's cordon is taken off", a_persons_cordon_forgotten, cordoned_before),
    Bug("unknown returns a node", unknown_returns_a_node, unknown),
    Bug("an old boot proves a reset", an_old_boot_proves_a_reset, lying_bmc),
    Bug("an approval holds for any plan", approval_of_any_plan, edited_plan),
    Bug("the breaker is forgotten at a restart", breaker_forgotten, tripped),
    Bug("a person's uncordon is not looked at", uncordon_not_looked_at, uncordoned),
    Bug("a rate is not counted", rate_not_counted, five_in_a_row),
    Bug("a reason is lost", reason_lost, many),
)
