"""Who else works on a node, by the marks that they leave on it.

Decides for each mark whose it is, what its owner does, since when (where the mark tells) and how that binds us. Refuses
to guess: a state of a known owner that we have never heard of counts as work under way, and a mark of an unknown owner
as nothing. A cordon without any mark is a person's (`facts`). Pure: no database.

Sources of the names: NVSentinel's fault-quarantine and statemanager, NVIDIA's k8s-operator-libs (driver upgrades of the
GPU and the network operator), kured's --annotate-nodes, the taints of cluster-autoscaler, Karpenter, Cluster API and of
medik8s' operators, Slinky's node annotation, NodeWright's and the Machine Config Operator's annotations, the taints and
labels by which AWS' termination handler and Google's engine tell of maintenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from fleet.ports.cluster import SLINKY_OURS, SLINKY_REASON, SLURM_OUT, SLURM_WORK, NodeSeen, RequestSeen


class Stance(StrEnum):
    """How an owner binds us, the strictest first."""

    DELETING = "deleting"  # the node goes: our workflow ends
    WORKING = "working"  # nothing of ours begins before it has ended
    HOLDING = "holding"  # keeps it from new work: we may join, and leave the cordon that is not ours
    WAITING = "waiting"  # would like to begin: told, and no reason to wait


@dataclass(frozen=True, slots=True)
class Owner:
    """`doing` completes the sentence that `name` begins; `mark` is what it was read from; `since` ISO 8601 or ""."""

    name: str
    doing: str
    stance: Stance
    mark: str
    since: str = ""

    @property
    def keeps(self) -> bool:
        """Is the node kept from new work as long as this owner stays?"""
        return self.stance != Stance.WAITING

    def as_json(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of(cls, stored: Mapping[str, str]) -> Owner:
        """From a row. A stance that this version does not know binds as work under way."""
        stance = stored.get("stance", "")
        known = Stance(stance) if stance in list(Stance) else Stance.WORKING
        told = [str(stored.get(name, "")) for name in ("name", "doing", "mark", "since")]
        return cls(told[0], told[1], known, told[2], told[3])


PERSON = "A person"
NVSENTINEL, GPU_OPERATOR, NETWORK_OPERATOR = "NVSentinel", "NVIDIA GPU Operator", "NVIDIA Network Operator"
MAINTENANCE, KURED, METAL3, SLINKY = "NVIDIA maintenance-operator", "kured", "Metal3", "Slurm (Slinky)"
SLURM = "Slurm"
NODEWRIGHT, OPENSHIFT = "NVIDIA NodeWright", "OpenShift Machine Config Operator"
AWS, GKE = "AWS Node Termination Handler", "Google Kubernetes Engine"
AUTOSCALER, KARPENTER, CAPI = "cluster-autoscaler", "Karpenter", "Cluster API"

NVSENTINEL_STATE = "dgxc.nvidia.com/nvsentinel-state"
NVSENTINEL_OUT = ("k8saas.nvidia.com/ManagedByNVSentinel", "nvsentinel.dgxc.nvidia.com/managed")
NVSENTINEL_RESTS = {
    "quarantined": "has quarantined it",
    "drain-failed": "could not drain it",
    "remediation-succeeded": "has asked for its remediation",  # whether that still runs, its request tells
    "remediation-failed": "could not remediate it",
}
NVSENTINEL_EVENT, NVSENTINEL_CORDON = "quarantineHealthEvent", "k8saas.nvidia.com/cordon-by"
NVSENTINEL_LEAVINGS = ("drain-failed", "remediation-failed")
"""States whose label may stay behind on a node that is quarantined no more."""
UPGRADES = (("gpu", GPU_OPERATOR), ("ofed", NETWORK_OPERATOR))
UPGRADE_RESTS = {"", "upgrade-done"}
MACHINE_CONFIG = ("currentConfig", "desiredConfig", "desiredDrain", "state")
PAUSED_FOR_UPGRADE = "paused-for-driver-upgrade"
PREFIXES = ("maintenance.nvidia.com/", "reboot.metal3.io", SLINKY_REASON)

TAINTS: dict[str, tuple[str, str, Stance]] = {
    "ToBeDeletedByClusterAutoscaler": (AUTOSCALER, "deletes it", Stance.DELETING),
    "DeletionCandidateOfClusterAutoscaler": (AUTOSCALER, "may delete it soon", Stance.WAITING),
    "karpenter.sh/disrupted": (KARPENTER, "deletes it", Stance.DELETING),
    "karpenter.sh/unregistered": (KARPENTER, "brings it up", Stance.WORKING),
    "node.cluster.x-k8s.io/uninitialized": (CAPI, "brings it up", Stance.WORKING),
    "node.cluster.x-k8s.io/outdated-revision": (CAPI, "will replace it: its revision is outdated", Stance.WAITING),
    "nvsentinel.nvidia.com/external-remediation": (NVSENTINEL, "has given it to an outside repair", Stance.HOLDING),
    "medik8s.io/drain": ("medik8s", "keeps it in maintenance", Stance.WORKING),
    "weave.works/kured-node-reboot": (KURED, "will reboot it", Stance.WAITING),
    "skyhook.nvidia.com": (NODEWRIGHT, "brings it up", Stance.WORKING),
    "nodewright.nvidia.com": (NODEWRIGHT, "brings it up", Stance.WORKING),
    "aws-node-termination-handler/spot-itn": (AWS, "tells that it is taken away", Stance.DELETING),
    "aws-node-termination-handler/asg-lifecycle-termination": (AWS, "tells that it is taken away", Stance.DELETING),
    "aws-node-termination-handler/scheduled-maintenance": (AWS, "tells of maintenance of it", Stance.WORKING),
    "aws-node-termination-handler/rebalance-recommendation": (AWS, "tells that it may be taken away", Stance.WAITING),
    "cloud.google.com/impending-node-termination": (GKE, "takes it away", Stance.DELETING),
}  # fmt: skip


UNMARKED = Owner(PERSON, "has cordoned it and left no mark", Stance.HOLDING, "spec.unschedulable")


def on_node(seen: NodeSeen) -> tuple[Owner, ...]:
    """Everybody whose mark stands on the node, the strictest first; one line for each owner and stance."""
    found = [
        *_nvsentinel(seen), *_upgrades(seen), *_taints(seen.taints), *_kured(seen.annotations), *_prefixed(seen),
        *_nodewright(seen), *_machine_config(seen.annotations), *_engine(seen.labels), *_slurm(seen.annotations),
    ]  # fmt: skip
    if seen.deleting and not any(owner.stance == Stance.DELETING for owner in found):
        found.append(Owner("The API server", "deletes its Node object", Stance.DELETING, "deletionTimestamp"))
    return _sorted(found)


def kept(
    marks: Sequence[Owner], foreign: bool, before: Iterable[Mapping[str, str]], now: datetime
) -> list[dict[str, str]]:
    """The owners as a row keeps them. A cordon that no mark explains is a person's; whoever does not tell since when
    has been there since we first saw it."""
    unmarked = foreign and not any(owner.keeps for owner in marks)
    seen = [*marks, UNMARKED] if unmarked else marks
    since = {(old.name, old.mark): old.since for old in map(Owner.of, before)}
    first = now.isoformat(timespec="seconds")
    return [{**owner.as_json(), "since": owner.since or since.get((owner.name, owner.mark)) or first} for owner in seen]


def _sorted(found: Iterable[Owner]) -> tuple[Owner, ...]:
    order = list(Stance)
    unique = {(owner.name, owner.stance): owner for owner in reversed(list(found))}
    return tuple(sorted(unique.values(), key=lambda owner: (order.index(owner.stance), owner.name)))


def _nvsentinel(seen: NodeSeen) -> Iterator[Owner]:
    labels = seen.labels
    state = labels.get(NVSENTINEL_STATE, "")
    since = _time(labels.get("k8saas.nvidia.com/cordon-timestamp", ""))
    out = any(labels.get(key, "").lower() == "false" for key in NVSENTINEL_OUT)
    events = seen.annotations.get(NVSENTINEL_EVENT, "").strip() not in ("", "[]", "{}", "null")
    if state in NVSENTINEL_LEAVINGS and not events and NVSENTINEL_CORDON not in labels and not out:
        doing = f"{NVSENTINEL_RESTS[state]}, and quarantines it no more"
        yield Owner(NVSENTINEL, doing, Stance.WAITING, f"{NVSENTINEL_STATE}={state}", since)
    elif state and state not in NVSENTINEL_RESTS and not out:
        yield Owner(NVSENTINEL, f"is {state}", Stance.WORKING, f"{NVSENTINEL_STATE}={state}", since)
    elif state in NVSENTINEL_RESTS and not out:
        yield Owner(NVSENTINEL, NVSENTINEL_RESTS[state], Stance.HOLDING, f"{NVSENTINEL_STATE}={state}", since)
    elif seen.unschedulable and events:
        yield Owner(NVSENTINEL, "has quarantined it", Stance.HOLDING, NVSENTINEL_EVENT, since)
    by = labels.get(NVSENTINEL_CORDON, "")
    if seen.unschedulable and by and "k8saas.nvidia.com/uncordon-by" not in labels and not state:
        why = labels.get("k8saas.nvidia.com/cordon-reason", "")
        doing = f"has cordoned it{f' ({why})' if why else ''}"
        yield Owner(NVSENTINEL if "quarantine" in by else by, doing, Stance.HOLDING, NVSENTINEL_CORDON, since)


def _upgrades(seen: NodeSeen) -> Iterator[Owner]:
    """Driver upgrades. What the operator was told to skip it leaves alone, whatever its label still says."""
    for short, name in UPGRADES:
        key = f"nvidia.com/{short}-driver-upgrade-state"
        state = seen.labels.get(key, "")
        if seen.labels.get(f"nvidia.com/{short}-driver-upgrade.skip") == "true" or state in UPGRADE_RESTS:
            pass
        elif state == "upgrade-required":
            yield Owner(name, "wants to upgrade its driver", Stance.WAITING, f"{key}={state}")
        elif state == "upgrade-failed":
            yield Owner(name, "has failed to upgrade its driver", Stance.WORKING, f"{key}={state}")
        else:
            yield Owner(name, f"upgrades its driver ({state})", Stance.WORKING, f"{key}={state}")
        load = f"nvidia.com/{short}-driver-upgrade.driver-wait-for-safe-load"
        if seen.annotations.get(load):
            yield Owner(name, "waits to load its driver", Stance.WORKING, load)
    paused = min((key for key, value in seen.labels.items() if value == PAUSED_FOR_UPGRADE), default="")
    if paused.startswith("nvidia.com/gpu.deploy."):
        yield Owner(GPU_OPERATOR, "unloads its driver", Stance.WORKING, f"{paused}={PAUSED_FOR_UPGRADE}")


def _taints(taints: Sequence[tuple[str, str, str]]) -> Iterator[Owner]:
    for key, value, _effect in taints:
        if key in TAINTS:
            name, doing, stance = TAINTS[key]
            yield Owner(name, doing, stance, key, _unix(value))
        elif key == "karpenter.sh/disruption":  # before Karpenter 1.0
            told = ("may delete it soon", Stance.WAITING) if value == "candidate" else ("deletes it", Stance.DELETING)
            yield Owner(KARPENTER, *told, f"{key}={value}")
        elif key.split("/")[0].endswith("medik8s.io"):
            yield Owner("medik8s", f"remediates it ({value or key.split('/')[-1]})", Stance.WORKING, key)


def _kured(annotations: Mapping[str, str]) -> Iterator[Owner]:
    for short, doing in (("reboot-in-progress", "reboots it"), ("node-lock", "has locked it for a reboot")):
        key = f"weave.works/kured-{short}"
        if key in annotations:
            yield Owner(KURED, doing, Stance.WORKING, key, _time(annotations[key]))


def _prefixed(seen: NodeSeen) -> Iterator[Owner]:
    """Owners known by the prefix of their keys."""
    for key in sorted(key for key in (*seen.labels, *seen.annotations) if key.startswith(PREFIXES)):
        if key.startswith("maintenance.nvidia.com/"):
            yield Owner(MAINTENANCE, "has the node in maintenance", Stance.WORKING, key)
        elif key == "reboot.metal3.io" or key.startswith("reboot.metal3.io/"):
            yield Owner(METAL3, "reboots it or keeps it off", Stance.WORKING, key)
        elif key == SLINKY_REASON and seen.unschedulable:
            reason = seen.annotations.get(key, "")
            if reason.startswith(SLINKY_OURS):
                continue
            yield Owner(SLINKY, f"drains it ({reason})" if reason else "drains it", Stance.HOLDING, key)


def _nodewright(seen: NodeSeen) -> Iterator[Owner]:
    """Its cordons carry the name of whoever asked for them, and so do its states, as annotation and label."""
    for key, value in sorted({**seen.labels, **seen.annotations}.items()):
        group, _, mark = key.partition("/")
        if group not in ("skyhook.nvidia.com", "nodewright.nvidia.com"):
            continue
        if mark.startswith("cordon_"):
            yield Owner(NODEWRIGHT, f"interrupts it ({mark.removeprefix('cordon_')})", Stance.WORKING, key)
        elif mark.startswith("status_") and value in ("in_progress", "erroring"):
            yield Owner(NODEWRIGHT, f"changes it ({mark.removeprefix('status_')}: {value})", Stance.WORKING, key)
        elif mark == "runtimeRequiredCordon" and seen.unschedulable:
            yield Owner(NODEWRIGHT, "keeps it cordoned", Stance.HOLDING, key)


def _machine_config(annotations: Mapping[str, str]) -> Iterator[Owner]:
    """It drains and reboots a node to bring it from one configuration to the next."""
    told = {key: annotations.get(f"machineconfiguration.openshift.io/{key}", "") for key in MACHINE_CONFIG}
    now, wanted, drain, state = told.values()
    if (wanted and now != wanted) or drain.startswith("drain-"):
        doing = f"changes its configuration{f' ({state})' if state else ''}"
        yield Owner(OPENSHIFT, doing, Stance.WORKING, "machineconfiguration.openshift.io/desiredConfig")


def _engine(labels: Mapping[str, str]) -> Iterator[Owner]:
    key = "cloud.google.com/active-node-maintenance"
    if labels.get(key, "").upper() == "ONGOING":
        yield Owner(GKE, "maintains its host", Stance.WORKING, key)


def _slurm(annotations: Mapping[str, str]) -> Iterator[Owner]:
    """What a node of Slurm's own tells: only its reader writes these, and only of what is not ours."""
    if SLURM_WORK in annotations:
        yield Owner(SLURM, f"reboots it ({annotations[SLURM_WORK]})", Stance.WORKING, SLURM_WORK)
    if SLURM_OUT in annotations:
        yield Owner(SLURM, f"keeps it from work ({annotations[SLURM_OUT]})", Stance.HOLDING, SLURM_OUT)


