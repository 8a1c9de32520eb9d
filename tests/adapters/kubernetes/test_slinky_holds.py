"""A hold on a node that is a node of Slurm too: its operator reads why, and what others wrote there stays."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.client import ApiServer
from fleet.ports.cluster import SLINKY_REASON, HoldRequest
from tests.adapters.kubernetes.scripted import Script, answer

NODE = "/api/v1/nodes/gpu-1"
VALUE = "17/op-1"
HOLD = HoldRequest("gpu-1", VALUE, "41", why="Xid 79 on GPU 3")
OURS = f"Muster hold {VALUE}: Xid 79 on GPU 3"


@pytest.fixture
def slinky(api: ApiServer) -> KubernetesActor:
    return KubernetesActor(api, slinky_nodes=True)


def a_node(**notes: str) -> Any:
    return answer(200, {"metadata": {"name": "gpu-1", "resourceVersion": "41", "annotations": notes}, "spec": {}})


def sent(script: Script) -> dict[str, Any]:
    (patch,) = script.sent("PATCH", NODE)
    annotations: dict[str, Any] = patch.body["metadata"]["annotations"]
    return annotations


def test_the_reason_is_written_in_the_patch_that_cordons(script: Script, slinky: KubernetesActor) -> None:
    script.on(f"GET {NODE}", a_node())
    script.on(f"PATCH {NODE}", a_node())
    slinky.hold(HOLD)
    assert sent(script) == {"muster.dev/hold": VALUE, SLINKY_REASON: OURS}
    assert not OURS.startswith("slurm-operator:")  # the operator puts that before it, and takes only its own away


def test_a_reason_of_somebody_else_stays(script: Script, slinky: KubernetesActor) -> None:
    script.on(f"GET {NODE}", a_node(**{SLINKY_REASON: "kim: fan"}))
    script.on(f"PATCH {NODE}", a_node())
    slinky.hold(HOLD)
    assert sent(script) == {"muster.dev/hold": VALUE}


@pytest.mark.parametrize(("there", "gone"), [(OURS, {SLINKY_REASON: None}), ("kim: fan", {}), ("", {})])
def test_a_release_takes_our_reason_away_and_no_other(
    script: Script, slinky: KubernetesActor, there: str, gone: dict[str, None]
) -> None:
    notes = {"muster.dev/hold": VALUE} | ({SLINKY_REASON: there} if there else {})
    script.on(f"GET {NODE}", a_node(**notes))
    script.on(f"PATCH {NODE}", a_node())
    slinky.release("gpu-1", VALUE, "41", uncordon=True)
    assert sent(script) == {"muster.dev/hold": None, **gone}


def test_without_slurm_beside_nothing_is_read_and_nothing_more_is_written(
    script: Script, actor: KubernetesActor
) -> None:
    script.on(f"PATCH {NODE}", a_node())
    actor.hold(HOLD)
    assert sent(script) == {"muster.dev/hold": VALUE} and not script.sent("GET", NODE)
