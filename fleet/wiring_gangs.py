"""From a cluster's settings to what is asked about its gangs beside the API server. Part of `fleet.wiring`.

Decides which credential goes where, and caches one poll per configuration. Imports adapters lazily. Refuses to judge
addresses: whoever calls has.
"""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from fleet.gangs.dashboards import Place
from fleet.inventory.models import Cluster
from fleet.ports.gangs import GangPoll
from fleet.ports.ray import RayDashboard, RayDrains
from fleet.ports.rayjobs import RayJobs
from fleet.ports.suspends import Suspends

_polls: dict[tuple[object, ...], GangPoll] = {}
_jobs: dict[tuple[object, ...], RayJobs] = {}
_suspends: dict[tuple[object, ...], Suspends] = {}


def ray_dashboard(place: Place, ip: str) -> RayDashboard:
    """The dashboard at a place and an address that were judged; a token for namespaces that may have it alone."""
    from fleet.adapters import ray

    token = str(settings.RAY_TOKEN) if place.gets_token(settings.RAY_TOKEN_NAMESPACES) else ""
    timeout = settings.RAY_TIMEOUT
    return ray.dashboard(ray.Connection(place.url, ip, token, timeout=timeout, patience=3 * timeout))


def polls(cluster: Cluster) -> list[GangPoll]:
    """The schedulers of a Kubernetes cluster that have no resources to watch. One thread at a time."""
    found = [_yunikorn(cluster)] if cluster.yunikorn_url else []
    return [*found, _kueue(cluster)] if cluster.kubeconfig or cluster.in_cluster else found


def yunikorn_missing(cluster: Cluster) -> list[str]:
    """What a look at its YuniKorn shows to be missing, in words; [] without one. PortError when it cannot be asked."""
    return list(_yunikorn(cluster).read().troubles) if cluster.yunikorn_url else []


def _yunikorn(cluster: Cluster) -> GangPoll:
    key = ("yunikorn", cluster.pk, cluster.yunikorn_url, cluster.yunikorn_ca)
    if key not in _polls:
        from fleet.adapters import yunikorn

        ca = cluster.yunikorn_ca
        _polls[key] = yunikorn.poll(yunikorn.Connection(cluster.yunikorn_url, verify=ca != "insecure" and (ca or True)))
    return _polls[key]


def _kueue(cluster: Cluster) -> GangPoll:
    key = ("kueue", cluster.pk, cluster.kubeconfig, cluster.context, cluster.in_cluster)
    if key not in _polls:
        from fleet.adapters import kubernetes

        _polls[key] = kubernetes.kueue_places(
            None if cluster.in_cluster else cluster.kubeconfig,
            cluster.context or None,
            allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
        )
    return _polls[key]


def ray_drains(cluster: Cluster) -> RayDrains | None:
    """Who tells Ray of drains; None in a cluster that does not allow it or without an acting credential."""
    namespaces = _allowed(cluster, settings.RAY_DRAIN_IN)
    if not namespaces:
        return None
    from fleet.adapters import kubernetes

    return kubernetes.ray_drain(
        cluster.act_kubeconfig or None,
        None if cluster.act_kubeconfig else cluster.context or None,
        namespaces=namespaces,
        allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
    )


def ray_jobs(cluster: Cluster) -> RayJobs | None:
    """Who keeps the evidence of RayJobs that failed; None as for `ray_drains`."""
    namespaces = _allowed(cluster, settings.RAY_KEEP_IN)
    if not namespaces:
        return None
    key = ("ray_jobs", cluster.pk, cluster.act_kubeconfig, cluster.context, cluster.in_cluster, *namespaces)
    if key not in _jobs:
        from fleet.adapters import kubernetes

        _jobs[key] = kubernetes.ray_jobs(
            cluster.act_kubeconfig or None,
            None if cluster.act_kubeconfig else cluster.context or None,
            namespaces=namespaces,
            allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
        )
    return _jobs[key]


def suspends(cluster: Cluster, resumes: Collection[str] = ()) -> Suspends | None:
    """Who suspends jobs for drains, in places `CLUSTER/NAMESPACE` and `CLUSTER/NAMESPACE/KIND`; None as above.

    `resumes`: namespaces in which it starts again what was suspended before their places were taken out.
    """
    acts = cluster.act_kubeconfig or cluster.in_cluster
    kinds: dict[str, set[str]] = {namespace: set() for namespace in resumes if acts}
    for place in _allowed(cluster, settings.SUSPEND_IN):
        namespace, _, kind = place.partition("/")
        kinds.setdefault(namespace, set()).update({kind} if kind else ())
    if not kinds:
        return None
    named = sorted((namespace, *sorted(each)) for namespace, each in kinds.items())
    key = (cluster.pk, cluster.act_kubeconfig, cluster.context, cluster.in_cluster, *named)
    if key not in _suspends:
        from fleet.adapters import kubernetes

        _suspends[key] = kubernetes.suspends(
            cluster.act_kubeconfig or None,
            None if cluster.act_kubeconfig else cluster.context or None,
            kinds=kinds,
            allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
        )
    return _suspends[key]


def _allowed(cluster: Cluster, places: Collection[str]) -> list[str]:
    """What follows `CLUSTER/` in the places that are this cluster's; nothing without a credential to act with."""
    if not (cluster.act_kubeconfig or cluster.in_cluster):
        return []
    named = (one.partition("/") for one in places)
    return sorted(namespace for name, _, namespace in named if name == cluster.name and namespace)


def ray_missing(cluster: Cluster) -> list[str]:
    """What telling Ray of drains and keeping its evidence need and lack, in words; [] where nobody asked for it."""
    drains, jobs = ray_drains(cluster), ray_jobs(cluster)
    return [*(drains.check() if drains is not None else []), *(jobs.check() if jobs is not None else [])]


def suspends_missing(cluster: Cluster) -> list[str]:
    """What suspending jobs needs and lacks, in words; [] where nobody asked for it."""
    port = suspends(cluster)
    known = {"JobSet", "TrainJob", "PyTorchJob", "RayJob", "Job", "Workload"}
    odd = sorted({place.split("/")[2] for place in settings.SUSPEND_IN if place.count("/") == 2} - known)
    said = [f"MUSTER_SUSPEND_IN names kinds that cannot be suspended: {', '.join(odd)}."] if odd else []
    return [*said, *(port.check() if port is not None else [])]
