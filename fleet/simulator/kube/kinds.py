"""Which kinds the simulated API server serves, and how it announces them.

It decides the paths, verbs and discovery documents. It refuses kinds that no controller here gives a meaning to.
"""

from typing import Any, NamedTuple

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ = ("get", "list", "watch")


class Kind(NamedTuple):
    """One served resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL
    subresources: tuple[str, ...] = ("status",)
    short: tuple[str, ...] = ()
    stored: bool = True
    beats: bool = False  # its body may hold a heartbeat placeholder

    @property
    def id(self) -> str:
        return self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def prefix(self) -> bytes:
        """How the JSON of a whole object begins; a list leaves these two fields out of its items."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


KINDS = (
    Kind("", "v1", "nodes", "Node", namespaced=False, short=("no",), beats=True),
    Kind("", "v1", "pods", "Pod", subresources=("status", "eviction", "log"), short=("po",)),
    Kind("", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",)),
    Kind("", "v1", "events", "Event", subresources=(), short=("ev",)),
    Kind("", "v1", "configmaps", "ConfigMap", subresources=(), short=("cm",)),
    Kind("apps", "v1", "daemonsets", "DaemonSet", verbs=READ, short=("ds",)),
    Kind("apps", "v1", "deployments", "Deployment", verbs=READ, short=("deploy",)),
    Kind("apps", "v1", "replicasets", "ReplicaSet", verbs=READ, short=("rs",)),
    Kind("batch", "v1", "jobs", "Job"),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",)),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", subresources=(), beats=True),
    Kind("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost", short=("bmh",)),
    Kind("ray.io", "v1", "rayclusters", "RayCluster"),
    Kind("ray.io", "v1", "rayjobs", "RayJob"),
    Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Kind("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    Kind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", short=("pg",)),
    Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", short=("wl",)),
    Kind("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False, short=("cq",)),
    Kind("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", short=("lq",)),
    Kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs=("create",),
        subresources=(),
        stored=False,
    ),
)

BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
GROUPS = tuple(dict.fromkeys((kind.group, kind.version) for kind in KINDS))

VERSION = {
    "major": "1",
    "minor": "33",
    "gitVersion": "v1.33.4",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2025-08-13T14:53:51Z",
    "goVersion": "go1.24.5",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def _resources(group: str, version: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind in KINDS:
        if (kind.group, kind.version) != (group, version):
            continue
        entry: dict[str, Any] = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short:
            entry["shortNames"] = list(kind.short)
        found.append(entry)
        found.extend(_subresource(kind, sub) for sub in kind.subresources)
    return found


def _subresource(kind: Kind, sub: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{kind.plural}/{sub}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
    if sub == "eviction":
        entry |= {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
    elif sub == "log":
        entry["verbs"] = ["get"]
    return entry


def discovery(path: str, address: str) -> dict[str, Any] | None:
    """The document at one of the discovery paths, or None when there is none."""
    if path == "/version":
        return dict(VERSION)
    if path == "/api":
        by_client = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": by_client}
    if path == "/apis":
        groups = [_group(group, version) for group, version in GROUPS if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    parts = path.strip("/").split("/")
    if parts[0] == "apis" and len(parts) == 2:
        found = [version for group, version in GROUPS if group == parts[1]]
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], found[0])} if found else None
    group = "" if parts[0] == "api" and len(parts) == 2 else parts[1] if len(parts) == 3 else None
    if group is None or (group, parts[-1]) not in GROUPS or parts[0] not in ("api", "apis"):
        return None
    group_version = f"{group}/{parts[-1]}" if group else parts[-1]
    resources = _resources(group, parts[-1])
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _group(group: str, version: str) -> dict[str, Any]:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}
