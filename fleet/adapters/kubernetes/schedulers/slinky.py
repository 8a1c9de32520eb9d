"""Slinky's NodeSet (`slinky.slurm.net` `v1beta1`, `v1alpha1`): pods that are nodes of a Slurm cluster.

Decides that each of its pods starts by itself: a set of which one runs is at work, and none is held for nothing. What
Slurm says of them all is its phase. Refuses to take its pods for the gangs that run in Slurm, which Slurm itself tells
of, and its counts for the number of pods.
"""

from __future__ import annotations

from fleet.adapters.kubernetes.needs import need_of
from fleet.adapters.kubernetes.schedulers.objects import Raw, Reader, created_at, number, owners_of, ref_of, spoken_key
from fleet.ports.gangs import GangObject, Need, Part, Said, Spoken
from fleet.ports.shapes import items, mapping, text

COUNTS = {"slurmAllocated": "allocated", "slurmIdle": "idle", "slurmDrain": "drain", "slurmDown": "down"}
OUT = {"slurmDrain": "are drained or about to be", "slurmDown": "are down"}


def node_set(raw: Raw) -> Spoken:
    ref = ref_of("slinky", "NodeSet", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    wanted = _wanted(spec, status)
    counts = {word: found for key, word in COUNTS.items() if (found := number(status.get(key)))}
    said = tuple(
        Said("NODE_UNHEALTHY", f"{found} of {wanted} {words} in Slurm.", None, f"NodeSet status {key}")
        for key, words in OUT.items()
        if (found := number(status.get(key)) or 0) > 0
    )
    one = GangObject(
        ref,
        places=False,
        owners=owners_of(raw),
        owner=text(mapping(spec.get("controllerRef")).get("name")),
        created_at=created_at(raw),
        suspended=wanted == 0,
        phase=", ".join(f"{word} {count}" for word, count in counts.items()),
        wanted=wanted,
        minimum=min(1, wanted),
        parts=(Part("slurmd", wanted, minimum=min(1, wanted), need=_need(spec)),),
        said=said,
    )
    return Spoken(spoken_key(ref), (one,))


def _wanted(spec: Raw, status: Raw) -> int:
    """One for each node that fits it, as its controller counts them, or as many as it asks for."""
    told = number(status.get("desired") if spec.get("scalingMode") == "DaemonSet" else spec.get("replicas"))
    return max(0, 1 if told is None and spec.get("scalingMode") != "DaemonSet" else told or 0)


def _need(spec: Raw) -> Need:
    """The container of slurmd stands beside the template (`slurmd`), or inside it under that name."""
    pod = dict(mapping(mapping(spec.get("template")).get("spec")))
    inside = items(pod.get("containers"))
    slurmd = mapping(spec.get("slurmd"))
    if slurmd:
        inside = [slurmd, *(one for one in inside if one.get("name") != "slurmd")]
    return need_of({**pod, "containers": inside})


READERS = (Reader("slinky", "NodeSet", "slinky.slurm.net", "nodesets", ("v1beta1", "v1alpha1"), node_set),)
