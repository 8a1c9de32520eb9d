"""Persistence of what exists."""

from __future__ import annotations

from django.db import models


class Mode(models.TextChoices):
    OBSERVE = "observe", "Observe"
    RECOMMEND = "recommend", "Recommend"
    AUTOMATE = "automate", "Automate"


class PoolKind(models.TextChoices):
    BARE_METAL = "bare_metal", "Bare metal"
    VM = "vm", "VM"
    SPOT = "spot", "Spot"


class MetricsSource(models.TextChoices):
    """AUTO: exporters are scraped where pods announce them, else the metrics API is asked."""

    AUTO = "auto", "Automatic"
    SCRAPE = "scrape", "Scrape"
    QUERY = "query", "Query"


class Provisioner(models.TextChoices):
    """Who installs images on a cluster's hosts."""

    NONE = "", "None"
    METAL3 = "metal3", "Metal3"
    IRONIC = "ironic", "Ironic"


class Cluster(models.Model):
    """A scheduler's domain. Credentials are references (paths), never contents.

    `connected_at` is the first connect: older evidence is history. `epoch` and `observer` belong to the observer's
    lease: each of its writes checks the epoch.
    """

    name = models.CharField(max_length=63, unique=True)
    mode = models.CharField(max_length=12, choices=Mode.choices, default=Mode.OBSERVE)
    mode_since = models.DateTimeField(null=True)
    half_open = models.BooleanField(default=False)  # after a raised mode: one node at a time until one has returned
    kubeconfig = models.CharField(max_length=1024, default="", blank=True)  # "" with in_cluster
    context = models.CharField(max_length=253, default="", blank=True)
    act_kubeconfig = models.CharField(max_length=1024, default="", blank=True)
    in_cluster = models.BooleanField(default=False)
    slurm_url = models.CharField(max_length=1024, default="", blank=True)
    slurm_user = models.CharField(max_length=64, default="", blank=True)  # whose token reads
    slurm_token = models.CharField(max_length=300, default="", blank=True)  # env:NAME or file:PATH
    slurm_act_user = models.CharField(max_length=64, default="", blank=True)  # whose token acts; "": nothing is written
    slurm_act_token = models.CharField(max_length=300, default="", blank=True)  # env:NAME or file:PATH
    slurm_ca = models.CharField(max_length=500, default="", blank=True)  # "" system CAs, "insecure", or a path
    slurm_scontrol = models.CharField(max_length=500, default="", blank=True)  # path, where REST cannot act
    slurm_conf = models.CharField(max_length=500, default="", blank=True)  # its slurm.conf, "" the usual place
    yunikorn_url = models.CharField(max_length=1024, default="", blank=True)
    yunikorn_ca = models.CharField(max_length=500, default="", blank=True)  # "" system CAs, "insecure", or a path
    prometheus_url = models.CharField(max_length=1024, default="", blank=True)
    prometheus_credential = models.CharField(max_length=300, default="", blank=True)  # env:NAME or file:PATH
    prometheus_tenant = models.CharField(max_length=200, default="", blank=True)  # X-Scope-OrgID, or "Header=value"
    prometheus_ca = models.CharField(max_length=500, default="", blank=True)  # "" system CAs, "insecure", or a path
    prometheus_match = models.CharField(max_length=300, default="", blank=True)  # matchers, e.g. cluster="east"
    metrics_source = models.CharField(max_length=8, choices=MetricsSource.choices, default=MetricsSource.AUTO)
    grafana_url = models.CharField(max_length=1024, default="", blank=True)  # {node} {cluster} {from} {to}
    targets_file = models.CharField(max_length=1024, default="", blank=True)  # nodes, exporters, fabric managers
    provisioner = models.CharField(max_length=8, choices=Provisioner.choices, default=Provisioner.NONE, blank=True)
    provision_at = models.CharField(max_length=1024, default="", blank=True)  # Ironic's address; Metal3's kubeconfig
    provision_namespace = models.CharField(max_length=63, default="", blank=True)  # of the BareMetalHosts
    provision_credential = models.CharField(max_length=300, default="", blank=True)  # env:NAME or file:PATH
    provision_ca = models.CharField(max_length=500, default="", blank=True)  # "" system CAs, "insecure", or a path
    selector = models.CharField(max_length=512, default="", blank=True)  # label selector of the managed set
    label_keys = models.JSONField(default=dict, blank=True)  # {"rack": "topology.muster.dev/rack", ...}
    created_at = models.DateTimeField()
    connected_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)
    observer = models.CharField(max_length=128, default="", blank=True)
    observer_until = models.DateTimeField(null=True)
    epoch = models.BigIntegerField(default=0)
    conditions = models.JSONField(
        default=list, blank=True
    )  # [{"code","text","since"}] stated problems of the connection

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pools")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=12, choices=PoolKind.choices, default=PoolKind.BARE_METAL)
    mode = models.CharField(max_length=12, choices=Mode.choices, default=Mode.AUTOMATE)  # effective: the least

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="pool_name")]

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One host as last seen. Facts only; verdicts live in health, states in lifecycle."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, default="", blank=True)
    pool = models.ForeignKey(Pool, null=True, on_delete=models.SET_NULL, related_name="nodes")
    rack = models.CharField(max_length=100, default="", blank=True)
    leaf = models.CharField(max_length=100, default="", blank=True)
    rail = models.CharField(max_length=100, default="", blank=True)
    nvlink_domain = models.CharField(max_length=100, default="", blank=True)
    tenant = models.CharField(max_length=100, default="", blank=True)  # whose capacity it is
    managed = models.BooleanField(default=False)
    unschedulable = models.BooleanField(default=False)
    hold_value = models.CharField(max_length=200, default="", blank=True)  # our annotation as seen in the cluster
    foreign_hold = models.BooleanField(default=False)  # unschedulable, and not (only) by us
    owners = models.JSONField(default=list, blank=True)  # who else works on it or holds it: `owners.Owner.as_json`
    ready = models.BooleanField(null=True)
    ready_reason = models.CharField(max_length=100, default="", blank=True)
    ready_since = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    boot_id = models.CharField(max_length=64, default="", blank=True)
    boot_since = models.DateTimeField(null=True)  # when this boot id was first seen (None: it was there at first sight)
    resource_version = models.CharField(max_length=64, default="", blank=True)
    kernel = models.CharField(max_length=100, default="", blank=True)
    os_image = models.CharField(max_length=200, default="", blank=True)
    kubelet = models.CharField(max_length=64, default="", blank=True)
    gpu_model = models.CharField(max_length=100, default="", blank=True)
    gpu_expected = models.IntegerField(null=True)
    gpu_capacity = models.IntegerField(null=True)
    gpu_allocatable = models.IntegerField(null=True)
    pods = models.IntegerField(default=0)  # workload pods, not finished, no DaemonSets
    gang = models.CharField(max_length=300, default="", blank=True)
    labels = models.JSONField(default=dict)
    first_seen_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_name")]
        indexes = [models.Index(fields=["cluster", "rack"]), models.Index(fields=["cluster", "leaf"])]

    def __str__(self) -> str:
        return self.name


