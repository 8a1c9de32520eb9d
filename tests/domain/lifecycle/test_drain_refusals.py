"""One pod that cannot go keeps no other pod in place, is named with what keeps it, and is asked less and less often."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fleet.lifecycle.models import Step
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import Conflict, PermanentError, PortError, TemporaryError, UnknownOutcome
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
OF_ONE_POD = {
    "its namespace ends": TemporaryError("The pod's namespace is being deleted.", code="namespace_terminating"),
    "a webhook keeps it": TemporaryError("Admission refuses the eviction: kafka.example", code="eviction_denied"),
    "it changes meanwhile": Conflict("The object changed meanwhile."),
    "it has two budgets": PermanentError("It has more than one budget.", code="pdb_many"),
    "nobody answers": UnknownOutcome("gave no answer to create pods/eviction"),
}


def refusing(world: World, name: str, error: PortError) -> list[float]:
    """The pod's eviction fails from now on; returns when it is asked for."""
    evict, asked = world.evict, []

    def refuse(pod: PodSeen) -> None:
        if pod.name == name:
            asked.append(world.clock.monotonic())
            raise error
        evict(pod)

    world.evict = refuse  # type: ignore[method-assign]
    return asked


def evicted(world: World) -> list[str]:
    return [write.removeprefix("evict ") for write in world.writes if write.startswith("evict ")]


@pytest.fixture
def world(build: Build) -> World:
    """The pod that is refused is the first in any order: by gang, by name."""
    found = build(NODE)
    for name, labels in (("a-0", {"app": "a"}), ("a-1", {"app": "a"}), ("b-0", {}), ("c-0", {})):
        pod = a_pod(name, NODE, gang="", labels=labels)
        found.pods[pod.key] = pod
    return found


@pytest.mark.parametrize("what", OF_ONE_POD)
def test_one_pod_that_cannot_go_keeps_no_other_in_place(world: World, what: str) -> None:
    error = OF_ONE_POD[what]
    asked = refusing(world, "a-0", error)
    workflow = fault(world, NODE)
    world.run(200)
    assert sorted(evicted(world)) == ["train/a-1", "train/b-0", "train/c-0"]
    waiting = again(workflow)
    code = "pdb" if error.code == "pdb_many" else error.code
    assert (waiting.state, waiting.verb, waiting.blocked_code) == ("blocked", "drain", code)
    assert "train/a-0" in waiting.blocked_text and str(error).rstrip(".") in waiting.blocked_text
    gaps = [later - sooner for sooner, later in itertools.pairwise(asked)]
    assert gaps[-1] >= 25 and len(asked) < 20, "it is asked less and less often"
    del world.evict
    assert world.run(120, lambda: Step.objects.get(workflow=workflow, verb="drain").state == "done")


@pytest.mark.parametrize(
    "error",
    [
        TemporaryError("Too many requests.", code="throttled", retry_after=20),
        TemporaryError("Nobody there.", code="api_unreachable"),
        PermanentError("The credential is refused.", code="credential_refused"),
    ],
)
def test_what_concerns_the_server_or_the_credential_ends_the_round_for_all(world: World, error: PortError) -> None:
    refusing(world, "a-0", error)
    fault(world, NODE)
    world.run(10)
    assert len(evicted(world)) < 3


def test_a_pod_that_comes_before_the_hold_of_a_new_node_is_told_with_what_keeps_it() -> None:
    from fleet.lifecycle.steps import evicting

    denied: Any = OF_ONE_POD["a webhook keeps it"]
    assert evicting.told(evicting.why(denied), ["ns/p"]) == "ns/p stays: Admission refuses the eviction: kafka.example"
