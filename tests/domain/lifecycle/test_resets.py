"""When a reset is sent, when it is not, and what counts as one."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.lifecycle import intents
from fleet.lifecycle.models import Intent
from fleet.ports.errors import TemporaryError
from tests.domain.lifecycle.conftest import Build, again, fault

NODE = "gpu-r01-01"


def test_a_worker_that_stood_still_past_the_deadline_sends_nothing(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, begin, paused = build(NODE), intents.begin, []

    def pausing(*args: Any, **kwargs: Any) -> Intent:
        intent = begin(*args, **kwargs)
        if intent.verb == "reset" and not paused:
            paused.append(len(world.resets))
            world.clock.tick(intents.BMC_CALL_SECONDS + 1)
        return intent

    monkeypatch.setattr(intents, "begin", pausing)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert paused == [0]
    assert world.resets == [(NODE, "ForceRestart")]
    first = Intent.objects.filter(verb="reset").order_by("created_at")[0]
    assert (first.outcome, first.text) == ("refused", "Not sent: the time of the call had passed.")


def test_a_reset_that_the_bmc_refused_is_not_one_that_it_took(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five times it is busy, the sixth time it works: no ticket that says five resets had no effect."""
    world, refusals = build(NODE), [5]
    reset = world.reset

    def busy(*args: Any) -> Any:
        if refusals[0]:
            refusals[0] -= 1
            raise TemporaryError("the BMC is busy", code="bmc_busy")
        return reset(*args)

    monkeypatch.setattr(world, "reset", busy)
    workflow = fault(world, NODE)
    assert world.run(300, lambda: again(workflow).state in ("succeeded", "repair"))
    assert again(workflow).state == "succeeded"
    assert world.resets == [(NODE, "ForceRestart")]


def test_a_boot_id_that_was_not_known_before_proves_no_reboot(build: Build) -> None:
    """The kubelet began to tell it only after the reset was asked for, and the BMC did nothing."""
    world = build(NODE)
    world.change(NODE, boot_id="")
    world.bmc[NODE] = "lies"
    workflow = fault(world, NODE)
    assert world.run(60, lambda: bool(world.resets))
    world.change(NODE, boot_id="told-at-last")
    assert world.run(1200, lambda: again(workflow).state in ("repair", "succeeded"))
    assert again(workflow).state == "repair"


def test_a_dead_node_that_comes_back_with_a_boot_id_has_booted(build: Build) -> None:
    """Where nobody had told one before, Ready again and a fresh heartbeat are proof enough."""
    world = build(NODE)
    world.change(NODE, boot_id="", ready=None)
    workflow = fault(world, NODE)
    assert world.run(300, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text
    assert len(world.resets) == 1
