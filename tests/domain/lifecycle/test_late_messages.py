"""A worker that stands still between its intent and its act sends nothing any more: not after the time of its call, not
after an abort, and not beside whoever took over. For every verb that touches a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle import engine, holding, intents, services
from fleet.lifecycle.models import Intent, Workflow
from tests.domain.lifecycle import world as worlds
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.provider import Provider
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
VERBS: dict[str, tuple[str, str, str]] = {  # intent -> action class of the fault, what its remedy is, the act
    "hold": ("reboot_node", "reboot", "hold"),
    "evict": ("reboot_node", "reboot", "evict"),
    "reset": ("reboot_node", "reboot", "reset"),
    "reset harder": ("reboot_node", "power_cycle", "reset"),
    "reset_gpu": ("reset_gpu", "reset_gpu", "gpu"),
    "power": ("fence_node", "", "power"),
    "reprovision": ("reboot_node", "reprovision", "request"),
}
EACH = pytest.mark.parametrize("verb", VERBS)


class Scene:
    """One node whose workflow is about to act by `verb`."""

    def __init__(self, build: Build, verb: str) -> None:
        self.world: World = build(NODE)
        self.verb, self.kind = verb.split()[0], VERBS[verb][2]
        action, remedy, _ = VERBS[verb]
        self.provider = Provider(self.world)
        Cluster.objects.update(provisioner="ironic")
        self.world.change(NODE, system_uuid="machine-1", provider_id="openstack:///i-1")
        pod = a_pod("w-0", NODE)
        self.world.pods[pod.key] = pod
        if action == "fence_node":
            self.world.change(NODE, ready=None)
        self.workflow = fault(self.world, NODE, cause="host-lost" if action == "fence_node" else "xid-48",
                              action_class=action)  # fmt: skip
        if remedy:
            plan = [{"verb": remedy} if "ladder" in step else step for step in self.workflow.plan]
            Workflow.objects.filter(pk=self.workflow.pk).update(plan=plan, attempts=1)

    @property
    def sent(self) -> int:
        """How often the act went out."""
        world = self.world
        power = {"reset": len(world.resets), "power": sum(verb == "ForceOff" for _, verb in world.resets)}
        writes = sum(write.startswith(f"{self.kind} ") for write in world.writes)
        made = {**power, "gpu": len(world.gpu_resets), "request": len(self.provider.requests)}
        return made.get(self.kind, writes)


@pytest.fixture
def standing_still(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene, Callable[[], None]], list[int]]:
    """The worker that writes the first intent of the scene's verb stands still, while `meanwhile` happens."""

    def arrange(scene: Scene, meanwhile: Callable[[], None]) -> list[int]:
        begin, stood = intents.begin, list[int]()

        def pausing(*args: Any, **kwargs: Any) -> Intent:
            intent = begin(*args, **kwargs)
            if intent.verb == scene.verb and not stood:
                stood.append(scene.sent)
                scene.world.clock.tick(60)
                meanwhile()
            return intent

        write = holding._begin

        def pausing_together(*args: Any) -> Any:
            begun = write(*args)
            if scene.verb == "hold" and begun and not stood:
                stood.append(scene.sent)
                scene.world.clock.tick(60)
                meanwhile()
            return begun

        monkeypatch.setattr(intents, "begin", pausing)
        monkeypatch.setattr(holding, "_begin", pausing_together)
        return stood

    return arrange


def started(scene: Scene, stood: list[int]) -> bool:
    return scene.world.run(200, lambda: bool(stood))


@EACH
def test_after_the_time_of_its_call_it_is_not_sent_by_who_stood_still(
    build: Build, standing_still: Any, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows is another look, and one act by a new intent."""
    scene = Scene(build, verb)
    at_rest: list[int] = []
    stood = standing_still(scene, lambda: None)
    take = scene.world.take

    def taking(message: Any, timing: Any) -> None:
        take(message, timing)
        if stood and not at_rest:
            at_rest.append(scene.sent)

    monkeypatch.setattr(scene.world, "take", taking)
    assert started(scene, stood)
    if scene.verb not in ("evict", "hold"):  # these disrupt nothing twice: whoever is still the one goes on
        assert at_rest == stood == [0]
    assert scene.world.run(600, lambda: again(scene.workflow).state == "succeeded"), again(scene.workflow).blocked_text
    assert scene.sent == 1


@EACH
def test_after_an_abort_it_is_never_sent(build: Build, standing_still: Any, verb: str) -> None:
    """While a call that disrupts may be under way an abort is refused; what is accepted holds."""
    scene, refused = Scene(build, verb), list[str]()

    def abort() -> None:
        try:
            services.abort(scene.workflow.pk, "ann", "not now", scene.world.clock.now())
        except services.Refused as error:
            refused.append(str(error))

    stood = standing_still(scene, abort)
    assert started(scene, stood)
    assert scene.world.run(600, lambda: again(scene.workflow).ended_at is not None), again(scene.workflow).blocked_text
    assert scene.sent == (1 if refused else 0) and not scene.world.nodes[NODE].unschedulable
    assert bool(refused) == (scene.verb not in ("hold", "evict")), refused
    assert state_of(NODE) in ("released", "in_service")


@EACH
def test_beside_whoever_took_over_it_is_not_sent_a_second_time(build: Build, standing_still: Any, verb: str) -> None:
    scene = Scene(build, verb)

    def take_over() -> None:
        engine.claim_due(scene.world.clock)
        scene.world.run(120)

    stood = standing_still(scene, take_over)
    assert started(scene, stood)
    assert scene.world.run(600, lambda: again(scene.workflow).state == "succeeded"), again(scene.workflow).blocked_text
    assert scene.sent == 1


@EACH
def test_a_message_of_an_older_version_does_nothing(build: Build, verb: str) -> None:
    scene = Scene(build, verb)
    old: list[tuple[int, int]] = []
    for _ in range(300):
        scene.world.run(1)
        old.append((scene.workflow.pk, again(scene.workflow).version))
        if again(scene.workflow).state == "succeeded":
            break
    before = scene.sent
    for pk, version in dict.fromkeys(old):
        said = engine.advance(pk, version, scene.world.ports_of, scene.world.clock, worlds.TIMING)
        assert said == "dropped"
    assert scene.sent == before == 1
