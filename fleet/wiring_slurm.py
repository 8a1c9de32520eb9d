"""From a cluster's row to its Slurm: the part of `fleet.wiring` that speaks of Slurm alone.

Decides whether Slurm is all there is or stands beside Kubernetes, and caches one poll per configuration. Refuses to act
on a Slurm that stands beside Kubernetes: its nodes are held through Kubernetes, and two hands on one node are one too
many.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings

from fleet.inventory.models import Alias, Cluster
from fleet.inventory.references import secret
from fleet.ports.cluster import ClusterActor, ClusterReader
from fleet.ports.errors import PermanentError
from fleet.ports.gangs import GangPoll

if TYPE_CHECKING:
    from fleet.adapters.slurm import Connection

_polls: dict[tuple[object, ...], GangPoll] = {}


def alone(cluster: Cluster) -> bool:
    """Does Slurm alone tell which nodes there are?"""
    return bool(cluster.slurm_url) and not (cluster.kubeconfig or cluster.in_cluster)


def may_act(cluster: Cluster) -> bool:
    return alone(cluster) and bool(cluster.slurm_act_token)


def configuration(cluster: Cluster) -> tuple[str, ...]:
    """Everything of the row that a client of Slurm is made of."""
    return (
        cluster.slurm_url,
        cluster.slurm_user,
        cluster.slurm_token,
        cluster.slurm_ca,
        cluster.slurm_act_user,
        cluster.slurm_act_token,
        cluster.slurm_scontrol,
        cluster.slurm_conf,
    )


def reader(cluster: Cluster) -> ClusterReader:
    from fleet.adapters import slurm

    return slurm.reader(_connection(cluster))


def beside(cluster: Cluster, kubernetes: ClusterReader) -> ClusterReader:
    """Of a cluster whose nodes Kubernetes tells: Slurm's claim to a host binds whoever would act on it."""
    if not cluster.slurm_url or alone(cluster):
        return kubernetes
    from fleet.adapters import slurm

    return slurm.beside(kubernetes, _connection(cluster), partial(names, cluster.pk))


def poll(cluster: Cluster) -> GangPoll:
    """The same one each time: it remembers which version of the API is served."""
    key = (cluster.pk, *configuration(cluster))
    if key not in _polls:
        from fleet.adapters import slurm

        _polls[key] = slurm.poll(_connection(cluster), partial(names, cluster.pk))
    return _polls[key]


def names(cluster_id: int) -> dict[str, str]:
    """Slurm's name of a node -> ours, of those that the inventory gives a name of their own in Slurm."""
    rows = Alias.objects.filter(cluster_id=cluster_id, kind="slurm", node__gone_at=None)
    return dict(rows.values_list("value", "node__name"))


def actor(cluster: Cluster, installation: str) -> ClusterActor:
    from fleet.adapters import slurm

    reference = cluster.slurm_act_token
    if not reference:
        raise PermanentError(
            "No acting token is set: manage.py cluster add … --slurm-act-token file:PATH.", code="no_credential"
        )
    command = None
    if cluster.slurm_scontrol:
        command = slurm.Scontrol(cluster.slurm_scontrol, cluster.slurm_conf, lambda: _token(reference))
    space = slurm.Space(
        settings.SLURM_TEST_OUTPUT.replace("{cluster}", cluster.name),
        settings.SLURM_TEST_ACCOUNT,
        settings.SLURM_TEST_PARTITION,
        settings.SLURM_TEST_QOS,
    )
    return slurm.actor(
        _connection(cluster, acts=True), installation, command if cluster.slurm_scontrol else None, space
    )


def missing(cluster: Cluster) -> list[str]:
    """What a look at Slurm shows to be missing, in words. PortError when it cannot be asked at all."""
    found = list(poll(cluster).read().troubles)
    if alone(cluster) and not cluster.slurm_act_token:
        found.append("No acting token of Slurm is set (--slurm-act-token): its nodes are never drained.")
    return found


def _connection(cluster: Cluster, *, acts: bool = False) -> Connection:
    from fleet.adapters import slurm

    user = cluster.slurm_act_user if acts else cluster.slurm_user
    reference = cluster.slurm_act_token if acts else cluster.slurm_token
    verify: bool | str = cluster.slurm_ca != "insecure" and (cluster.slurm_ca or True)
    return slurm.Connection(cluster.slurm_url, user, lambda: _token(reference), verify=verify)


def _token(reference: str) -> str:
    """The JWT as it is now: tokens end, and whoever renews one writes it to the same place."""
    found = secret(reference)
    if not found or not found.isprintable():
        told = reference or "(none is named: --slurm-token)"
        raise PermanentError(f"The token of Slurm {told} cannot be read.", code="slurm_token")
    return found.removeprefix("SLURM_JWT=")
