"""Whose mark it is, what its owner does, and what we do beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.inventory.owners import Owner, Stance, kept, of_requests, on_node
from fleet.lifecycle import owners
from fleet.ports.cluster import RequestSeen
from tests.domain.inventory.seen import a_node_seen

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
WORKING, HOLDING, WAITING, DELETING = Stance.WORKING, Stance.HOLDING, Stance.WAITING, Stance.DELETING


def marks(**fields: Any) -> list[tuple[str, Stance]]:
    return [(owner.name, owner.stance) for owner in on_node(a_node_seen(**fields))]


UPGRADE_AT_WORK = (
    "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required", "uncordon-required",
    "node-maintenance-required", "post-maintenance-required", "pod-restart-required", "validation-required",
    "upgrade-failed", "a-state-of-a-later-version",
)  # fmt: skip


@pytest.mark.parametrize("state", UPGRADE_AT_WORK)
@pytest.mark.parametrize(("short", "name"), [("gpu", "NVIDIA GPU Operator"), ("ofed", "NVIDIA Network Operator")])
def test_every_state_of_a_driver_upgrade_but_the_first_and_the_last_is_work(short: str, name: str, state: str) -> None:
    label = {f"nvidia.com/{short}-driver-upgrade-state": state}
    assert marks(labels=label) == [(name, WORKING)]
    assert marks(labels={**label, f"nvidia.com/{short}-driver-upgrade.skip": "true"}) == []


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}, [("NVIDIA GPU Operator", WAITING)]),
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}, []),
        ({"nvidia.com/gpu-driver-upgrade-state": ""}, []),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}, [("NVIDIA GPU Operator", WORKING)]),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-by-muster"}, []),
        ({"cloud.google.com/active-node-maintenance": "ONGOING"}, [("Google Kubernetes Engine", WORKING)]),
        ({"cloud.google.com/active-node-maintenance": ""}, []),
        ({"dgxc.nvidia.com/nvsentinel-state": "draining"}, [("NVSentinel", WORKING)]),
        ({"dgxc.nvidia.com/nvsentinel-state": "remediating"}, [("NVSentinel", WORKING)]),
        ({"dgxc.nvidia.com/nvsentinel-state": "quarantined"}, [("NVSentinel", HOLDING)]),
        ({"dgxc.nvidia.com/nvsentinel-state": "remediation-succeeded"}, [("NVSentinel", HOLDING)]),
        ({"dgxc.nvidia.com/nvsentinel-state": "remediating", "k8saas.nvidia.com/ManagedByNVSentinel": "false"}, []),
    ],
)  # fmt: skip
def test_labels(labels: dict[str, str], found: list[tuple[str, Stance]]) -> None:
    assert marks(labels=labels) == found


@pytest.mark.parametrize(
    ("taint", "found"),
    [
        (("ToBeDeletedByClusterAutoscaler", "1777890000", "NoSchedule"), [("cluster-autoscaler", DELETING)]),
        (("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"), [("cluster-autoscaler", WAITING)]),
        (("karpenter.sh/disrupted", "", "NoSchedule"), [("Karpenter", DELETING)]),
        (("karpenter.sh/disruption", "disrupting", "NoSchedule"), [("Karpenter", DELETING)]),
        (("karpenter.sh/disruption", "candidate", "NoSchedule"), [("Karpenter", WAITING)]),
        (("node.cluster.x-k8s.io/outdated-revision", "", "PreferNoSchedule"), [("Cluster API", WAITING)]),
        (("medik8s.io/drain", "", "NoSchedule"), [("medik8s", WORKING)]),
        (("medik8s.io/remediation", "self-node-remediation", "NoExecute"), [("medik8s", WORKING)]),
        (("nodewright.nvidia.com", "runtime-required", "NoSchedule"), [("NVIDIA NodeWright", WORKING)]),
        (("aws-node-termination-handler/spot-itn", "x", "NoSchedule"), [("AWS Node Termination Handler", DELETING)]),
        (("aws-node-termination-handler/scheduled-maintenance", "x", "NoSchedule"),
         [("AWS Node Termination Handler", WORKING)]),
        (("aws-node-termination-handler/rebalance-recommendation", "x", "NoSchedule"),
         [("AWS Node Termination Handler", WAITING)]),
        (("cloud.google.com/impending-node-termination", "", "NoSchedule"), [("Google Kubernetes Engine", DELETING)]),
        (("node.kubernetes.io/unschedulable", "", "NoSchedule"), []),
        (("example.com/tenant", "a", "NoSchedule"), []),
    ],
)  # fmt: skip
def test_taints(taint: tuple[str, str, str], found: list[tuple[str, Stance]]) -> None:
    assert marks(taints=(taint,)) == found


CONFIG, MCO = "machineconfiguration.openshift.io", "OpenShift Machine Config Operator"


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ({f"{CONFIG}/currentConfig": "a", f"{CONFIG}/desiredConfig": "a", f"{CONFIG}/state": "Done"}, []),
        ({f"{CONFIG}/currentConfig": "a", f"{CONFIG}/desiredConfig": "b"}, [(MCO, WORKING)]),
        ({f"{CONFIG}/desiredDrain": "drain-b"}, [(MCO, WORKING)]),
        ({f"{CONFIG}/desiredDrain": "uncordon-b"}, []),
        ({"nodewright.nvidia.com/cordon_tuning": "true"}, [("NVIDIA NodeWright", WORKING)]),
        ({"skyhook.nvidia.com/cordon_tuning": "true"}, [("NVIDIA NodeWright", WORKING)]),
        ({"skyhook.nvidia.com/status_tuning": "in_progress"}, [("NVIDIA NodeWright", WORKING)]),
        ({"skyhook.nvidia.com/status_tuning": "erroring"}, [("NVIDIA NodeWright", WORKING)]),
        ({"skyhook.nvidia.com/status_tuning": "complete", "skyhook.nvidia.com/nodeState_tuning": "{}"}, []),
        ({"example.com/cordon_tuning": "true"}, []),
    ],
)  # fmt: skip
def test_annotations_of_those_that_change_hosts(notes: dict[str, str], found: list[tuple[str, Stance]]) -> None:
    assert marks(annotations=notes) == found


def test_a_cordon_that_stays_after_a_change_of_the_host_is_a_hold() -> None:
    notes = {"nodewright.nvidia.com/runtimeRequiredCordon": "true"}
    assert marks(annotations=notes, unschedulable=True) == [("NVIDIA NodeWright", HOLDING)]
    assert marks(annotations=notes) == []


EVENT = {"quarantineHealthEvent": '[{"checkName":"GpuXidError"}]'}


@pytest.mark.parametrize("empty", ["", "[]", " [] ", "{}", "null"])
def test_what_a_quarantine_left_behind_holds_nothing(empty: str) -> None:
    """Elsewhere an emptied annotation, or the label of a failure, stayed on nodes that were long in service."""
    assert marks(annotations={"quarantineHealthEvent": empty}, unschedulable=True) == []
    assert marks(annotations=EVENT, unschedulable=True) == [("NVSentinel", HOLDING)]
    for state in ("drain-failed", "remediation-failed"):
        label = {"dgxc.nvidia.com/nvsentinel-state": state}
        assert marks(labels=label, annotations={"quarantineHealthEvent": empty}, unschedulable=True) == [
            ("NVSentinel", WAITING)
        ]
        assert marks(labels=label, annotations=EVENT) == [("NVSentinel", HOLDING)]
        by = {**label, "k8saas.nvidia.com/cordon-by": "NVSentinel"}
        assert HOLDING in {stance for _, stance in marks(labels=by, unschedulable=True)}


def test_annotations_and_a_deletion() -> None:
    begun = on_node(a_node_seen(annotations={"weave.works/kured-reboot-in-progress": "2026-05-04T11:00:00Z"}))
    assert [(o.name, o.stance, o.since) for o in begun] == [("kured", WORKING, "2026-05-04T11:00:00+00:00")]
    assert marks(annotations={"weave.works/kured-most-recent-reboot-needed": "2026-05-04T11:00:00Z"}) == []
    assert marks(annotations={"reboot.metal3.io/mhc": ""}) == [("Metal3", WORKING)]
    assert marks(deleting=True) == [("The API server", DELETING)]
    reason = {"nodeset.slinky.slurm.net/node-cordon-reason": "fan"}
    assert marks(annotations=reason) == []
    assert marks(annotations=reason, unschedulable=True) == [("Slurm (Slinky)", HOLDING)]
    ours = {"nodeset.slinky.slurm.net/node-cordon-reason": "Muster hold 17/op: Xid 79"}
    assert marks(annotations=ours, unschedulable=True) == []
    slurm = {"muster.dev/slurm-out": "DRAIN by kim: fan", "muster.dev/slurm-work": "REBOOT_ISSUED"}
    assert marks(annotations=slurm, unschedulable=True) == [("Slurm", WORKING), ("Slurm", HOLDING)]


def test_the_autoscaler_and_nvsentinel_tell_since_when() -> None:
    by = on_node(a_node_seen(taints=(("ToBeDeletedByClusterAutoscaler", "1777890000", "NoSchedule"),)))
    assert by[0].since == datetime.fromtimestamp(1777890000, UTC).isoformat()
    labels = {
        "dgxc.nvidia.com/nvsentinel-state": "quarantined",
        "k8saas.nvidia.com/cordon-timestamp": "2026-05-04T10-30-00Z",
    }
    assert on_node(a_node_seen(labels=labels))[0].since == "2026-05-04T10:30:00+00:00"
    odd = {**labels, "k8saas.nvidia.com/cordon-timestamp": "yesterday"}
    assert on_node(a_node_seen(labels=odd))[0].since == ""


def test_who_does_not_tell_since_when_is_kept_since_we_saw_it_first() -> None:
    upgrading = on_node(a_node_seen(labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"}))
    first = kept(upgrading, False, (), NOW)
    assert first[0]["since"] == NOW.isoformat()
    assert kept(upgrading, False, first, NOW + timedelta(hours=1)) == first


def test_a_cordon_without_a_mark_is_a_persons() -> None:
    assert [row["name"] for row in kept((), True, (), NOW)] == ["A person"]
    quarantined = on_node(a_node_seen(labels={"dgxc.nvidia.com/nvsentinel-state": "quarantined"}))
    assert [row["name"] for row in kept(quarantined, True, (), NOW)] == ["NVSentinel"]
    assert kept((), False, (), NOW) == []


def asked(group: str, kind: str, state: str = "", finished: bool = False, age: float = 60) -> list[Owner]:
    since = NOW - timedelta(seconds=age)
    return list(of_requests([RequestSeen(group, kind, "r", state, finished, since)], NOW))


def test_requests_of_other_controllers() -> None:
    janitor = "janitor.dgxc.nvidia.com"
    assert [o.stance for o in asked(janitor, "RebootNode")] == [WORKING]
    assert asked(janitor, "RebootNode", finished=True) == []
    assert asked(janitor, "RebootNode", age=3700) == []  # its signal was lost: it would never end
    assert [o.stance for o in asked(janitor, "TerminateNode")] == [DELETING]
    deletion = asked("machine-deletion-remediation.medik8s.io", "MachineDeletionRemediation")
    assert [(o.name, o.stance) for o in deletion] == [("medik8s", DELETING)]
    assert [o.stance for o in asked("maintenance.nvidia.com", "NodeMaintenance", "Scheduled")] == [WAITING]
    assert [o.stance for o in asked("maintenance.nvidia.com", "NodeMaintenance", "Draining")] == [WORKING]
    kept_up = asked("nodemaintenance.medik8s.io", "NodeMaintenance", "Succeeded", age=1e6)
    assert [(o.name, o.stance) for o in kept_up] == [("medik8s", WORKING)]


def test_whoever_is_at_work_is_named_and_waited_for() -> None:
    found = on_node(
        a_node_seen(
            labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"},
            taints=(("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),),
        )
    )
    first = owners.in_the_way(found)
    assert first is not None
    assert owners.waiting_for(first).startswith("NVIDIA GPU Operator upgrades its driver (drain-required). Muster ")
    assert [o.name for o in owners.keepers(found)] == ["NVIDIA GPU Operator"]
    assert owners.departing(found, {}) == ""


def test_a_node_that_is_deleted_or_opted_out_is_no_longer_ours() -> None:
    deleted = on_node(a_node_seen(taints=(("karpenter.sh/disrupted", "", "NoSchedule"),)))
    assert "Karpenter deletes it" in owners.departing(deleted, {})
    assert "muster.dev/managed=false" in owners.departing((), {"muster.dev/managed": "false"})


def test_a_stance_of_a_later_version_binds_as_work() -> None:
    assert Owner.of({"name": "x", "doing": "y", "stance": "pondering"}).stance == WORKING


def test_an_owner_survives_its_row() -> None:
    owner = Owner("kured", "reboots it", WORKING, "weave.works/kured-reboot-in-progress", NOW.isoformat())
    assert owners.of_row([owner.as_json()]) == (owner,)
