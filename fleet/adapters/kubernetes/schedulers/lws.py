"""LeaderWorkerSet (`leaderworkerset.x-k8s.io/v1`).

Decides that each replica is a gang of its own, named like its pods name it (`set-index`): a leader and `size - 1`
workers. What groups a replica names it by its labels. Refuses to split the set's conditions among the replicas: they
speak of all of them.
"""

from __future__ import annotations

from fleet.adapters.kubernetes.needs import need_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    created_at,
    number,
    owners_of,
    ref_of,
    spoken_key,
)
from fleet.ports.gangs import GangObject, Part, Ref, Spoken
from fleet.ports.shapes import mapping

MOST_REPLICAS = 10_000  # an odd number must not become as many objects


def leader_worker_set(raw: Raw) -> Spoken:
    ref = ref_of("lws", "LeaderWorkerSet", raw)
    spec = mapping(raw.get("spec"))
    template = mapping(spec.get("leaderWorkerTemplate"))
    replicas, told = number(spec.get("replicas")), number(template.get("size"))
    size = max(1, 1 if told is None else told)
    worker = need_of(mapping(mapping(template.get("workerTemplate")).get("spec")))
    leads = mapping(mapping(template.get("leaderTemplate")).get("spec"))
    leader = Part("leader", 1, need=need_of(leads) if leads else worker)
    parts = (leader, Part("worker", size - 1, need=worker)) if size > 1 else (leader,)
    return Spoken(
        spoken_key(ref),
        tuple(
            GangObject(
                Ref("lws", "LeaderWorkerSet", ref.namespace, f"{ref.name}-{n}"),
                places=False,
                owners=owners_of(raw),
                created_at=created_at(raw),
                wanted=sum(part.wanted for part in parts),
                parts=parts,
            )
            for n in range(min(MOST_REPLICAS, max(0, 1 if replicas is None else replicas)))
        ),
    )


READERS = (
    Reader("lws", "LeaderWorkerSet", "leaderworkerset.x-k8s.io", "leaderworkersets", ("v1",), leader_worker_set),
)
