"""What is read of a Ray dashboard, and what a reading says when parts of it are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.adapters import ray
from fleet.adapters.ray import decode, train
from fleet.adapters.ray.reading import Dashboard
from fleet.gangs.conditions.placement import stale
from fleet.ports.errors import MissingRight, PermanentError, PortError, TemporaryError
from fleet.ports.ray import RayReading
from tests.adapters.ray.fake_dashboard import (
    ACTORS,
    GROUPS,
    HEALTH,
    JOBS,
    LOGS,
    NODES,
    STATUS,
    TRAIN,
    VERSION,
    FakeDashboard,
    a_group,
    a_job,
    a_node,
    a_run,
    formatted,
    listing,
    running,
)

PENDING = {"GPU": 8.0}


@pytest.fixture
def fake() -> Iterator[FakeDashboard]:
    with running(FakeDashboard()) as found:
        yield found


def dashboard(fake: FakeDashboard, **more: Any) -> Dashboard:
    return ray.dashboard(ray.Connection(**{"url": fake.url, "timeout": 2.0, **more}))


def read(fake: FakeDashboard, **more: Any) -> RayReading:
    return dashboard(fake, **more).read()


def test_a_cluster_that_waits_for_bundles_is_read_whole(fake: FakeDashboard) -> None:
    fake.says |= {
        GROUPS: listing(a_group(), a_group("small-ok", "CREATED", 1)),
        NODES: listing(a_node(), a_node("ray-head", 0, is_head_node=True), a_node("ray-9", state="DEAD")),
        ACTORS: listing({"actor_id": "a", "state": "ALIVE", "placement_group_id": "pg-small-ok"}),
        JOBS: [a_job(), a_job(type="SUBMISSION", job_id=None, submission_id="raysubmit_1", message="why")],
        STATUS: formatted(
            "0.0/16.0 GPU (0.0 used of 8.0 reserved in placement groups)",
            "{'CPU': 1.0, 'GPU': 16.0}: 1+ pending tasks/actors", "{'GPU': 8.0} * 4 (STRICT_SPREAD): 1+ pending groups",
        ),
        TRAIN: {"train_runs": [a_run()]},
    }  # fmt: skip
    found = read(fake)
    assert (found.version, found.healthy, found.unread) == ("2.60.0", True, ())
    waits, stands = found.placement_groups
    assert (waits.state, waits.scheduling, waits.detached, waits.gpus, waits.nodes) == (
        "PENDING", "NO_RESOURCES", True, 32.0, (),
    )  # fmt: skip
    assert (stands.state, stands.nodes, stands.bundles) == ("CREATED", ("ray-0",), ((("GPU", 8.0),),))
    assert [(n.name, n.alive, n.head, n.gpus_total) for n in found.nodes] == [
        ("pod-ray-0", True, False, 8.0), ("pod-ray-head", True, True, 0.0), ("pod-ray-9", False, False, 8.0),
    ]  # fmt: skip
    assert [(j.id, j.submission, j.message, j.over) for j in found.jobs] == [
        ("01000000", "", "", False), ("", "raysubmit_1", "why", False),
    ]  # fmt: skip
    assert found.live_actor_groups == {"pg-small-ok"}
    assert (found.gpus_used, found.gpus_total, found.gpus_reserved_unused) == (0.0, 16.0, 8.0)
    assert found.largest_ask == 16.0
    (run,) = found.runs
    assert (run.workers, run.gpus_per_worker, run.max_failures, run.attempts) == ((4, 4), 8.0, 0, 2)


@pytest.mark.parametrize(
    ("demand", "asks"),
    [
        ("{'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK): 1+ pending placement groups", 8.0),
        ("{'CPU': 1.0} * 1, {'GPU': 4.0} * 2 (STRICT_PACK): 3+ pending placement groups", 8.0),
        ("{'GPU': 1.0, 'CPU': 1.0} * 8 (PACK): 1+ pending placement groups", 1.0),
        ("{'GPU': 2.0} * 4 (STRICT_SPREAD): 1+ pending placement groups", 2.0),
        ("{'GPU': 0.5}: 7+ pending tasks/actors", 0.5),
        ("{'CPU': 2.0} * 4 (STRICT_PACK): 1+ pending placement groups", None),
        ("{'GPU_group_0_a1': 1.0, 'bundle_group_a1': 0.001}: 1+ pending tasks/actors", None),
    ],
)
def test_what_waits_asks_of_a_node_what_must_lie_on_one(fake: FakeDashboard, demand: str, asks: float | None) -> None:
    fake.says[STATUS] = formatted("0.0/8.0 GPU", demand)
    assert read(fake).largest_ask == asks


def test_an_idle_cluster_asks_for_nothing(fake: FakeDashboard) -> None:
    fake.says[STATUS] = formatted("3.5/16.0 GPU")
    found = read(fake)
    assert (found.largest_ask, found.gpus_used, found.gpus_reserved_unused) == (None, 3.5, 0.0)
    assert (found.runs, found.unread) == ((), ())


PARTS = {GROUPS: "placement_groups", NODES: "nodes", ACTORS: "actors", JOBS: "jobs", TRAIN: "train",
         STATUS: "cluster_status"}  # fmt: skip


@pytest.mark.parametrize("path", PARTS)
@pytest.mark.parametrize("answer", [(500, b"{}"), (429, b"too many"), b"<html>", (302, b""), (403, b"{}")])
def test_a_part_that_does_not_answer_is_named_and_takes_no_other_with_it(
    fake: FakeDashboard, path: str, answer: Any
) -> None:
    fake.says |= {GROUPS: listing(a_group()), NODES: listing(a_node()), JOBS: [a_job()], path: answer}
    found = read(fake)
    assert found.unread == (PARTS[path],)
    parts = (found.placement_groups, found.nodes, found.jobs)
    assert sum(map(len, parts)) == (2 if path in (GROUPS, NODES, JOBS) else 3)


@pytest.mark.parametrize(
    "cut",
    [{"num_filtered": 9}, {"total": 20, "num_after_truncation": 10}, {"partial_failure_warning": "one source is away"}],
)
def test_no_group_is_called_stale_by_a_list_of_actors_that_was_cut_short(
    fake: FakeDashboard, cut: dict[str, Any]
) -> None:
    fake.says |= {GROUPS: listing(a_group("old", "CREATED", 1)), JOBS: [a_job("SUCCEEDED")]}
    assert [one.about for one in stale("k", read(fake))] == ["old"]
    fake.says[ACTORS] = listing({"actor_id": "a", "state": "ALIVE", "placement_group_id": "x"}, **cut)
    found = read(fake)
    assert "actors" in found.unread
    assert not list(stale("k", found))


def test_the_actors_of_a_group_are_asked_for_alive_ones_only(fake: FakeDashboard) -> None:
    over, again = ({"state": state, "placement_group_id": state.lower()} for state in ("DEAD", "RESTARTING"))
    fake.says[ACTORS] = listing(over, again)
    assert read(fake).live_actor_groups == {"restarting"}
    assert any("filter_values=DEAD" in path for path, _ in fake.asked)


@pytest.mark.parametrize("answer", [(503, b""), b"unhealthy"])
def test_a_control_store_that_is_not_well_is_said(fake: FakeDashboard, answer: Any) -> None:
    fake.says[HEALTH] = answer
    assert read(fake).healthy is False


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ((401, b"{}"), MissingRight, "wants a token"),
        ((302, b""), PermanentError, "sends us elsewhere"),
        ((500, b""), TemporaryError, "HTTP 500"),
        (b"<html>", TemporaryError, "no JSON"),
    ],
)
def test_what_is_no_dashboard_is_no_reading(fake: FakeDashboard, answer: Any, kind: type[PortError], says: str) -> None:
    fake.says[VERSION] = answer
    fake.headers = {"Location": f"{fake.url}/elsewhere"}
    with pytest.raises(kind) as caught:
        read(fake)
    assert says in str(caught.value)
    assert len(fake.asked) == 1, "no redirect is followed and nothing is tried again"


def test_nobody_there_is_a_temporary_trouble() -> None:
    with pytest.raises(TemporaryError) as caught:
        ray.dashboard(ray.Connection("http://127.0.0.1:9", timeout=1.0)).read()
    assert "cannot be reached" in str(caught.value)


def test_a_look_ends_with_its_patience_however_slow_each_answer_is(fake: FakeDashboard) -> None:
    fake.late = 0.15
    found = read(fake, patience=0.4)
    assert {"actors", "jobs", "train"} <= set(found.unread)
    assert len(fake.asked) < 5


def test_an_answer_without_end_is_not_read_to_its_end(fake: FakeDashboard) -> None:
    fake.says[GROUPS] = listing(*(a_group(f"g{n}") for n in range(300)))
    assert "placement_groups" in read(fake, max_bytes=20_000).unread


def test_a_token_is_sent_where_one_is_given_and_never_told(fake: FakeDashboard) -> None:
    read(fake)
    assert not any("Authorization" in headers for _, headers in fake.asked)
    fake.asked.clear()
    fake.says[VERSION] = (403, b"{}")
    with pytest.raises(MissingRight) as caught:
        read(fake, token="hunter2")
    assert [headers["Authorization"] for _, headers in fake.asked] == ["Bearer hunter2"]
    assert "hunter2" not in str(caught.value)


def test_a_name_is_asked_at_the_address_that_was_judged(fake: FakeDashboard) -> None:
    port = fake.url.rpartition(":")[2]
    read(fake, url=f"http://llm-head-svc.train.svc:{port}", ip="127.0.0.1")
    assert {headers["Host"] for _, headers in fake.asked} == {f"llm-head-svc.train.svc:{port}"}


def test_the_end_of_a_drivers_log_is_bounded(fake: FakeDashboard) -> None:
    fake.says[LOGS] = b"".join(b"line %d\n" % n for n in range(5000))
    tail = dashboard(fake).log_tail("raysubmit_1", 10)
    assert tail.splitlines() == [f"line {n}" for n in range(4990, 5000)]
    assert "submission_id=raysubmit_1" in fake.asked[-1][0]
    fake.says[LOGS] = b"x" * (2 << 20)
    assert len(dashboard(fake).log_tail("raysubmit_1")) == 256 << 10


def test_a_dashboard_that_does_not_serve_log_files_gives_the_jobs_log(fake: FakeDashboard) -> None:
    fake.says |= {LOGS: (500, b"no"), "/api/jobs/a%2Fb/logs": {"logs": "one\ntwo\0\n"}}
    assert dashboard(fake).log_tail("a/b", 1) == "two"


@pytest.mark.parametrize(
    ("workers", "told"), [(4, (4, 4)), ([2, 8], (2, 8)), ([8], None), ("4", (4, 4)), (None, None), ([1, "x"], None)]
)
def test_the_workers_of_a_run_are_a_number_or_a_range(workers: Any, told: tuple[int, int] | None) -> None:
    found = train.run(a_run(workers))
    assert (found.workers if found else None) == told


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def bent(draw: st.DrawFn, example: Any) -> Any:
    """The example with odd values in some of its places."""
    if isinstance(example, dict):
        return {key: draw(ODD) if draw(st.integers(0, 9)) == 0 else draw(bent(value)) for key, value in example.items()}
    if isinstance(example, list):
        return [draw(ODD) if draw(st.integers(0, 9)) == 0 else draw(bent(value)) for value in example]
    return example


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(bent(listing(a_group(), a_node())), ODD), bent(a_group()), bent(a_node()), bent(a_job()),
    bent(a_run([2, 4])), st.text(max_size=40),
)  # fmt: skip
def test_no_odd_field_stops_the_reading(answer: Any, group: Any, node: Any, job: Any, run: Any, status: str) -> None:
    entries, _ = decode.listed(answer)
    for entry in [*entries, group, node, job, run]:
        if isinstance(entry, dict):
            one = decode.placement_group(entry)
            assert one is None or one.gpus >= 0
            two = decode.node(entry)
            assert two is None or two.gpus_total >= 0
            decode.job(entry)
            decode.group_of_actor(entry)
            three = train.run(entry)
            assert three is None or 0 <= three.workers[0] <= three.workers[1]
    decode.usage(status)
    decode.largest_ask(status)


def test_an_entry_without_a_name_is_left_out_and_counted(fake: FakeDashboard) -> None:
    fake.says[GROUPS] = listing(a_group(), {"state": "PENDING"}, {"placement_group_id": 7})
    look = dashboard(fake)
    assert len(look.read().placement_groups) == 1
    assert look.left_out == 2