REQUESTERS = {
    "janitor.dgxc.nvidia.com": NVSENTINEL,
    "nvsentinel.dgxc.nvidia.com": NVSENTINEL,
    "maintenance.nvidia.com": MAINTENANCE,
    "slurm": SLURM,  # beside Kubernetes, on a host that it may give work to
}
GIVEN_UP = timedelta(hours=1)
"""NVSentinel's janitor ends each request within 25 minutes; one whose signal failed for good may say so never."""
NOT_BEGUN = ("", "Pending", "Scheduled")
"""Reasons of a maintenance request's condition Ready before its node is cordoned."""


def of_requests(requests: Iterable[RequestSeen], now: datetime) -> tuple[Owner, ...]:
    """Whoever has asked for work on the node by an object of their own that is not over yet."""
    return _sorted(owner for request in requests if (owner := _requester(request, now)) is not None)


def _requester(request: RequestSeen, now: datetime) -> Owner | None:
    group = request.group
    given_up = group == "janitor.dgxc.nvidia.com" and request.since is not None and now - request.since > GIVEN_UP
    if request.finished or given_up:
        return None
    name = REQUESTERS.get(group) or ("medik8s" if group.endswith("medik8s.io") else group)
    since = request.since.isoformat() if request.since else ""
    mark = f"{request.kind} {request.name}"
    if group == "maintenance.nvidia.com" and request.state in NOT_BEGUN:
        return Owner(name, f"has {mark} scheduled", Stance.WAITING, mark, since)
    if request.kind in ("TerminateNode", "MachineDeletionRemediation"):
        return Owner(name, f"terminates it by {mark}", Stance.DELETING, mark, since)
    told = f" ({request.state})" if request.state else ""
    return Owner(name, f"works on it by {mark}{told}", Stance.WORKING, mark, since)


def _time(text: str) -> str:
    """RFC 3339, or NVSentinel's form of it that a label's value allows; "" for anything else."""
    for form in ("%Y-%m-%dT%H-%M-%SZ", "%Y-%m-%dT%H:%M:%SZ"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return ""


def _unix(text: str) -> str:
    """The autoscaler's taints carry seconds since 1970."""
    if not text.isdecimal() or len(text) > 11:
        return ""
    return datetime.fromtimestamp(int(text), UTC).isoformat()