class Alias(models.Model):
    """One name by which the outside knows a node. The same value on two nodes makes it ambiguous: nothing matches."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="aliases")
    kind = models.CharField(max_length=24)  # name, uid, provider_id, system_uuid, ip, hostname, slurm, bmc_uuid, serial
    value = models.CharField(max_length=253)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "kind", "value"], name="alias_once")]
        indexes = [models.Index(fields=["cluster", "value"])]


DRIVER = "driver"
"""The key of `Device.versions` that is no firmware."""


class Device(models.Model):
    """A part with identity. `key` is stable: a GPU's UUID, `mlx5_0/1`, a mount point."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    kind = models.CharField(max_length=16)  # gpu, hca, mount, nvme, psu, dpu
    key = models.CharField(max_length=200)
    index = models.IntegerField(null=True)
    serial = models.CharField(max_length=100, default="", blank=True)
    pci = models.CharField(max_length=32, default="", blank=True)
    model = models.CharField(max_length=100, default="", blank=True)
    versions = models.JSONField(default=dict, db_default={}, blank=True)  # of its driver and firmware, by what it is of
    first_seen_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "kind", "key"], name="device_key")]


class Bmc(models.Model):
    """One management controller of a node. Without a pinned UUID or serial no power call is made.

    `busy_until`/`busy_by` serialise all calls: whoever holds the slot may talk, nobody else before it ends.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="bmcs")
    kind = models.CharField(max_length=8, default="host")  # host, dpu
    address = models.CharField(max_length=500)
    credential_ref = models.CharField(max_length=300, default="", blank=True)  # env:NAME or file:PATH -> user:password
    ca = models.CharField(max_length=500, default="", blank=True)  # "" system CAs, "insecure", or a bundle's path
    pinned_uuid = models.CharField(max_length=64, default="", blank=True)
    pinned_serial = models.CharField(max_length=100, default="", blank=True)
    condition = models.CharField(max_length=32, default="", blank=True)  # reason code of the last failure, "" if well
    condition_text = models.CharField(max_length=500, default="", blank=True)
    condition_since = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    busy_until = models.DateTimeField(null=True)
    busy_by = models.UUIDField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "kind", "address"], name="bmc_address")]
