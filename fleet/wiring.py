"""From a cluster's row to the ports that speak to it. The only module that names adapters.

Decides which adapter serves which cluster and caches one set of clients per process and configuration. Imports adapters
lazily: `kubernetes` alone costs half a second. Refuses to log or keep a credential beyond the client that needs it.
"""

from __future__ import annotations

import base64
import threading
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from fleet import wiring_gangs, wiring_slurm
from fleet.inventory.models import Bmc, Cluster, Provisioner
from fleet.inventory.references import secret as _secret
from fleet.inventory.targets import BadTargets, FabricSource
from fleet.inventory.targetsfile import TargetsFile
from fleet.lifecycle.context import JobPlace, Ports, Timing
from fleet.ports.cluster import ClusterActor, ClusterReader
from fleet.ports.errors import PermanentError
from fleet.ports.fabric import FabricReader
from fleet.ports.gangs import GangPoll, GangWatcher
from fleet.ports.history import History
from fleet.ports.manifests import Manifest
from fleet.ports.metrics import MetricsReader
from fleet.ports.power import BmcTarget, PowerPort
from fleet.ports.provision import ProvisionPort
from fleet.telemetry.embedded import EmbeddedHistory
from fleet.telemetry.pasts import Pasts
from fleet.telemetry.promhistory import PromqlHistory
from fleet.wiring_installation import Lease, holder, installation_id

HOLDS_AT_ONCE = 8
"""Side by side of one message: with all messages of a worker as many as the connections it keeps to an API server."""
_ports: dict[tuple[Any, ...], Ports] = {}
_metrics: dict[tuple[str, ...], MetricsReader] = {}
_lock = threading.Lock()


def reader(cluster: Cluster) -> ClusterReader:
    """A reading client of the cluster. PermanentError when its kubeconfig cannot be used.

    It reads every node: which of them are managed is decided by `inventory.topology`, and the others count in caps.
    """
    if wiring_slurm.alone(cluster):
        return wiring_slurm.reader(cluster)
    if cluster.targets_file and not (cluster.kubeconfig or cluster.in_cluster):
        return _listed(cluster.targets_file)
    from fleet.adapters import kubernetes

    return kubernetes.reader(
        None if cluster.in_cluster else cluster.kubeconfig,
        cluster.context or None,
        allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
    )


def gang_watcher(cluster: Cluster) -> GangWatcher | None:
    """The custom resources that speak of gangs, read with the reading credential; None without an API server."""
    if not (cluster.kubeconfig or cluster.in_cluster):
        return None
    from fleet.adapters import kubernetes

    return kubernetes.gang_watcher(
        None if cluster.in_cluster else cluster.kubeconfig,
        cluster.context or None,
        allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
    )


def gang_manifest(document: Any) -> Manifest | None:
    """What a manifest's document says that is not submitted yet; None for a kind that nobody here reads."""
    from fleet.adapters.kubernetes.schedulers import manifest

    return manifest.read(document)


def gang_polls(cluster: Cluster) -> list[GangPoll]:
    """The schedulers of the cluster that have no watch and are asked again and again."""
    with _lock:
        found = [wiring_slurm.poll(cluster)] if cluster.slurm_url else []
        return [*found, *wiring_gangs.polls(cluster)]


def slurm_missing(cluster: Cluster) -> list[str]:
    """What a look at its Slurm shows to be missing, in words; [] without one. PortError when it cannot be asked."""
    return wiring_slurm.missing(cluster) if cluster.slurm_url else []


def may_act(cluster: Cluster) -> bool:
    """Whether a credential to act with is set."""
    return bool(cluster.act_kubeconfig or cluster.in_cluster or wiring_slurm.may_act(cluster))


def has_nodes(cluster: Cluster) -> bool:
    """Whether anything tells which nodes there are."""
    return bool(cluster.kubeconfig or cluster.in_cluster or cluster.targets_file or cluster.slurm_url)


def _listed(path: str) -> ClusterReader:
    from fleet.adapters import listed

    def view() -> listed.Listing:
        file = TargetsFile(path)

        def changed() -> list[listed.Entry] | None:
            try:
                found = file.changed()
            except BadTargets as error:
                raise PermanentError(str(error), code="bad_targets") from error
            if found is None:
                return None
            return [listed.Entry(node.name, node.labels, node.addresses) for node in found.nodes.values()]

        return changed

    return listed.reader(view)


