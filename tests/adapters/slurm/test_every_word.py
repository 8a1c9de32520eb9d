"""Every state and flag of a node, every state of a job and every reason that Slurm knows (22.05 to 26.05)."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.slurm import jobs, nodes, seen, work
from fleet.adapters.slurm.values import gpus, hosts
from fleet.inventory import owners
from tests.builders import T0

BOOTED = {"set": True, "infinite": False, "number": 1_790_000_000}


def a_node(*state: str, **more: Any) -> dict[str, Any]:
    return {"name": "gpu-01", "state": list(state), "gres": "gpu:h100:8", "boot_time": BOOTED, **more}


SERVES, SOMEBODY_S, NOBODY_S = "serves", "somebody's", "nobody's"
"""Takes work; is kept from it by somebody; takes none, and nobody wants that."""
NODES = [
    # states, what it is, ready, does Slurm place there
    (["IDLE"], SERVES, True, True),
    (["ALLOCATED"], SERVES, True, True),
    (["MIXED"], SERVES, True, True),
    (["IDLE", "PLANNED"], SERVES, True, True),
    (["IDLE", "RESERVED"], SERVES, True, True),
    (["IDLE", "CLOUD"], SERVES, True, True),
    (["IDLE", "DYNAMIC_NORM"], SERVES, True, True),
    (["IDLE", "COMPLETING"], SERVES, True, True),
    (["IDLE", "REBOOT_CANCELED"], SERVES, True, True),
    (["IDLE", "NOT_RESPONDING"], SERVES, True, True),  # as each is right after a resume
    (["MIXED", "NOT_RESPONDING"], NOBODY_S, True, False),
    (["IDLE", "EXTERNAL"], SERVES, True, True),
    (["IDLE", "DRAIN"], SOMEBODY_S, True, False),
    (["ALLOCATED", "DRAIN"], SOMEBODY_S, True, False),
    (["IDLE", "MAINTENANCE", "RESERVED"], SOMEBODY_S, True, False),
    (["DOWN"], SOMEBODY_S, True, False),
    (["IDLE", "FAIL"], SOMEBODY_S, True, False),
    (["FUTURE"], SOMEBODY_S, None, False),
    (["IDLE", "REBOOT_REQUESTED"], SOMEBODY_S, True, False),
    (["DOWN", "DRAIN", "REBOOT_ISSUED"], SOMEBODY_S, False, False),
    (["IDLE", "BLOCKED"], NOBODY_S, True, False),
    (["IDLE", "INVALID_REG"], NOBODY_S, False, False),
    (["DOWN", "NOT_RESPONDING"], NOBODY_S, False, False),
    (["IDLE", "CLOUD", "POWERED_DOWN"], NOBODY_S, None, False),
    (["ALLOCATED", "CLOUD", "POWERING_UP"], NOBODY_S, None, False),
    (["IDLE", "CLOUD", "POWERING_DOWN"], NOBODY_S, None, False),
    (["DOWN", "CLOUD", "POWERED_DOWN", "NOT_RESPONDING"], NOBODY_S, None, False),
    (["UNKNOWN"], NOBODY_S, None, False),
    ([], NOBODY_S, None, False),
]


@pytest.mark.parametrize(("state", "what", "ready", "places"), NODES)
def test_every_state_of_a_node(state: list[str], what: str, ready: bool | None, places: bool) -> None:
    node = seen.node(a_node(*state), T0)
    assert (node.unschedulable, node.ready) == (what == SOMEBODY_S, ready)
    assert bool(owners.on_node(node)) is (what == SOMEBODY_S)
    out = nodes.offer(a_node(*state), {}).out
    assert bool(out) is not places and all(word in out for word in state if not places)


@pytest.mark.parametrize(
    ("reason", "own"),
    [
        ("Not responding", True),
        ("Node unexpectedly rebooted", True),
        ("ResumeTimeout reached", True),
        ("reboot timed out", True),
        ("new firmware : reboot timed out", True),
        ("Muster hold 17/ab by muster-1: Xid 79", True),  # a resume has left it, and slurmctld leaves it too
        ("kim: dimm B3", False),
        ("see why: Not responding to pings", False),
        ("", False),
    ],
)
def test_whose_word_it_is_that_a_node_is_down(reason: str, own: bool) -> None:
    """One that never came back from a reboot is not there, and nobody keeps it from work."""
    node = seen.node(a_node("DOWN", reason=reason), T0)
    assert (node.ready is False, node.unschedulable) == (own, not own)


@pytest.mark.parametrize(
    "behind", ["", " : reboot requested", " : reboot issued : reboot complete", " : reboot timed out"]
)
def test_our_mark_is_read_whatever_slurm_puts_behind_it(behind: str) -> None:
    node = seen.node(a_node("DOWN", "DRAIN", reason=f"Muster hold 17/ab by muster-1: Xid 79{behind}"), T0)
    assert node.annotations == {seen.HOLD_ANNOTATION: "17/ab"}


JOBS = [
    (["PENDING"], "waits"), (["PENDING", "REQUEUED"], "waits"), ("REQUEUED", "waits"), ("REQUEUE_HOLD", "waits"),
    ("SPECIAL_EXIT", "waits"), ("RESV_DEL_HOLD", "waits"), (["PENDING", "COMPLETING", "REQUEUED"], "ends and waits"),
    (["RUNNING"], "runs"), (["RUNNING", "CONFIGURING"], "runs"), ("CONFIGURING", "runs"), ("RESIZING", "runs"),
    ("STOPPED", "runs"), (["RUNNING", "POWER_UP_NODE"], "runs"), (["SUSPENDED"], "runs"), ("STAGE_OUT", "runs"),
    (["RUNNING", "SIGNALING"], "runs"), (["COMPLETED", "COMPLETING"], "runs"), (["NODE_FAIL", "COMPLETING"], "runs"),
    (["RUNNING", "EXPEDITING"], "runs"),
    (["COMPLETED"], "over"), (["FAILED"], "over"), (["TIMEOUT"], "over"), (["CANCELLED"], "over"),
    (["NODE_FAIL"], "over"), (["PREEMPTED"], "over"), (["BOOT_FAIL"], "over"), (["DEADLINE"], "over"),
    (["OUT_OF_MEMORY"], "over"), (["REVOKED"], "over"), ([], "over"), (None, "over"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "what"), JOBS)
def test_every_state_of_a_job(state: Any, what: str) -> None:
    raw = {"job_id": 7, "job_state": state, "partition": "train", "nodes": "gpu-[01-02]", "tres_per_node": "gres/gpu:8"}
    assert (work.waiting(raw) is not None) is ("waits" in what)
    assert len(work.running(raw)) == len(jobs.members(raw)) == (0 if what in ("waits", "over") else 2)
    assert jobs.is_open(raw) is (what != "over") and work.ends(raw) is ("COMPLETING" in (state or ()))


REASONS = """
Prolog Priority Dependency Resources PartitionNodeLimit PartitionTimeLimit PartitionDown PartitionInactive JobHeldAdmin
JobHeldUser BeginTime Licenses AssociationJobLimit AssociationResourceLimit AssociationTimeLimit Reservation
ReqNodeNotAvail FrontEndDown SchedDefer NodeDown BadConstraints SystemFailure JobLaunchFailure InvalidAccount InvalidQOS
QOSUsageThreshold QOSJobLimit QOSResourceLimit QOSTimeLimit Cleaning QOSNotAllowed AccountNotAllowed
DependencyNeverSatisfied QOSMinCpuNotSatisfied JobHoldMaxRequeue JobArrayTaskLimit BurstBufferResources
BurstBufferStageIn BurstBufferOperation PowerNotAvail PowerReserved DeadLine PartitionConfig AccountingPolicy FedJobLock
MaxMemPerLimit ReservationDeleted ReservationInvalid Constraints MaxPoweredUpNodes MpiPortsBusy
"""
COUNTED = (
    "CPU",
    "Mem",
    "Memory",
    "Node",
    "Energy",
    "GRES",
    "License",
    "BB",
    "Billing",
    "Unknown",
    "Jobs",
    "SubmitJobs",
)


@pytest.mark.parametrize("reason", REASONS.split())
def test_every_reason_of_a_wait_is_known(reason: str) -> None:
    assert jobs.meaning(reason, "") != "UNKNOWN"


@pytest.mark.parametrize("what", COUNTED)
def test_every_limit_is_known(what: str) -> None:
    for whose in ("Assoc", "QOS"):
        for form in ("Grp{}", "Grp{}Limit", "Grp{}Minutes", "Grp{}RunMinutes", "Max{}PerUser", "Max{}PerUserLimit"):
            assert jobs.meaning(whose + form.format(what), "") == "QUOTA", form
        for form in ("Max{}PerJob", "Max{}PerJobLimit", "Max{}PerNode", "Max{}MinutesPerJob"):
            assert jobs.meaning(whose + form.format(what), "") == "EXCEEDS_MAX", form
    assert jobs.meaning(f"QOSMin{what}", "") == "EXCEEDS_MAX"
    assert jobs.meaning(f"Max{what}PerAccount", "") == "QUOTA"


@pytest.mark.parametrize("reason", ["NonZeroExitCode", "RaisedSignal", "TimeLimit", "InactiveLimit", "OutOfMemory"])
def test_why_the_run_before_ended_says_nothing_of_this_wait(reason: str) -> None:
    raw = {"job_id": 7, "job_state": ["PENDING", "REQUEUED"], "partition": "train", "state_reason": reason}
    assert jobs.gang(raw).said == ()


@pytest.mark.parametrize("reason", ["WordOfTomorrow", "InvaildReason", "한글"])
def test_a_reason_that_nobody_knows_is_told_as_slurm_tells_it(reason: str) -> None:
    raw = {"job_id": 7, "job_state": ["PENDING"], "partition": "train", "state_reason": reason}
    (said,) = jobs.gang(raw).said
    assert (said.code, said.text, said.source) == ("UNKNOWN", reason, f"Slurm state_reason {reason}")


@pytest.mark.parametrize(
    ("reason", "described", "code"),
    [
        ("ReqNodeNotAvail", "ReqNodeNotAvail, Reserved for maintenance", "ADMISSION_CHECK"),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", "", "ADMISSION_CHECK"),
        ("ReqNodeNotAvail", "ReqNodeNotAvail, May be reserved for other job", "PRIORITY_BEHIND"),
        ("ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:gpu-[01-04]", "NODE_UNHEALTHY"),
        ("Resources", "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
         "NODE_UNHEALTHY"),
        ("JobHeldAdmin", "launch failed requeued held", "SUSPENDED"),
    ],
)  # fmt: skip
def test_what_is_said_behind_a_reason_counts(reason: str, described: str, code: str) -> None:
    assert jobs.meaning(reason, described) == code


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("gpu-[01-03,10]", ["gpu-01", "gpu-02", "gpu-03", "gpu-10"]),
        ("a[1-2]b[03-04]", ["a1b03", "a1b04", "a2b03", "a2b04"]),
        ("rack1-[099-101]", ["rack1-099", "rack1-100", "rack1-101"]),
        ("login,gpu[1,3-4],x[2]", ["login", "gpu1", "gpu3", "gpu4", "x2"]),
        ("gpu-[1-2]-ib", ["gpu-1-ib", "gpu-2-ib"]),
        ("(null)", []),
        ("None assigned", []),
        ("", []),
    ],
)
def test_every_form_of_a_list_of_hosts(told: str, found: list[str]) -> None:
    assert list(hosts(told)) == found


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("gpu:h100:8(S:0-1)", 8), ("gpu:a100:4(IDX:0-1,3)", 4), ("gpu:h100:0(IDX:N/A)", 0), ("gres/gpu:h100=8", 8),
        ("gpu:h100:4,gpu:a100:2", 6), ("gpu:h100:4(IDX:0-3),gpu:a100:2(IDX:4,6)", 6), ("(null)", 0), ("N/A", 0),
        ("shard:a100:16(4/4,0/4)", 0), ("gpu:nvidia_h100_80gb_hbm3:8", 8), ("gres/gpu:4", 4), ("gres:gpu:h100:2", 2),
        ("cpu=32,mem=512G,billing=32,gres/gpu=4,gres/gpu:h100=4", 4), ("gpu:no_consume:2", 2), (None, 0), (8, 0),
    ],
)  # fmt: skip
def test_every_form_of_gpus(told: Any, found: int) -> None:
    assert gpus(told) == found


@pytest.mark.parametrize(
    ("used", "taken"),
    [
        ("gpu:h100:2(IDX:1-2),shard:h100:1(IDX:0)", 3),
        ("gpu:h100:0(IDX:N/A),shard:h100:0(IDX:N/A)", 0),
        ("gpu:h100:0(IDX:N/A),shard:h100:5(4/4,1/4,0/4,0/4)", 2),
        ("gpu:h100:1(IDX:7),mps:h100:150(100/100,50/100,0/100)", 3),
        ("gpu:h100:8(IDX:0-7),shard:h100:4(IDX:0-3)", 8),
        ("shard:2", 0),
        ("gpu:h100:0(IDX:N/A),shard:h100:3(IDX:0,4-5)", 3),
    ],
)
def test_a_gpu_that_is_shared_out_is_not_free(used: str, taken: int) -> None:
    """Slurm gives it to nobody whole while one of its parts is given."""
    offer = nodes.offer(a_node("MIXED", gres="gpu:h100:8,shard:h100:32", gres_used=used), {})
    assert (offer.gpus, offer.gpus_used) == (8, taken)
