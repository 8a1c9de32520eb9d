"""Why a gang waits, by the first reason that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.gangs.counting import count
from fleet.gangs.diagnosis.packing import fits
from fleet.gangs.diagnosis.reasons import diagnose
from fleet.gangs.diagnosis.rooms import Out
from fleet.gangs.joining import join
from fleet.ports.gangs import Match, QueueObject, ReasonCode, Ref, Said, Toleration, Topology
from tests.gang_builders import an_object, later, members_of
from tests.unit.gangs.scenes import EIGHT, OUT, a_gang, a_room, a_scene

LEAF = "topology.muster.dev/leaf"


def said(code: ReasonCode, text: str = "as it says") -> Said:
    return Said(code, text, later(-10), "condition")


def test_the_node_whose_return_starts_it_is_named_with_what_is_done_about_it() -> None:
    scene = a_scene(a_room("a"), a_room("b"), a_room("c", out=OUT), a_room("d", used=8))
    reason = diagnose(a_gang("llm", 3), *scene)
    assert (reason.code, reason.needs, reason.free, reason.slots) == ("NODE_UNHEALTHY", 24, 16, 2)
    assert [(b.node, b.members, b.out) for b in reason.blockers] == [("c", 1, OUT)]


@pytest.mark.parametrize("code", ["QUOTA", "EXCEEDS_MAX", "QUEUE_STOPPED"])
def test_what_a_gang_waited_for_before_it_was_placed_does_not_keep_it_from_starting(code: ReasonCode) -> None:
    """Schedulers leave old conditions standing; members that have their nodes have their quota, too."""
    starting = replace(a_gang("llm", 1, placed=1, said=(said(code),)), state="starting")
    assert diagnose(starting, *a_scene(a_room("gpu-0", used=8))).code == "UNKNOWN"


def test_of_two_nodes_that_would_do_the_one_expected_first_is_named() -> None:
    soon = Out("awaiting_repair", back_at=later(20))
    scene = a_scene(a_room("a", out=OUT), a_room("b", out=soon))
    assert [b.node for b in diagnose(a_gang("llm", 1), *scene).blockers] == ["b"]


def test_no_node_is_blamed_when_all_that_are_out_would_not_do() -> None:
    scene = a_scene(a_room("a", used=8), a_room("b", out=OUT), a_room("c", used=8))
    reason = diagnose(a_gang("llm", 2), *scene)
    assert (reason.code, reason.blockers) == ("CAPACITY", ())


def test_a_node_in_service_that_lost_a_gpu_is_to_blame_too() -> None:
    scene = a_scene(a_room("a", gpus=7))
    reason = diagnose(a_gang("llm", 1), *scene)
    assert [(b.node, b.out) for b in reason.blockers] == [("a", None)]


def test_scattered_gpus_are_fragmentation_and_not_capacity() -> None:
    scene = a_scene(*(a_room(f"n{n}", used=4) for n in range(4)))
    reason = diagnose(a_gang("llm", 1), *scene)
    assert (reason.code, reason.free, reason.needs, reason.slots) == ("FRAGMENTATION", 16, 8, 0)


def test_room_that_is_spread_over_leaves_is_topology() -> None:
    scene = a_scene(*(a_room(f"n{n}", labels={LEAF: f"leaf-{n}"}) for n in range(2)))
    gang = a_gang("llm", 2, topology=Topology(LEAF, required=True))
    assert (diagnose(gang, *scene).code, diagnose(gang, *scene).level) == ("TOPOLOGY", LEAF)
    wished = a_gang("llm", 2, topology=Topology(LEAF, required=False))
    assert diagnose(wished, *scene).fits is True


def test_members_that_are_placed_name_the_domain_for_the_rest() -> None:
    near = {LEAF: "near"}
    rooms = [a_room("gpu-0", used=8, labels=near), a_room("f1", labels={LEAF: "far"})]
    gang = a_gang("llm", 2, placed=1, topology=Topology(LEAF, required=True))
    assert diagnose(gang, *a_scene(*rooms)).code == "TOPOLOGY"
    reason = diagnose(gang, *a_scene(*rooms, a_room("n1", out=OUT, labels=near)))
    assert [b.node for b in reason.blockers] == ["n1"]


def test_what_never_fits_is_said_so_before_any_node_is_blamed() -> None:
    scene = a_scene(a_room("a"), a_room("b", out=OUT))
    assert diagnose(a_gang("llm", 3), *scene).code == "EXCEEDS_MAX"
    assert diagnose(a_gang("big", 1, need=replace(EIGHT, gpus=16)), *scene).code == "EXCEEDS_MAX"


@pytest.mark.parametrize("code", ["QUOTA", "EXCEEDS_MAX", "QUEUE_STOPPED", "SUSPENDED"])
def test_what_its_queue_says_outranks_missing_room(code: ReasonCode) -> None:
    reason = diagnose(a_gang("llm", 2, said=(said("CAPACITY"), said(code, "the queue's words"))), *a_scene(a_room("a")))
    assert (reason.code, reason.raw) == (code, "the queue's words")


def test_a_stopped_queue_is_the_reason_of_all_that_wait_in_it() -> None:
    queue = QueueObject(Ref("kueue", "ClusterQueue", "", "team-a"), stopped=True)
    assert diagnose(a_gang("llm", 1), *a_scene(a_room("a")), queue).code == "QUEUE_STOPPED"


def test_room_enough_and_somebody_ahead() -> None:
    reason = diagnose(a_gang("llm", 1), *a_scene(a_room("a")), ahead=["volcano/PodGroup/train/first"])
    assert (reason.code, reason.fits, reason.ahead) == ("PRIORITY_BEHIND", True, ("volcano/PodGroup/train/first",))


def test_room_enough_and_nobody_says_why_is_unknown_with_the_raw_text() -> None:
    reason = diagnose(a_gang("llm", 1, said=(said("UNKNOWN", "strange words"),)), *a_scene(a_room("a")))
    assert (reason.code, reason.raw, reason.fits) == ("UNKNOWN", "strange words", True)


def test_a_gang_that_is_not_whole_yet_lacks_its_members_and_no_room() -> None:
    """Schedulers of gangs say of it that there is no room, or nothing."""
    there = members_of("volcano/PodGroup/train/mpi", 0, 2, need=EIGHT)
    (joined,) = join([an_object("volcano", "mpi", minimum=3, said=(said("CAPACITY", "3/2 tasks"),))], there).values()
    gang = count(joined)
    reason = diagnose(gang, *a_scene(a_room("a"), a_room("b"), a_room("c")))
    assert (reason.code, reason.unmade, reason.raw) == ("UNKNOWN", 1, "3/2 tasks")
    assert diagnose(gang, *a_scene(a_room("a"), a_room("b", used=8), a_room("c"))).code == "CAPACITY"


def test_a_gang_of_which_nobody_tells_a_need_lacks_its_members_before_it_lacks_room() -> None:
    (joined,) = join([an_object("volcano", "mpi", minimum=3, said=(said("CAPACITY", "3/0 tasks"),))], []).values()
    reason = diagnose(count(joined), *a_scene(a_room("a")))
    assert (reason.code, reason.unmade, reason.fits) == ("UNKNOWN", 3, None)


@pytest.mark.parametrize("admitted", [None, True, False])
def test_what_its_queue_keeps_out_in_silence_is_told_to_wait_for_its_queue(admitted: bool | None) -> None:
    facts: dict[str, Any] = {"admitted": admitted, "said": (said("CAPACITY", "0/0 tasks"),)}
    reason = diagnose(a_gang("llm", 1, **facts), *a_scene(a_room("a")))
    assert (reason.code, reason.kept_out, reason.unmade) == ("UNKNOWN", admitted is False, 0)
    assert diagnose(a_gang("llm", 2, **facts), *a_scene(a_room("a"), a_room("b", used=8))).code == "CAPACITY"
    assert diagnose(a_gang("llm", 1, **facts), *a_scene(a_room("a")), ahead=["x"]).code == "PRIORITY_BEHIND"


def test_whoever_has_devices_by_claims_alone_is_left_to_the_schedulers_words() -> None:
    claims = replace(EIGHT, gpus=0, claims=1)
    words = said("CAPACITY", "0/1 nodes are available: 1 cannot allocate all claims.")
    reason = diagnose(a_gang("llm", 1, need=claims, said=(words,)), *a_scene(a_room("a")))
    assert (reason.code, reason.fits) == ("CAPACITY", None)
    channel = replace(EIGHT, claims=1)
    assert diagnose(a_gang("llm", 1, need=channel), *a_scene(a_room("a"))).fits is True


def test_a_gang_that_waits_in_its_init_containers_says_in_which() -> None:
    gang = a_gang("llm", 1, placed=1)
    gang = replace(gang, state="starting", members=tuple(replace(one, init="wait-gcs-ready") for one in gang.members))
    reason = diagnose(gang, *a_scene(a_room("gpu-0", used=8)))
    assert (reason.code, reason.raw.partition(": ")[2]) == ("IMAGE_OR_INIT", "Init:wait-gcs-ready")


def test_a_gang_that_starts_is_told_nothing_of_what_it_waited_for_before() -> None:
    starting = replace(a_gang("llm", 1, placed=1, said=(said("QUOTA", "old words"),)), state="starting")
    reason = diagnose(starting, *a_scene(a_room("gpu-0", used=8)))
    assert (reason.raw, reason.placed) == ("", True)


def test_an_open_check_is_told_when_there_is_room() -> None:
    reason = diagnose(a_gang("llm", 1, said=(said("ADMISSION_CHECK"),)), *a_scene(a_room("a")))
    assert reason.code == "ADMISSION_CHECK"


def test_an_open_check_comes_before_what_never_fits_for_it_may_add_nodes() -> None:
    big = a_gang("llm", 9, said=(said("ADMISSION_CHECK", "The check dws-prov is Pending."),))
    reason = diagnose(big, *a_scene(a_room("a")))
    assert (reason.code, reason.raw) == ("ADMISSION_CHECK", "The check dws-prov is Pending.")
    assert diagnose(a_gang("llm", 9, said=(said("PRIORITY_BEHIND"),)), *a_scene(a_room("a"))).code == "EXCEEDS_MAX"


def test_a_level_that_no_node_has_is_left_to_the_schedulers_words() -> None:
    gang = a_gang("llm", 1, topology=Topology("tier-2", required=True), said=(said("TOPOLOGY", "no hypernode"),))
    reason = diagnose(gang, *a_scene(a_room("a")))
    assert (reason.code, reason.raw, reason.fits) == ("TOPOLOGY", "no hypernode", None)


def test_nodes_that_it_may_not_use_are_neither_room_nor_to_blame() -> None:
    pool = replace(EIGHT, selector=(("pool", "train"),))
    serve, mine = {"pool": "serve"}, {"pool": "train"}
    scene = a_scene(a_room("s1", labels=serve), a_room("s2", labels=serve, out=OUT), a_room("t1", used=8, labels=mine))
    reason = diagnose(a_gang("llm", 1, need=pool), *scene)
    assert (reason.code, reason.free, reason.blockers) == ("CAPACITY", 0, ())


TAINT = ("team", "vision", "NoSchedule")


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ((), False),
        ((Toleration("team", "Equal", "vision", "NoSchedule"),), True),
        ((Toleration("team", "Equal", "speech", ""),), False),
        ((Toleration("team", "Exists", "", ""),), True),
        ((Toleration("", "Exists", "", ""),), True),
        ((Toleration("team", "Exists", "", "NoExecute"),), False),
    ],
)
def test_taints_keep_out_who_does_not_tolerate_them(tolerations: tuple[Toleration, ...], fits: bool) -> None:
    need = replace(EIGHT, tolerations=tolerations)
    gang = a_gang("llm", 1, need=need)
    reason = diagnose(gang, *a_scene(a_room("a", taints=(TAINT,)), a_room("b", used=8, gpus=8)))
    assert (reason.fits is True) is fits


def test_taints_of_a_passing_state_do_not_make_a_node_of_another_kind() -> None:
    cordon = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
    reason = diagnose(a_gang("llm", 1), *a_scene(a_room("a", taints=(cordon,), out=OUT)))
    assert [b.node for b in reason.blockers] == ["a"]


@pytest.mark.parametrize(
    ("match", "nodes"),
    [
        (Match("gen", "In", ("5", "6")), {"a"}),
        (Match("gen", "NotIn", ("5",)), {"b", "c"}),
        (Match("gen", "Exists"), {"a", "b"}),
        (Match("gen", "DoesNotExist"), {"c"}),
        (Match("gen", "Gt", ("4",)), {"a"}),
        (Match("gen", "Lt", ("5",)), {"b"}),
        (Match("gen", "Gt", ("many",)), set()),
        (Match("metadata.name", "In", ("c",)), {"c"}),
        (Match("gen", "Perhaps", ("5",)), set()),
    ],
)
def test_required_affinity_as_kubernetes_reads_it(match: Match, nodes: set[str]) -> None:
    starter, _ = a_scene(a_room("a", labels={"gen": "5"}), a_room("b", labels={"gen": "4"}), a_room("c"))
    mask = starter.eligibility.of(replace(EIGHT, any_of=((match,),)))
    assert {name for name, may in zip(starter.rooms.names, mask, strict=True) if may} == nodes


def test_a_head_without_gpus_and_workers_share_nodes_as_they_must() -> None:
    head = replace(EIGHT, gpus=0, cpu_millis=6_000)
    worker = replace(EIGHT, cpu_millis=8_000)
    starter, space = a_scene(a_room("a", cpu_left=8_000), a_room("b", gpus=4, whole=4, cpu_left=8_000))
    assert fits(space, [(head, 1), (worker, 1)], starter.eligibility)
    assert not fits(space, [(head, 2), (worker, 1)], starter.eligibility)


def test_a_member_that_cannot_pull_its_image_is_told_by_name() -> None:
    gang = a_gang("llm", 1, placed=1)
    stuck = replace(gang.members[0], state="placed", stuck="ImagePullBackOff")
    starting = replace(gang, state="starting", members=(stuck,))
    reason = diagnose(starting, *a_scene(a_room("gpu-0", used=8)))
    assert (reason.code, reason.raw) == ("IMAGE_OR_INIT", "train/llm-0: ImagePullBackOff")
