"""Which objects and pods are one gang."""

from __future__ import annotations

from fleet.gangs.joining import join
from tests.gang_builders import FULL, a_member, an_object, link_to, members_of


def test_a_ray_job_its_cluster_its_pod_group_and_its_workload_are_one_gang() -> None:
    job = an_object("ray", "llm", kind="RayJob")
    cluster = an_object("ray", "llm-x7k", owners=(job.ref.uid,))
    group = an_object("volcano", "ray-llm-x7k-pg", owners=(cluster.ref.uid,))
    workload = an_object("kueue", "rayjob-llm", owners=(job.ref.uid,))
    pods = members_of(group.ref.key, 2)
    found = join([workload, job, group, cluster], pods)
    assert list(found) == [group.ref.key]
    assert [one.ref.name for one in found[group.ref.key].objects] == ["ray-llm-x7k-pg", "llm-x7k", "llm", "rayjob-llm"]
    assert found[group.ref.key].members == pods


def test_without_a_scheduler_that_groups_the_object_nearest_to_the_pods_is_the_gang() -> None:
    job = an_object("ray", "llm", kind="RayJob")
    cluster = an_object("ray", "llm-x7k", owners=(job.ref.uid,))
    workload = an_object("kueue", "rayjob-llm", owners=(job.ref.uid,))
    found = join([job, cluster, workload], members_of(link_to("ray", "llm-x7k"), 1))
    assert list(found) == [cluster.ref.key]
    assert len(found[cluster.ref.key].objects) == 3


def test_each_replica_of_a_set_with_several_groups_is_a_gang_of_its_own() -> None:
    served = an_object("lws", "serve", wanted=4)
    groups = [an_object("volcano", f"serve-{n}", owners=(served.ref.uid,)) for n in range(2)]
    found = join([served, *groups], [m for group in groups for m in members_of(group.ref.key, 2)])
    assert sorted(found) == sorted(group.ref.key for group in groups)
    assert all(len(gang.members) == 2 and served in gang.objects for gang in found.values())


def test_a_cluster_that_a_service_replaces_is_a_second_gang() -> None:
    service = an_object("ray", "chat", kind="RayService")
    old, new = (an_object("ray", f"chat-{n}", owners=(service.ref.uid,)) for n in ("old", "new"))
    group = an_object("coscheduling", "chat-old", owners=(old.ref.uid,))
    assert set(join([service, old, new, group], [])) == {group.ref.key, new.ref.key}


def test_an_admitted_job_that_no_reader_knows_is_known_by_its_workload() -> None:
    workload = an_object("kueue", "job-train", owners=("uid-of-a-batch-job",))
    pod = a_member("train-0", workload.ref.key, owner="Job/train", owner_uid="uid-of-a-batch-job")
    assert join([workload], [pod])[workload.ref.key].members == [pod]


def test_pods_that_name_only_their_maker_find_it_by_its_identity() -> None:
    jobset = an_object("jobset", "pretrain")
    pod = a_member("pretrain-0", owner="JobSet/pretrain", owner_uid=jobset.ref.uid)
    assert join([jobset], [pod])[jobset.ref.key].members == [pod]


def test_objects_that_only_the_pods_join_are_one_gang() -> None:
    app = an_object("yunikorn", "app-1", namespace="")
    cluster = an_object("ray", "llm")
    (gang,) = join([app, cluster], members_of(app.ref.key, 1, links=(app.ref.key, cluster.ref.key))).values()
    assert (gang.key, gang.objects) == (app.ref.key, (app, cluster))


def test_pods_whose_group_object_is_not_there_are_shown_as_a_gang_without_it() -> None:
    link = link_to("volcano", "gone")
    found = join([], members_of(link, 1, 1))
    assert (found[link].objects, len(found[link].members)) == ((), 2)


def test_plain_pods_are_grouped_by_their_maker_and_pods_without_gpus_are_nobodys() -> None:
    twins = [a_member(f"sweep-{n}", owner="Job/sweep", owner_uid="uid-sweep") for n in range(2)]
    alone = a_member("notebook")
    exporter = a_member("dcgm", owner="DaemonSet/dcgm")
    small = a_member("proxy", need=FULL.__class__(), owner="ReplicaSet/proxy")
    found = join([], [*twins, alone, exporter, small])
    assert {key: len(gang.members) for key, gang in found.items()} == {
        "pods/Job/train/sweep": 2,
        "pods/Pod/train/notebook": 1,
    }


def test_pods_of_objects_that_own_each_other_in_a_circle_are_still_shown() -> None:
    a, b = an_object("ray", "a", owners=("uid-ray--b",)), an_object("ray", "b", owners=("uid-ray--a",))
    assert len(join([a, b], members_of(a.ref.key, 2))[a.ref.key].members) == 2