def actor(cluster: Cluster) -> ClusterActor:
    """An acting client: a separate credential, and none at all where none was given."""
    if wiring_slurm.alone(cluster):
        return wiring_slurm.actor(cluster, installation_id())
    from fleet.adapters import kubernetes

    if not cluster.act_kubeconfig and not cluster.in_cluster:
        raise PermanentError(
            "No acting credential is set: manage.py cluster add … --act-kubeconfig FILE.", code="no_credential"
        )
    return kubernetes.actor(
        cluster.act_kubeconfig or None,
        None if cluster.act_kubeconfig else cluster.context or None,
        allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
        job_namespaces=(settings.VALIDATION_NAMESPACE, settings.GPU_RESET_NAMESPACE),
        slinky_nodes=bool(cluster.slurm_url),
    )


def power() -> PowerPort:
    from fleet.adapters import redfish

    return redfish.power()


def bmc_target(row: Bmc) -> BmcTarget:
    """The row with its credential resolved from `env:NAME` or `file:PATH` (`user:password`)."""
    user, password = _credential(row.credential_ref)
    secure = urlsplit(row.address).scheme == "https"
    verify: bool | str = row.ca if row.ca and row.ca != "insecure" else secure and row.ca != "insecure"
    return BmcTarget(
        bmc_id=row.pk,
        node=row.node.name,
        address=row.address,
        username=user,
        password=password,
        verify=verify,
        pinned_uuid=row.pinned_uuid,
        pinned_serial=row.pinned_serial,
    )


def provisioner(cluster: Cluster) -> ProvisionPort | None:
    """Who installs the cluster's hosts anew; None where nobody is configured."""
    if cluster.provisioner == Provisioner.METAL3:
        from fleet.adapters import kubernetes, metal3

        own = cluster.act_kubeconfig or None
        objects = kubernetes.custom_objects(
            cluster.provision_at or own,
            None if cluster.provision_at or own else cluster.context or None,
            allow_exec=settings.KUBECONFIG_EXEC_ALLOWED,
        )
        return metal3.provisioner(objects, cluster.provision_namespace)
    if cluster.provisioner == Provisioner.IRONIC:
        from fleet.adapters import ironic

        reference = cluster.provision_credential
        return ironic.provisioner(
            ironic.Connection(
                url=cluster.provision_at,
                authorization=lambda: _authorization(reference, "provisioner"),
                verify=cluster.provision_ca != "insecure" and (cluster.provision_ca or True),
            )
        )
    return None


def provisioner_missing(cluster: Cluster) -> list[str]:
    """What a look at the provisioner shows to be missing, in words. PortError when it cannot be asked at all."""
    found = provisioner(cluster)
    return found.check() if found else []


def metrics(cluster: Cluster) -> MetricsReader | None:
    """The cluster's metrics API, cached per configuration; None where it has none."""
    if not cluster.prometheus_url:
        return None
    key = (
        cluster.prometheus_url,
        cluster.prometheus_credential,
        cluster.prometheus_tenant,
        cluster.prometheus_ca,
    )
    with _lock:
        if key not in _metrics:
            _metrics[key] = _metrics_reader(*key)
        return _metrics[key]


def _metrics_reader(url: str, credential: str, tenant: str, ca: str) -> MetricsReader:
    from fleet.adapters import prometheus

    name, equals, value = tenant.partition("=")
    headers = {name: value} if equals else {"X-Scope-OrgID": tenant} if tenant else {}
    return prometheus.reader(
        prometheus.Connection(
            url=url,
            authorization=lambda: _authorization(credential),
            headers=headers,
            verify=ca != "insecure" and (ca or True),
            timeout=settings.METRICS_TIMEOUT,
            at_once=settings.METRICS_AT_ONCE,
        )
    )


def fabric(source: FabricSource) -> FabricReader:
    """Who reads a fabric's manager or exporter. Its credential is sent to the manager's own address only."""
    from fleet.adapters import ufm

    return ufm.reader(
        ufm.Connection(
            url=source.url,
            authorization=lambda: _authorization(source.credential, "fabric"),
            verify=source.ca != "insecure" and (source.ca or True),
            telemetry=source.telemetry,
            sharp=source.sharp,
            timeout=settings.FABRIC_TIMEOUT,
        )
    )


