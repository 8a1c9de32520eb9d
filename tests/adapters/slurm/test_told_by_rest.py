"""Every version of slurmrestd's API: what is read of it, what it is told, and how its answers are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, looking
from fleet.adapters.slurm.client import VERSIONS, Slurmrestd
from fleet.adapters.slurm.looking import SlurmReader
from fleet.adapters.slurm.telling import NODES_BY_REST, REQUEUE_BY_REST
from fleet.ports.cluster import HOLD_ANNOTATION, SLURM_OUT, SLURM_WORK, ClusterActor, HoldRequest, WatchState
from fleet.ports.errors import (
    Conflict,
    EvictionBlocked,
    MissingRight,
    NotFound,
    PermanentError,
    PortError,
    TemporaryError,
    UnknownOutcome,
)
from tests.adapters.slurm.fake_rest import NEW, NEWEST, OLD, FakeRest, Uncounted, recorded, running
from tests.builders import TestClock

OURS, VALUE = "muster-0123456789abcdef", "17/1c1f6a52"
EVERY = [int(version.rsplit(".", 1)[1]) for version in VERSIONS]
Server = Callable[..., FakeRest]


@pytest.fixture
def server() -> Iterator[Server]:
    with ExitStack() as stack:
        yield lambda version, **more: stack.enter_context(running(FakeRest(version, **more)))


def reads(fake: FakeRest) -> Connection:
    return Connection(fake.url, "muster", lambda: "a.b.c")


def acts(fake: FakeRest) -> ClusterActor:
    return adapter.actor(reads(fake), OURS)


def hold(fake: FakeRest, node: str = "gpu-01", why: str = "") -> None:
    seen = adapter.reader(reads(fake)).node(node)
    acts(fake).hold(HoldRequest(node, VALUE, seen.resource_version, why=why))


@pytest.mark.parametrize("version", EVERY)
def test_every_version_is_found_and_read(server: Server, version: int) -> None:
    fake = server(version)
    reading = adapter.poll(reads(fake)).read()
    assert not reading.troubles and len(reading.offers) == 8 and {one.gpus for one in reading.offers} == {8}
    assert adapter.reader(reads(fake)).server_version() == f"v0.0.{version}"
    assert fake.users == {"muster"}


@pytest.mark.parametrize("version", EVERY)
def test_a_node_is_held_by_rest_where_the_version_can(server: Server, version: int) -> None:
    fake = server(version)
    name = "gpu-07" if version < 40 else "gpu-01"
    if version < NODES_BY_REST:
        with pytest.raises(PermanentError) as caught:
            hold(fake, name)
        assert caught.value.code == "slurm_read_only" and not fake.told
        return
    hold(fake, name, why="Xid 79 on GPU 3")
    assert fake.told == [
        ("POST", f"node/{name}", {"state": ["DRAIN"], "reason": f"Muster hold {VALUE} by {OURS}: Xid 79 on GPU 3"})
    ]
    held = adapter.reader(reads(fake)).node(name)
    acts(fake).release(name, VALUE, held.resource_version, uncordon=True)
    assert fake.told[1:] == [("POST", f"node/{name}", {"state": ["RESUME"]})]
    after = adapter.reader(reads(fake)).node(name)  # the reason stays behind, and means nothing any more
    assert not after.unschedulable and not after.annotations


@pytest.mark.parametrize("version", EVERY)
def test_a_job_is_requeued_by_rest_where_the_version_can(server: Server, version: int) -> None:
    fake = server(version)
    fake.data["jobs"][0] |= {"job_state": ["RUNNING"], "nodes": "gpu-01"}
    (rank,) = adapter.reader(reads(fake)).pods_on("gpu-01")
    if version < REQUEUE_BY_REST:
        with pytest.raises(PermanentError) as caught:
            acts(fake).evict(rank)
        assert caught.value.code == "slurm_read_only"
    else:
        acts(fake).evict(rank)
        asked = f"job/{fake.data['jobs'][0]['job_id']}/requeue?Incomplete=true"
        assert [(how, what) for how, what, _ in fake.told] == [("GET", asked)]


def test_a_part_of_a_heterogeneous_job_is_requeued_or_ended_with_the_whole(server: Server) -> None:
    fake = server(45)
    first, second, *_ = fake.data["jobs"]
    second |= {"job_state": ["RUNNING"], "nodes": "gpu-01", "het_job_id": {"set": True, "number": first["job_id"]}}
    (rank,) = adapter.reader(reads(fake)).pods_on("gpu-01")
    acts(fake).delete(rank)
    acts(fake).evict(rank)
    assert [(how, what) for how, what, _ in fake.told] == [
        ("DELETE", f"job/{first['job_id']}"),
        ("GET", f"job/{first['job_id']}/requeue?Incomplete=true"),
    ]


@pytest.mark.parametrize("told", [{"batch_flag": False}, {"batch_flag": 0}, {"requeue": False}, {"requeue": 0}])
def test_what_may_not_be_requeued_is_kept_like_a_pod_behind_a_budget(server: Server, told: dict[str, Any]) -> None:
    """Somebody sits before an interactive job: Slurm requeues batch jobs alone."""
    fake = server(45)
    fake.data["jobs"][0] |= {"job_state": ["RUNNING"], "nodes": "gpu-01", **told}
    (rank,) = adapter.reader(reads(fake)).pods_on("gpu-01")
    with pytest.raises(EvictionBlocked):
        acts(fake).evict(rank)
    assert not fake.told


def test_a_drain_that_would_end_by_itself_ends_no_more_under_our_hold(server: Server) -> None:
    fake = server(42)
    fake.node("gpu-08")["resume_after"] = {"set": True, "infinite": False, "number": 4_000_000_000}
    hold(fake, "gpu-08")
    hold(fake, "gpu-01")
    bodies = {what: body for _, what, body in fake.told}
    assert bodies["node/gpu-08"]["resume_after"]["infinite"] is True
    assert "resume_after" not in bodies["node/gpu-01"]


def test_a_requeue_that_broke_off_has_an_unknown_outcome_though_it_is_asked_with_get(server: Server) -> None:
    fake = server(45, oddly="cut")
    fake.data["jobs"][0] |= {"job_state": ["RUNNING"], "nodes": "gpu-01"}
    (rank,) = adapter.reader(reads(fake)).pods_on("gpu-01")
    with pytest.raises(UnknownOutcome):
        acts(fake).evict(rank)


def test_both_recorded_shapes_tell_the_states_of_their_nodes(server: Server) -> None:
    old = {node.name: node for node in adapter.reader(reads(server(38))).nodes()}
    assert [name for name, node in old.items() if node.unschedulable] == [
        "gpu-02",
        "gpu-03",
        "gpu-04",
        "gpu-05",
        "gpu-08",
    ]
    assert old["gpu-03"].annotations == {SLURM_OUT: "DRAIN by root: ib port 1 down"}
    assert old["gpu-04"].annotations == {SLURM_OUT: "FAIL by root: dimm"}
    assert old["gpu-05"].annotations[SLURM_WORK] == "REBOOT_ISSUED" and old["gpu-05"].ready is False
    assert (old["gpu-06"].ready, old["gpu-06"].unschedulable) == (False, False)  # nobody's will
    assert "MAINTENANCE" in old["gpu-08"].annotations[SLURM_OUT]
    new = {node.name: node for node in adapter.reader(reads(server(42))).nodes()}
    assert [name for name, node in new.items() if node.unschedulable] == ["gpu-03", "gpu-07", "gpu-08"]
    for node in (*old.values(), *new.values()):
        assert (node.gpu_capacity, node.allocatable) == (8, (("nvidia.com/gpu", 8),))
        assert node.boot_id and node.labels["partition"] == "train" and "feature/ib" in node.labels
    assert {node.kubelet for node in old.values()} == {"22.05.8"} and {node.kubelet for node in new.values()} == {
        "24.11.5"
    }


def test_both_recorded_shapes_tell_their_jobs(server: Server) -> None:
    for release, version, ranks in ((OLD, 38, {"gpu-01", "gpu-02"}), (NEW, 42, set())):
        found = adapter.reader(reads(server(version)))
        nodes = {node.name for node in found.nodes()}
        running_on = {node for node in nodes if found.pods_on(node)}
        assert running_on == ranks, release
        assert {pod.gpus for node in ranks for pod in found.pods_on(node)} <= {8}


def test_the_shape_of_26_05_is_read_whole(server: Server) -> None:
    fake = server(45, data=recorded(NEWEST))
    drained, planned = adapter.reader(reads(fake)).nodes()
    assert (
        drained.annotations[SLURM_OUT] == "DRAIN by kim: kim: fan" and drained.gpu_capacity == planned.gpu_capacity == 8
    )
    assert (drained.kubelet, drained.addresses[0]) == ("26.05.0", ("InternalIP", "10.0.0.1"))
    (rank,) = adapter.reader(reads(fake)).pods_on("gpu-01")
    assert (rank.gpus, rank.gang, rank.deleting_since) == (4, "train/78", None)
    reading = adapter.poll(reads(fake)).read()
    waiting = next(one for one in reading.objects if one.ref.name == "82")
    assert waiting.parts[0].need is not None and waiting.parts[0].need.gpus == 4  # two for each of two sockets
    assert (waiting.said[0].code, waiting.planned_nodes) == ("PRIORITY_BEHIND", ("gpu-02",))
    assert {one.node: (one.gpus, one.gpus_used, one.reserved_for) for one in reading.offers} == {
        "gpu-01": (8, 4, ""),
        "gpu-02": (8, 0, waiting.ref.key),
    }
    (queue,) = reading.queues
    assert (queue.stopped, queue.waiting, queue.running) == (False, 1, 1) and not reading.troubles


def test_a_node_that_slurm_calls_busy_is_never_empty(server: Server) -> None:
    """Its job is over and an epilog still runs."""
    fake = server(42)
    fake.node("gpu-01")["state"] = ["IDLE", "COMPLETING", "DRAIN"]
    with pytest.raises(TemporaryError, match="COMPLETING"):
        adapter.reader(reads(fake)).pods_on("gpu-01")


@pytest.mark.parametrize(
    ("listed", "left"), [(["IDLE", "DRAIN"], ""), (["MIXED", "DRAIN"], "MIXED"), (["IDLE", "COMPLETING"], "COMPLETING")]
)
def test_what_a_node_is_said_to_run_counts_as_of_now(listed: list[str], left: str) -> None:
    with running(Uncounted(42)) as fake:
        fake.node("gpu-01")["state"] = listed
        reader = adapter.reader(reads(fake))
        if left:
            with pytest.raises(TemporaryError, match=left):
                reader.pods_on("gpu-01")
        else:
            assert reader.pods_on("gpu-01") == []


@pytest.mark.parametrize("end", [6_091_096_191, {"set": True, "infinite": True, "number": 0}, 4_000_000_000, None])
@pytest.mark.parametrize("state", [["PENDING", "COMPLETING"], ["RUNNING", "COMPLETING"], "COMPLETING"])
def test_a_requeued_job_that_does_not_end_is_ending_since_it_was_seen_so(server: Server, state: Any, end: Any) -> None:
    """Slurm tells no end of it; behind processes that cannot be killed it would be waited for without one."""
    fake, clock = server(45), TestClock()
    fake.data["jobs"][0] |= {"job_state": state, "nodes": "gpu-01", "end_time": end, "restart_cnt": 1}
    reader = SlurmReader(reads(fake), clock)
    first = clock.now()
    for _ in range(3):
        (rank,) = reader.pods_on("gpu-01")
        assert rank.deleting_since == first
        clock.tick(60)
    fake.data["jobs"][0]["end_time"] = int(first.timestamp()) + 90
    (rank,) = reader.pods_on("gpu-01")
    assert rank.deleting_since == first + timedelta(seconds=90), "what Slurm tells goes before"


@pytest.mark.parametrize("answer", [{}, {"nodes": None}, {"nodes": {}}, {"status": "ok"}])
def test_an_answer_without_the_list_is_no_empty_list(server: Server, answer: dict[str, Any]) -> None:
    """Else a page of something else would take every node away."""
    fake = server(45)
    fake.get = lambda what: (200, {"pings": []} if what == "ping" else answer)  # type: ignore[method-assign]
    for ask in (adapter.reader(reads(fake)).nodes, adapter.poll(reads(fake)).read):
        with pytest.raises(TemporaryError):
            ask()


def test_a_user_s_job_does_not_hide_behind_the_comment_of_a_test(server: Server) -> None:
    fake = server(45)
    job = fake.data["jobs"][0]
    job |= {"job_state": ["PENDING"], "comment": "Muster tests gpu-01. Muster hold 17/ab by muster-1"}

    def shown() -> tuple[bool, bool]:
        name = str(job["job_id"])
        objects, pods = adapter.poll(reads(fake)).read().objects, adapter.reader(reads(fake)).unscheduled_pods()
        return name in {one.ref.name for one in objects}, name in {pod.name.partition(".")[0] for pod in pods}

    assert shown() == (True, True)
    job["resv_name"] = "muster-hold.17.ab.muster-1"
    assert shown() == (False, False)


def test_what_is_not_there_does_not_make_the_version_be_asked_for_again(server: Server) -> None:
    fake, pings = server(42), []
    answer = fake.get
    fake.get = lambda what: (pings.append(what) if what == "ping" else None) or answer(what)  # type: ignore[method-assign, func-returns-value]
    rest = Slurmrestd(reads(fake))
    for _ in range(3):
        with pytest.raises(NotFound):
            rest.get("job/999999")
    assert pings == ["ping"]
    fake.version = 43  # an upgrade
    with pytest.raises(TemporaryError):
        rest.get("nodes")
    assert rest.rows("nodes") and rest.version == "v0.0.43"


def test_no_watch_loses_all_nodes_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LOOK_LEAST", 0.0)
    fake, states = server(45), list[WatchState]()
    stream = adapter.reader(reads(fake)).watch_nodes(lambda: len(states) > 1, states.append)
    first = [next(stream) for _ in range(9)]
    assert [change.kind for change in first] == ["added"] * 8 + ["synced"]
    fake.data["nodes"] = []
    assert list(stream) == [] and (states[-1].connected, states[-1].text) == (False, "Slurm tells of no node.")


def test_a_yes_without_effect_is_no_hold(server: Server) -> None:
    with pytest.raises(TemporaryError, match="without our reason"):
        hold(server(42, oddly="says_yes"))


def test_an_error_in_a_200_is_an_error(server: Server) -> None:
    with pytest.raises(NotFound):
        hold(server(43, oddly="unknown_in_200"))


@pytest.mark.parametrize("version", EVERY)
def test_a_node_that_is_none_of_slurm_s_is_not_found(server: Server, version: int) -> None:
    """From 23.11 on it is answered with 200, and with the error that there is none."""
    fake = server(version)
    for ask in (
        lambda: adapter.reader(reads(fake)).node("gpu-99"),
        lambda: acts(fake).hold(HoldRequest("gpu-99", VALUE, "")),
    ):
        with pytest.raises(NotFound):
            ask()


def test_an_operator_s_right_that_lacks_is_told_as_such(server: Server) -> None:
    with pytest.raises(MissingRight, match="Invalid user id"):
        hold(server(42, oddly="refused"))


def test_an_act_that_broke_off_has_an_unknown_outcome(server: Server) -> None:
    with pytest.raises(UnknownOutcome):
        hold(server(42, oddly="cut"))


def test_a_node_that_changed_since_it_was_read_is_not_touched(server: Server) -> None:
    fake = server(42)
    with pytest.raises(Conflict):
        acts(fake).hold(HoldRequest("gpu-01", VALUE, "another"))
    assert not fake.told


def test_whoever_held_it_first_keeps_his_reason_through_our_hold(server: Server) -> None:
    fake = server(42)
    hold(fake, "gpu-08", why='its "port" is\ndown')
    assert fake.node("gpu-08")["reason"] == f"Muster hold {VALUE} by {OURS}: its port is down | before: ib"
    hold(fake, "gpu-08", why="again")  # a second try of the same hold nests nothing
    assert fake.node("gpu-08")["reason"].endswith("again | before: ib")
    seen = adapter.reader(reads(fake)).node("gpu-08")
    assert seen.annotations == {HOLD_ANNOTATION: VALUE}
    acts(fake).release("gpu-08", VALUE, seen.resource_version, uncordon=True)
    assert fake.node("gpu-08")["reason"] == "ib" and "DRAIN" in fake.words("gpu-08")


def test_a_drain_of_a_person_without_a_reason_stays_too(server: Server) -> None:
    fake = server(42)
    fake.node("gpu-08")["reason"] = ""
    hold(fake, "gpu-08")
    acts(fake).release("gpu-08", VALUE, "", uncordon=True)
    assert "DRAIN" in fake.words("gpu-08")


def test_nothing_but_drain_and_resume_is_ever_told_of_a_state(server: Server) -> None:
    """The server asserts it too. A fence does nothing: DOWN would requeue every job of the node at once."""
    fake = server(45)
    hold(fake)
    acts(fake).fence("gpu-01", on=True)
    acts(fake).pause_gpu_services("gpu-01", on=True)
    acts(fake).release("gpu-01", VALUE, "", uncordon=True)
    states = [word for _, _, body in fake.told for word in (body or {}).get("state", [])]
    assert states == ["DRAIN", "RESUME"]


def test_an_answer_that_is_no_answer_is_a_stated_failure(server: Server) -> None:
    fake = server(42)
    fake.data["nodes"] = [{"name": 7, "state": {"odd": True}}, "gpu", None, {"name": "gpu-01"}]
    (seen,) = adapter.reader(reads(fake)).nodes()
    assert (seen.name, seen.ready, seen.gpu_capacity) == ("gpu-01", None, None)
    with pytest.raises(PortError):
        adapter.reader(reads(fake)).node("gpu-02")
