"""TrainJob (`trainer.kubeflow.org/v1alpha1`) and PyTorchJob (`kubeflow.org/v1`).

Decides the members of a PyTorchJob by its replica specs and of a TrainJob by its number of nodes (its JobSet says more
when it is there). The elastic range bounds the workers and not the gang. Refuses to resolve a TrainJob's runtime: what
that adds is in the JobSet made of it.
"""

from __future__ import annotations

from fleet.adapters.kubernetes.needs import need_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    conditions_of,
    latest,
    number,
    ref_of,
    resumed_at,
    spoken,
)
from fleet.ports.gangs import GangObject, Part, Said, Spoken
from fleet.ports.shapes import mapping, text

_PHASES = ("Complete", "Failed", "Suspended")  # of several that hold the first counts
_NODES = "node"  # the job of the runtime's JobSet that the trainer's nodes become


def train_job(raw: Raw) -> Spoken:
    ref, conditions = ref_of("trainjob", "TrainJob", raw), conditions_of(raw)
    spec = mapping(raw.get("spec"))
    ends = (conditions.get(name) for name in ("Complete", "Failed"))
    over = next((end for end in ends if end is not None and end.status), None)
    suspended, trainer = spec.get("suspend") is True, mapping(spec.get("trainer"))
    nodes, asked = number(trainer.get("numNodes")), mapping(trainer.get("resourcesPerNode"))
    need = need_of({"containers": [{"resources": asked}]}) if asked else None
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            waits_since=None if suspended else resumed_at(conditions.get("Suspended")),
            ended_at=over.at if over else None,
            finished=over is not None,
            suspended=suspended,
            phase=next((n for n in _PHASES if n in conditions and conditions[n].status), ""),
            wanted=nodes,
            parts=() if nodes is None else (Part(_NODES, max(0, nodes), need=need),),
            said=(Said("SUSPENDED", "spec.suspend is true", None, "TrainJob"),) if suspended else (),
        ),
    )


def pytorch_job(raw: Raw) -> Spoken:
    ref, conditions = ref_of("kubeflow", "PyTorchJob", raw), conditions_of(raw)
    spec = mapping(raw.get("spec"))
    policy, range_of = mapping(spec.get("runPolicy")), mapping(spec.get("elasticPolicy"))
    elastic = number(range_of.get("minReplicas")), number(range_of.get("maxReplicas"))
    ended = {
        role: max(0, number(mapping(one).get("succeeded")) or 0)
        for role, one in mapping(mapping(raw.get("status")).get("replicaStatuses")).items()
    }
    parts = tuple(
        Part(
            role.lower(),
            max(0, (1 if told is None else told) - ended.get(role, 0)),
            *(elastic if role.lower() == "worker" else (None, None)),
            need=need_of(mapping(template.get("spec"))),
        )
        for role, one in sorted(mapping(spec.get("pytorchReplicaSpecs")).items())
        for told, template in [(number(mapping(one).get("replicas")), mapping(mapping(one).get("template")))]
    )
    ends = (conditions.get(name) for name in ("Succeeded", "Failed"))
    over = next((end for end in ends if end is not None and end.status), None)
    restarting, suspended = conditions.get("Restarting"), policy.get("suspend") is True
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            queue=text(mapping(policy.get("schedulingPolicy")).get("queue")),
            waits_since=latest(
                restarting.at if restarting is not None and restarting.status else None,
                None if suspended else resumed_at(conditions.get("Suspended")),
            ),
            ended_at=over.at if over else None,
            finished=over is not None,
            suspended=suspended,
            phase=next((name for name, c in reversed(conditions.items()) if c.status), ""),
            wanted=sum(part.wanted for part in parts),
            done=sum(ended.values()),
            minimum=number(mapping(policy.get("schedulingPolicy")).get("minAvailable")),
            parts=parts,
            said=(Said("SUSPENDED", "runPolicy.suspend is true", None, "PyTorchJob"),) if suspended else (),
        ),
    )


READERS = (
    Reader("trainjob", "TrainJob", "trainer.kubeflow.org", "trainjobs", ("v1alpha1",), train_job),
    Reader("kubeflow", "PyTorchJob", "kubeflow.org", "pytorchjobs", ("v1",), pytorch_job),
)