def _authorization(reference: str, whose: str = "metrics") -> str:
    """The header for a reference: `user:password` is basic, anything else a bearer token. Read anew each time."""
    if not reference:
        return ""
    secret = _secret(reference)
    if not secret or not secret.isprintable():
        raise PermanentError(f"The {whose} credential {reference} cannot be read.", code=f"{whose}_credential")
    if secret.startswith("Bearer "):
        return secret
    if ":" in secret:
        return "Basic " + base64.b64encode(secret.encode()).decode()
    return f"Bearer {secret}"


def metrics_missing(cluster: Cluster) -> list[str]:
    """What a look at the metrics API shows to be missing, in words. PortError when it cannot be asked at all."""
    found = metrics(cluster)
    if found is None:
        return []
    match = f"{{{cluster.prometheus_match}}}" if cluster.prometheus_match else ""
    answer = found.instant(f"count(node_time_seconds{match}) or vector(0)")
    if answer.values.any():
        return []
    return ["The metrics API has no series of node_exporter: is its address right, and --prometheus-match?"]


def history(cluster: Cluster) -> History:
    """Where the past of the cluster's nodes is read."""
    found = metrics(cluster)
    return Pasts(EmbeddedHistory(), PromqlHistory(found, cluster.prometheus_match) if found else None)


def _credential(reference: str) -> tuple[str, str]:
    user, colon, password = _secret(reference).partition(":")
    if not colon:
        raise PermanentError(
            f"The BMC credential {reference or '(none)'} cannot be read as user:password.", code="bmc_credential"
        )
    return user, password


def ports_of(cluster: Cluster) -> Ports:
    """The engine's ports for one cluster, cached per process until the cluster's configuration changes."""
    key = (
        cluster.pk,
        cluster.kubeconfig,
        cluster.act_kubeconfig,
        cluster.context,
        cluster.in_cluster,
        cluster.selector,
        cluster.provisioner,
        cluster.provision_at,
        cluster.provision_namespace,
        cluster.provision_credential,
        cluster.provision_ca,
        *wiring_slurm.configuration(cluster),
    )
    with _lock:
        found = _ports.get(key)
        if found is None:
            acting = actor(cluster)
            found = Ports(
                reader=wiring_slurm.beside(cluster, reader(cluster)),
                actor=acting,
                power=power(),
                target=bmc_target,
                lease=Lease(acting, installation_id() if wiring_slurm.alone(cluster) else holder()),
                validation_image=settings.VALIDATION_IMAGE,
                validation_namespace=settings.VALIDATION_NAMESPACE,
                gpu_reset=JobPlace(
                    settings.GPU_RESET_IMAGE, settings.GPU_RESET_NAMESPACE, settings.GPU_RESET_RUNTIME_CLASS
                ),
                provision=provisioner(cluster),
                ray=wiring_gangs.ray_drains(cluster),
                suspends=wiring_gangs.suspends(cluster),
                shows_why=wiring_slurm.alone(cluster),
                tests_on_host=wiring_slurm.alone(cluster),
            )
            _ports[key] = found
        return found


@cache
def warm_up() -> None:
    """Load the vendors' libraries before the first fault: they cost seconds on a busy machine."""
    from fleet.adapters.kubernetes import acting, reading
    from fleet.adapters.redfish import driver

    del acting, reading, driver


def timing() -> Timing:
    return Timing(
        soak=settings.SOAK_SECONDS,
        reboot_timeout=settings.REBOOT_TIMEOUT,
        reprovision_timeout=settings.REPROVISION_TIMEOUT,
        reboot_observe=settings.REBOOT_OBSERVE_SECONDS,
        drain_margin=settings.DRAIN_MARGIN_SECONDS,
        bmc_patience=settings.BMC_PATIENCE_SECONDS,
        job_wait=settings.JOB_WAIT_SECONDS,
        gang_join=settings.GANG_JOIN_SECONDS,
        gang_rest=settings.GANG_REST_SECONDS,
        ray_drain=settings.RAY_DRAIN_SECONDS,
        suspend_wait=settings.SUSPEND_WAIT_SECONDS,
        suspend_most=settings.SUSPEND_MOST_SECONDS,
        evictions_per_second=settings.EVICTIONS_PER_SECOND,
        evictions_at_once=settings.EVICTIONS_AT_ONCE,
        holds_at_once=HOLDS_AT_ONCE,
    )
