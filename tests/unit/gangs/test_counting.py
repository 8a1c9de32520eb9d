"""The counts of a gang, by what its pods are and not by what a status says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleet.gangs.counting import count
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import GangObject, Member, Need, Part, Said, Topology
from tests.gang_builders import FULL, a_member, an_object, later, link_to, members_of


def one_gang(objects: list[GangObject], members: list[Member], starved: bool = False) -> Gang:
    (joined,) = join(objects, members).values()
    return count(joined, starved)


def test_half_a_gang_holds_all_its_gpus_idle() -> None:
    group = an_object("volcano", "llm", minimum=4, wanted=4)
    gang = one_gang([group], members_of(group.ref.key, 3, 1))
    assert (gang.state, gang.placed, gang.unscheduled, gang.gpus_held, gang.gpus_held_idle) == ("partial", 3, 1, 24, 24)
    assert [(m.need, m.count) for m in gang.missing] == [(FULL, 1)]


def test_the_minimum_placed_holds_nothing_idle_and_waits_for_nothing() -> None:
    group = an_object("volcano", "llm", minimum=2)
    gang = one_gang([group], members_of(group.ref.key, 2, 1))
    assert (gang.state, gang.gpus_held_idle, gang.waits_since, gang.missing) == ("running", 0, None, ())


def test_members_that_do_not_start_count_as_none_towards_what_computes() -> None:
    group = an_object("volcano", "llm", minimum=3)
    stuck = [replace(one, state="placed", stuck="CrashLoopBackOff") for one in members_of(group.ref.key, 4)]
    for many, state, idle in ((0, "running", 0), (1, "running", 0), (2, "starting", 32), (4, "starting", 32)):
        gang = one_gang([group], [*stuck[:many], *members_of(group.ref.key, 4)[many:]])
        assert (gang.state, gang.placed, gang.gpus_held_idle) == (state, 4, idle)


def test_members_that_are_about_to_start_hold_nothing_for_nothing() -> None:
    group = an_object("volcano", "llm", minimum=2)
    gang = one_gang([group], members_of(group.ref.key, 2, state="placed"))
    assert (gang.state, gang.gpus_held_idle) == ("starting", 0)


def test_a_ray_cluster_without_a_gang_scheduler_needs_its_head_and_every_worker() -> None:
    cluster = an_object("ray", "llm", wanted=5)
    gang = one_gang([cluster], members_of(cluster.ref.key, 2, 1))
    assert (gang.minimum, gang.guarantee, gang.not_created, gang.gpus_held_idle) == (5, "none", 2, 16)


def test_what_makes_the_pods_says_how_many_and_the_group_says_how_few() -> None:
    cluster = an_object("ray", "llm", wanted=9)
    group = an_object("volcano", "ray-llm-pg", owners=(cluster.ref.uid,), minimum=1, wanted=1)
    gang = one_gang([cluster, group], members_of(group.ref.key, 1, 8))
    assert (gang.wanted, gang.minimum, gang.state, gang.title) == (9, 1, "running", "RayCluster llm")


def test_members_not_made_yet_are_missing_by_their_part() -> None:
    level = Topology("topology.muster.dev/leaf", required=True)
    workload = an_object("kueue", "llm", wanted=4, minimum=4, parts=(Part("workers", 4, need=FULL, topology=level),))
    gang = one_gang([workload], [])
    assert (gang.state, gang.not_created, gang.gpus_wanted) == ("waiting", 4, 32)
    assert [(m.need, m.count, m.topology) for m in gang.missing] == [(FULL, 4, level)]


def test_an_eviction_begins_the_wait_anew() -> None:
    group = an_object("kueue", "llm", wanted=1, created_at=later(-90), waits_since=later(-5))
    assert one_gang([group], members_of(group.ref.key, 0, 1)).waits_since == later(-5)
    fresh = an_object("kueue", "llm", wanted=1, created_at=later(-90))
    assert one_gang([fresh], members_of(fresh.ref.key, 0, 1)).waits_since == later(-90)


def test_pods_that_are_being_deleted_hold_their_gpus_and_count_no_more() -> None:
    group = an_object("volcano", "llm", minimum=2)
    pods = [*members_of(group.ref.key, 1), a_member("llm-9", group.ref.key, node="gpu-9", ending=True)]
    gang = one_gang([group], pods)
    assert (gang.placed, gang.gpus_held, gang.state) == (1, 16, "partial")


def test_a_pending_placement_group_makes_all_that_a_ray_cluster_holds_idle() -> None:
    cluster = an_object("ray", "llm", wanted=2)
    gang = one_gang([cluster], members_of(cluster.ref.key, 2), starved=True)
    assert (gang.state, gang.gpus_held_idle) == ("running", 16)
    assert gang.waits_since is not None


def test_a_finished_job_whose_cluster_still_runs_is_not_finished() -> None:
    job = an_object("ray", "llm", kind="RayJob", finished=True)
    cluster = an_object("ray", "llm-x", owners=(job.ref.uid,), wanted=2)
    assert one_gang([job, cluster], members_of(cluster.ref.key, 2)).state == "running"


def test_a_group_and_its_admission_alone_do_not_make_a_gang_finished() -> None:
    group = an_object("volcano", "llm", minimum=2)
    assert one_gang([group], members_of(group.ref.key, 0, 2)).state == "waiting"


def test_suspended_without_pods_waits_for_nobody() -> None:
    jobset = an_object("jobset", "pretrain", wanted=8, suspended=True)
    gang = one_gang([jobset], [])
    assert (gang.state, gang.waits, gang.missing) == ("suspended", False, ())


def test_a_group_without_pods_was_suspended_by_nobody() -> None:
    for left in (an_object("coscheduling", "old", minimum=4), an_object("jobset", "none", wanted=0)):
        gang = one_gang([left], [])
        assert (gang.state, gang.waits, gang.missing, gang.gpus_held_idle) == ("empty", False, (), 0)
    stopped = an_object("slinky", "none", kind="NodeSet", wanted=0, suspended=True, places=False)
    assert one_gang([stopped], []).state == "suspended"


def test_plain_pods_start_one_by_one() -> None:
    pods = [a_member(f"chat-{n}", owner="ReplicaSet/chat", node="gpu-1" if n else "") for n in range(3)]
    gang = one_gang([], pods)
    assert (gang.minimum, gang.state, gang.gpus_held_idle, gang.guarantee) == (1, "running", 0, "none")


def test_what_a_hundred_pods_say_is_told_once_from_its_beginning() -> None:
    group = an_object("coscheduling", "llm", minimum=3)
    words = [Said("CAPACITY", "0/8 nodes are available", later(n), "Pod condition PodScheduled") for n in range(3)]
    pods = [a_member(f"llm-{n}", group.ref.key, waits=word) for n, word in enumerate(words)]
    assert one_gang([group], pods).said == (words[0],)


def test_members_named_by_no_object_keep_their_link_as_their_name() -> None:
    link = link_to("volcano", "gone")
    gang = one_gang([], members_of(link, 1, 1))
    assert (gang.key, gang.kind, gang.name, gang.wanted, gang.minimum) == (link, "PodGroup", "gone", 2, 2)


@given(
    placed=st.integers(0, 6), waiting=st.integers(0, 6), gated=st.integers(0, 3), ending=st.integers(0, 3),
    wanted=st.none() | st.integers(0, 20), minimum=st.none() | st.integers(0, 20),
)  # fmt: skip
def test_the_counts_of_any_gang_add_up(
    placed: int, waiting: int, gated: int, ending: int, wanted: int | None, minimum: int | None
) -> None:
    group = an_object("volcano", "g", wanted=wanted, minimum=minimum)
    pods = members_of(group.ref.key, placed, waiting)
    pods += [a_member(f"gated-{n}", group.ref.key, state="gated") for n in range(gated)]
    pods += [a_member(f"old-{n}", group.ref.key, node=f"old-{n}", ending=True) for n in range(ending)]
    gang = one_gang([group], pods)
    assert (gang.placed, gang.unscheduled, gang.gated) == (placed, waiting, gated)
    assert gang.gpus_held == 8 * (placed + ending)
    assert 0 <= gang.gpus_held_idle <= gang.gpus_held
    assert gang.not_created == max(0, gang.wanted - len(pods))
    if gang.waits:
        assert sum(missing.count for missing in gang.missing) == gang.minimum - gang.placed


def test_pods_that_end_without_any_object_are_no_gang_that_waits() -> None:
    link = link_to("coscheduling", "llm")
    (joined,) = join([], members_of(link, 3, ending=True)).values()
    gang = count(joined)
    assert (gang.state, gang.wanted, gang.gpus_held) == ("finished", 0, 24)


def test_a_member_that_ends_is_missing_in_its_own_role() -> None:
    head, worker = Part("head", 1, need=Need(cpu_millis=4000)), Part("worker", 3, need=FULL)
    cluster = an_object("ray", "llm", wanted=4, parts=(head, worker))
    gone = a_member("llm-head", cluster.ref.key, node="gpu-0", role="head", need=Need(cpu_millis=4000), ending=True)
    gang = one_gang([cluster], [gone, *members_of(cluster.ref.key, 3, role="worker")])
    assert [(m.role, m.count, m.need) for m in gang.missing] == [("head", 1, Need(cpu_millis=4000))]
