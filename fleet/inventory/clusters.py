"""Writes of clusters: registering, forgetting, and the stated problems of their connection.

Decides what a registration may change; every change is audited in its transaction. Refuses to store the content of a
credential (only where it lies) and to change a mode: that is lifecycle's, because stored plans depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.inventory import addresses, lease, metrics, slurm
from fleet.inventory.models import Cluster, Provisioner
from fleet.inventory.topology import DEFAULT_KEYS, EVERY_NODE, parse_selector


@dataclass(frozen=True, slots=True)
class Registration:
    """What `cluster add` says. Paths are made absolute; None leaves an existing cluster's value as it is."""

    name: str
    kubeconfig: str | None = None
    context: str | None = None
    act_kubeconfig: str | None = None
    in_cluster: bool | None = None
    slurm_url: str | None = None
    slurm_user: str | None = None
    slurm_token: str | None = None
    slurm_act_user: str | None = None
    slurm_act_token: str | None = None
    slurm_ca: str | None = None
    slurm_scontrol: str | None = None
    slurm_conf: str | None = None
    yunikorn_url: str | None = None
    yunikorn_ca: str | None = None
    prometheus_url: str | None = None
    prometheus_credential: str | None = None
    prometheus_tenant: str | None = None
    prometheus_ca: str | None = None
    prometheus_match: str | None = None
    metrics_source: str | None = None
    grafana_url: str | None = None
    targets_file: str | None = None
    provisioner: str | None = None
    provision_at: str | None = None
    provision_namespace: str | None = None
    provision_credential: str | None = None
    provision_ca: str | None = None
    selector: str | None = None
    label_keys: Mapping[str, str] | None = field(default=None)

    def fields(self) -> dict[str, Any]:
        given = {k: v for k, v in asdict(self).items() if v is not None and k != "name"}
        for key in ("kubeconfig", "act_kubeconfig", "targets_file", "slurm_scontrol", "slurm_conf"):
            if given.get(key):
                given[key] = str(Path(given[key]).expanduser().resolve())
        if unknown := set(given.get("label_keys", {})) - set(DEFAULT_KEYS):
            raise ValueError(f"There is no scope {', '.join(sorted(unknown))}; known: {', '.join(DEFAULT_KEYS)}.")
        parse_selector(given.get("selector", ""))
        metrics.check(given)
        slurm.check(given)
        if given.get("yunikorn_url"):
            addresses.check("YuniKorn", str(given["yunikorn_url"]))
        _check_provisioner(given)
        return given


def _check_provisioner(given: dict[str, Any]) -> None:
    """ValueError for a provisioner that nobody could reach; a path of Metal3's is made absolute."""
    kind, at = given.get("provisioner"), given.get("provision_at", "")
    if kind == Provisioner.IRONIC and not at.startswith(("http://", "https://")):
        raise ValueError(f"Ironic needs its address in --provision-at, not {at or 'nothing'!r}.")
    if kind == Provisioner.METAL3 and not given.get("provision_namespace"):
        raise ValueError("Metal3 needs the namespace of its BareMetalHosts in --provision-namespace.")
    if at and not at.startswith(("http://", "https://")):
        given["provision_at"] = str(Path(at).expanduser().resolve())


@transaction.atomic
def register(wanted: Registration, *, simulated_under: Path, by: str, now: datetime) -> tuple[Cluster, list[str]]:
    """Create the cluster or update it; the names of the fields that changed. Same call again changes nothing.

    Without a selector nothing is managed, except in a simulated cluster (its kubeconfig lies below `simulated_under`).
    """
    fields = wanted.fields()
    cluster = Cluster.objects.select_for_update().filter(name=wanted.name).first()
    if cluster is None:
        cluster = Cluster(name=wanted.name, created_at=now, mode_since=now)
        changed = ["name"]
    else:
        changed = ["removed_at"] if cluster.removed_at else []
    if not fields.get("selector", cluster.selector) and _is_below(fields.get("kubeconfig", ""), simulated_under):
        fields["selector"] = EVERY_NODE
    changed += [key for key, value in fields.items() if getattr(cluster, key) != value]
    if not changed:
        return cluster, []
    for key, value in fields.items():
        setattr(cluster, key, value)
    cluster.removed_at = None
    cluster.save(update_fields=None if "name" in changed else [*fields, "removed_at"])
    action = "cluster.add" if "name" in changed else "cluster.update"
    detail = {key: fields[key] for key in changed if key in fields}
    audit.record(audit.chain_of(cluster.pk), [audit.Entry(by, action, f"cluster:{cluster.pk}", detail=detail)], now)
    return cluster, changed


def _is_below(path: str, folder: Path) -> bool:
    return bool(path) and Path(path).is_relative_to(folder.resolve())


@transaction.atomic
def remove(cluster: Cluster, *, by: str, now: datetime) -> None:
    """Forget a cluster: its observer stops by itself, its history stays."""
    if Cluster.objects.filter(pk=cluster.pk, removed_at=None).update(removed_at=now):
        audit.record(audit.chain_of(cluster.pk), [audit.Entry(by, "cluster.remove", f"cluster:{cluster.pk}")], now)


def reload(cluster: Cluster) -> Cluster:
    """The registration as it is now."""
    return Cluster.objects.get(pk=cluster.pk)


@transaction.atomic
def connected(cluster_id: int, epoch: int, now: datetime) -> datetime:
    """Note the first connect once and for ever; what is older than it is history."""
    lease.guard(cluster_id, epoch)
    Cluster.objects.filter(pk=cluster_id, connected_at=None).update(connected_at=now)
    at = Cluster.objects.values_list("connected_at", flat=True).get(pk=cluster_id)
    assert at is not None  # noqa: S101 - just set under the row's lock
    return at


@transaction.atomic
def set_conditions(cluster_id: int, epoch: int, conditions: Sequence[Mapping[str, str]], now: datetime) -> None:
    """The stated problems of the connection, for pages: [{"code", "text", "since"}]."""
    lease.guard(cluster_id, epoch)
    Cluster.objects.filter(pk=cluster_id).update(conditions=[dict(c) for c in conditions])
    publish(cluster_id, [Notice("cluster", str(cluster_id))], now)
