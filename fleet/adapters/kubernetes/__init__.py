"""Kubernetes as a cluster: the entry points that `fleet.wiring` calls.

Decides only when the vendor library is imported (at the first call: it costs half a second and 40 MB). Refuses to
share one credential between reading and acting: each entry point builds its own client. No module here may be called
`reader` or `actor`: importing it would hide the function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.kubernetes.acting import KubernetesActor
    from fleet.adapters.kubernetes.objects import CustomObjects
    from fleet.adapters.kubernetes.raydrain import RayDrain
    from fleet.adapters.kubernetes.rayjobs import KubernetesRayJobs
    from fleet.adapters.kubernetes.reading import KubernetesReader
    from fleet.adapters.kubernetes.schedulers.visibility import KueuePlaces
    from fleet.adapters.kubernetes.schedulers.watching import GangWatches
    from fleet.adapters.kubernetes.suspending import KubernetesSuspends


def reader(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    allow_exec: frozenset[str] = frozenset(),
    node_selector: str = "",
) -> KubernetesReader:
    """A ClusterReader on `kubeconfig` (None: in-cluster). PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.reading import KubernetesReader

    return KubernetesReader(ApiServer(kubeconfig, context, allow_exec), node_selector=node_selector)


def gang_watcher(
    kubeconfig: str | None, context: str | None = None, *, allow_exec: frozenset[str] = frozenset()
) -> GangWatches:
    """A GangWatcher on `kubeconfig` (None: in-cluster). PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.schedulers.watching import GangWatches

    return GangWatches(ApiServer(kubeconfig, context, allow_exec))


def kueue_places(
    kubeconfig: str | None, context: str | None = None, *, allow_exec: frozenset[str] = frozenset()
) -> KueuePlaces:
    """A GangPoll of places in Kueue's queues. PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.schedulers.visibility import KueuePlaces

    return KueuePlaces(ApiServer(kubeconfig, context, allow_exec))


def actor(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    allow_exec: frozenset[str] = frozenset(),
    lease_namespace: str = "default",
    job_namespaces: Sequence[str] = ("",),
    slinky_nodes: bool = False,
) -> KubernetesActor:
    """A ClusterActor on `kubeconfig` (None: in-cluster). PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.acting import KubernetesActor
    from fleet.adapters.kubernetes.client import ApiServer

    api = ApiServer(kubeconfig, context, allow_exec)
    return KubernetesActor(
        api, lease_namespace=lease_namespace, job_namespaces=job_namespaces, slinky_nodes=slinky_nodes
    )


def ray_drain(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    namespaces: Sequence[str],
    allow_exec: frozenset[str] = frozenset(),
) -> RayDrain:
    """Tells Ray of drains, in these namespaces alone. PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.raydrain import RayDrain

    return RayDrain(ApiServer(kubeconfig, context, allow_exec), namespaces)


def ray_jobs(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    namespaces: Sequence[str],
    allow_exec: frozenset[str] = frozenset(),
) -> KubernetesRayJobs:
    """RayJobs that failed, in these namespaces alone. PermanentError when the kubeconfig cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.rayjobs import KubernetesRayJobs

    return KubernetesRayJobs(ApiServer(kubeconfig, context, allow_exec), namespaces)


def suspends(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    kinds: Mapping[str, Collection[str]],
    allow_exec: frozenset[str] = frozenset(),
) -> KubernetesSuspends:
    """Jobs that are stopped whole, in the namespaces of `kinds` alone. PermanentError for a kubeconfig of no use."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.suspending import KubernetesSuspends

    return KubernetesSuspends(ApiServer(kubeconfig, context, allow_exec), kinds)


def custom_objects(
    kubeconfig: str | None, context: str | None = None, *, allow_exec: frozenset[str] = frozenset()
) -> CustomObjects:
    """Custom objects of the API server of `kubeconfig` (None: in-cluster). PermanentError when it cannot be used."""
    from fleet.adapters.kubernetes.client import ApiServer
    from fleet.adapters.kubernetes.objects import CustomObjects

    return CustomObjects(ApiServer(kubeconfig, context, allow_exec))
