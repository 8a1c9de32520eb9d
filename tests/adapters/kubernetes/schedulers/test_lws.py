"""LeaderWorkerSet: as many gangs as it has replicas."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.kubernetes.schedulers.lws import MOST_REPLICAS, leader_worker_set
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    gangs_of,
    pods,
    resource,
    tell,
    template,
    why,
)
from tests.unit.gangs.scenes import OUT, a_room

LWS = "leaderworkerset.sigs.k8s.io/"


def lws(size: int | None = 4, replicas: int | None = 1, *, leader: Json | None = None, **facts: Any) -> Json:
    told: Json = {"workerTemplate": facts.pop("worker", template(8)), "restartPolicy": "RecreateGroupOnPodRestart"}
    if size is not None:
        told["size"] = size
    if leader is not None:
        told["leaderTemplate"] = leader
    spec = {"leaderWorkerTemplate": told, **({} if replicas is None else {"replicas": replicas})}
    return resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", spec, facts.pop("status", None))


def of_group(index: int, placed: int, waiting: int = 0, **facts: Any) -> list[Json]:
    labels = {LWS + "name": "serve", LWS + "group-index": str(index), LWS + "worker-index": "1"}
    return pods(f"serve-{index}", placed, waiting, labels=labels, **facts)


def test_each_healthy_replica_is_a_gang() -> None:
    found = gangs_of(lws(4, 2), *of_group(0, 4), *of_group(1, 4))
    assert {key: (gang.state, gang.wanted, gang.gpus_held) for key, gang in found.items()} == {
        "lws/LeaderWorkerSet/train/serve-0": ("running", 4, 32),
        "lws/LeaderWorkerSet/train/serve-1": ("running", 4, 32),
    }


def test_one_replica_placed_in_part_does_not_taint_the_other() -> None:
    found = gangs_of(lws(4, 2), *of_group(0, 4), *of_group(1, 3, 1))
    assert [(gang.state, gang.gpus_held_idle) for gang in found.values()] == [("running", 0), ("partial", 24)]


def test_a_leader_of_its_own_kind_is_kept_apart() -> None:
    (one,) = tell(lws(4, leader=template(0))).objects
    assert [(part.role, part.wanted, part.need.gpus if part.need else None) for part in one.parts] == [
        ("leader", 1, 0),
        ("worker", 3, 8),
    ]
    (alone,) = tell(lws(1)).objects
    assert [(part.role, part.wanted) for part in alone.parts] == [("leader", 1)]


@pytest.mark.parametrize(("size", "replicas", "sizes"), [(None, None, [1]), (4, 0, []), (2, 3, [2, 2, 2]), (1, 1, [1])])
def test_what_is_not_told_is_one(size: int | None, replicas: int | None, sizes: list[int]) -> None:
    assert [one.wanted for one in tell(lws(size, replicas)).objects] == sizes


def test_an_odd_number_of_replicas_does_not_become_as_many_gangs() -> None:
    """No server takes these: what reads them does not count on it."""
    assert len(leader_worker_set(lws(4, 2_000_000_000)).objects) == MOST_REPLICAS
    assert leader_worker_set(lws(4, -1)).objects == ()


def test_a_quota_of_the_namespace_is_told_by_the_pods() -> None:
    gang = gang_of(lws(), *of_group(0, 0, 4, waits="exceeded quota: gpus"))
    assert why(gang, a_room("a")).code == "QUOTA"


def test_pods_that_must_share_a_leaf_are_told_by_their_selector() -> None:
    gang = gang_of(lws(2, worker=template(8, nodeSelector={"topology.muster.dev/leaf": "1"})))
    rooms = [a_room(name, labels={"topology.muster.dev/leaf": leaf}) for name, leaf in (("a", "1"), ("b", "2"))]
    assert why(gang, *rooms).code == "EXCEEDS_MAX"


def test_scattered_gpus_are_fragmentation() -> None:
    assert why(gang_of(lws(1)), a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_it_waits_for_is_named() -> None:
    gang = gang_of(lws(2), *of_group(0, 1, 1))
    assert [b.node for b in why(gang, a_room("gpu-0", used=8), a_room("bad", out=OUT)).blockers] == ["bad"]


def test_a_group_made_anew_after_a_lost_pod_waits_with_all_its_members() -> None:
    gang = gang_of(lws(4), *of_group(0, 3, deletionTimestamp=at(6)))
    assert (gang.state, gang.placed, gang.gpus_held) == ("waiting", 0, 24)


def test_conditions_of_the_set_are_nobodys_in_particular() -> None:
    status = {"replicas": 2, "readyReplicas": 1, "conditions": [condition("Progressing", True)]}
    assert [(one.phase, one.said) for one in tell(lws(4, 2, status=status)).objects] == [("", ()), ("", ())]


def test_pods_of_a_replica_that_the_set_no_longer_has_are_still_a_gang() -> None:
    """A rollout makes more replicas than it asks for, and a smaller set leaves some until they are gone."""
    found = gangs_of(lws(2, 1), *of_group(0, 2), *of_group(3, 2))
    assert found["lws/LeaderWorkerSet/train/serve-3"].state == "running"
    assert found["lws/LeaderWorkerSet/train/serve-3"].objects == ()


def test_a_pod_group_for_a_replica_is_joined_by_its_labels() -> None:
    group = resource(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        "serve-0-abc",
        {"minMember": 4},
        {"phase": "Inqueue"},
        labels={LWS + "name": "serve", LWS + "group-index": "0"},
    )
    gang = gang_of(lws(4), group, *of_group(0, 0, 4, annotations={"scheduling.k8s.io/group-name": "serve-0-abc"}))
    assert (gang.key, gang.title, gang.guarantee) == (
        "volcano/PodGroup/train/serve-0-abc",
        "LeaderWorkerSet serve-0",
        "whole",
    )
