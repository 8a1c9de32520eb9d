"""A job is suspended instead of evicted pod by pod, once, and is started again once; what is others' stays theirs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import services
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.suspending.models import Suspension
from fleet.ports.errors import Conflict, MissingRight, TemporaryError, UnknownOutcome
from fleet.readmodels.why import why
from tests.domain.lifecycle import world as worlds
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.jobs_of_pods import JOB, Jobs, attach, ranks
from tests.domain.lifecycle.test_drain import drain_of, put, writes
from tests.domain.lifecycle.test_drain_jobs import gang_on, planned_drain
from tests.domain.lifecycle.test_kill_switch import throw
from tests.domain.lifecycle.world import World, a_pod

NODE, OTHER = "gpu-r01-01", "gpu-r02-01"


@pytest.fixture
def jobs(build: Build, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """A JobSet with one pod on a node that is to be drained, where the place names JobSets."""
    found = Jobs(build(NODE))
    found.add(*ranks(NODE))
    return attach(found.world, monkeypatch, found)


def memo(workflow: Workflow) -> dict[str, Any]:
    return dict(drain_of(workflow).memo)


def row() -> Suspension:
    return Suspension.objects.get()


def past_the_drain(world: World, workflow: Workflow, seconds: float = 120) -> bool:
    return world.run(seconds, lambda: again(workflow).step > 1)


def test_it_is_suspended_once_and_started_again_once_the_node_is_drained(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to() == [True, False] and writes(jobs.world, "evict") == []
    assert jobs.jobs[JOB].mark == "" and not jobs.jobs[JOB].suspended
    assert (row().state, row().nodes) == ("resumed", [NODE])
    assert row().mark.startswith(f"{workflow.incident_id}/")
    assert "Suspended for it: JobSet train/llm." in drain_of(workflow).text
    assert "Not evicted by us" not in drain_of(workflow).text, "its pods went because of us"
    assert jobs.world.pods["train/w-0"].node != NODE


def test_both_writes_are_intents_and_lines_in_the_audit(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    told = Intent.objects.filter(workflow=workflow, verb__in=["suspend", "resume"]).order_by("created_at")
    assert [(one.verb, one.target, one.outcome) for one in told] == [("suspend", JOB, "done"), ("resume", JOB, "done")]
    actions = list(AuditRow.objects.filter(node=NODE).values_list("action", flat=True))
    assert actions.count("intent.suspend") == actions.count("intent.resume") == 1


def test_while_it_is_suspended_people_read_so(jobs: Jobs) -> None:
    jobs.deaf.add(JOB)
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    jobs.world.run(5)
    text = "Suspended, so that all of its pods end together: JobSet train/llm."
    assert text in drain_of(workflow).text
    told = why("", NODE, jobs.world.clock.now())
    assert text in told["step"]["text"]
    assert f"{JOB} is suspended by us since 03:00 UTC, until the last of its nodes is drained." in told["text"]
    assert memo(workflow)["suspended"] == [JOB]


def test_other_pods_of_the_node_are_evicted_as_usual(jobs: Jobs) -> None:
    put(jobs.world, a_pod("web", NODE, owner="ReplicaSet/web", gang="", namespace="web"))
    put(jobs.world, a_pod("plain", NODE, owner="ReplicaSet/plain", gang=""))
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    assert sorted(writes(jobs.world, "evict")) == ["train/plain", "web/web"]
    assert jobs.set_to()[0] is True


def test_a_gang_over_two_nodes_is_suspended_once_and_started_after_the_last(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = gang_on(build, NODE, OTHER)
    jobs = attach(world, monkeypatch, Jobs(world))
    jobs.add(*ranks(NODE, OTHER))
    put(world, a_pod("guarded", OTHER, owner="ReplicaSet/x", gang=""))
    world.budgets["guarded"] = "x/one"
    first, last = fault(world, NODE), fault(world, OTHER)
    assert past_the_drain(world, first)
    world.run(30)
    assert jobs.set_to() == [True], "the other node is being drained still"
    assert row().nodes == [NODE, OTHER]
    world.budgets.clear()
    assert past_the_drain(world, last)
    world.run(20)
    assert jobs.set_to() == [True, False]
    assert writes(world, "evict") == ["train/guarded"]


@pytest.mark.parametrize(
    ("kinds", "wish", "suspended"),
    [
        (["JobSet"], "", True),
        (["JobSet"], "false", False),
        (["RayJob"], "", False),
        ([], "", False),
        ([], "true", True),
        ([], "yes", False),
    ],
)
def test_the_place_and_the_owner_say_what_may_be_suspended(
    jobs: Jobs, kinds: list[str], wish: str, suspended: bool
) -> None:
    jobs.places = {"train": frozenset(kinds)}
    jobs.somebody(wish=wish)
    assert past_the_drain(jobs.world, fault(jobs.world, NODE))
    assert bool(jobs.writes) == suspended
    assert writes(jobs.world, "evict") == ([] if suspended else ["train/w-0"])


def test_no_word_of_an_owner_counts_where_no_place_is_named(jobs: Jobs) -> None:
    jobs.places = {}
    jobs.somebody(wish="true")
    assert past_the_drain(jobs.world, fault(jobs.world, NODE))
    assert jobs.writes == [] and writes(jobs.world, "evict") == ["train/w-0"]


def test_a_job_that_was_suspended_before_us_is_never_started(jobs: Jobs) -> None:
    jobs.deaf.add(JOB)  # its pods are slow to go
    jobs.somebody(suspended=True)
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(30)
    assert jobs.writes == [] and jobs.jobs[JOB].suspended
    assert writes(jobs.world, "evict") == ["train/w-0"]
    assert memo(workflow)["not_suspended"] == [f"{JOB} is not suspended by us: it was suspended already."]


def test_who_starts_it_meanwhile_is_respected_and_its_budgets_are(jobs: Jobs) -> None:
    jobs.deaf.add(JOB)
    jobs.world.budgets["w-0"] = "train/llm"
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    jobs.somebody(suspended=False)
    jobs.world.run(60)
    assert jobs.set_to() == [True], "not a second time in this drain"
    assert again(workflow).blocked_code == "pdb" and writes(jobs.world, "evict") == []
    assert f"{JOB} was started again by somebody else" in memo(workflow)["not_suspended"][0]
    jobs.world.budgets.clear()
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(30)
    assert jobs.set_to() == [True] and row().state == "left"


def test_a_later_drain_of_the_same_job_is_another_matter(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build(NODE, OTHER)
    jobs = attach(world, monkeypatch, Jobs(world))
    jobs.add(*ranks(NODE))
    assert past_the_drain(world, fault(world, NODE))
    world.run(20)
    pod = world.pods["train/w-0"]
    world.pods[pod.key] = dataclasses.replace(pod, node=OTHER)
    world.run(5)
    assert past_the_drain(world, fault(world, OTHER), 900)
    world.run(20)
    assert jobs.set_to() == [True, False, True, False]


def test_who_takes_our_mark_away_keeps_the_job_suspended(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    jobs.somebody(mark="")
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(30)
    assert jobs.set_to() == [True] and jobs.jobs[JOB].suspended
    assert row().text == "Somebody took our mark away: the job is theirs."


def test_who_started_it_before_the_drain_was_over_gets_our_mark_off(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: not jobs.world.pods)
    jobs.somebody(suspended=False)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to() == [True, None] and jobs.jobs[JOB].mark == "" and not jobs.jobs[JOB].suspended


def test_another_job_of_the_same_name_is_not_ours(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    jobs.somebody(uid="another")  # with all that it had: only the UID tells
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to() == [True] and row().state == "left"


@pytest.mark.parametrize("end", ["finished", "deleted"])
def test_what_has_ended_is_not_started(jobs: Jobs, end: str) -> None:
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: not jobs.world.pods)
    if end == "finished":
        jobs.somebody(ended=True)
    else:
        del jobs.jobs[JOB]
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to() == [True] and row().state == "left"


def test_pods_that_do_not_go_by_it_are_evicted_and_the_job_is_started_all_the_same(jobs: Jobs) -> None:
    jobs.deaf.add(JOB)
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    jobs.world.run(50)
    assert writes(jobs.world, "evict") == []
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert writes(jobs.world, "evict") == ["train/w-0"] and jobs.set_to() == [True, False]
    assert "its pods do not end by that" in memo(workflow)["not_suspended"][0]


@pytest.mark.parametrize("verb", ["job_of", "suspend"])
@pytest.mark.parametrize(
    "error",
    [MissingRight("patch", "jobsets"), TemporaryError("It is away."), UnknownOutcome("Cut."), Conflict("Changed.")],
)
def test_a_server_that_does_not_do_it_stops_no_drain(jobs: Jobs, verb: str, error: Exception) -> None:
    def fails(asked: str) -> None:
        if asked == verb:
            raise error

    jobs.fails = fails
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow, 240)
    assert writes(jobs.world, "evict") == ["train/w-0"] and jobs.writes == []
    (said,) = memo(workflow)["not_suspended"]
    assert str(error).rstrip(".") in said
    jobs.world.run(120)
    assert not Suspension.objects.filter(ended_at=None).exists(), "what was never written is over"


def test_a_write_whose_answer_is_lost_is_seen_by_its_mark(jobs: Jobs) -> None:
    change = jobs.change
    lost: list[Any] = []

    def once(*args: Any) -> None:
        change(*args)
        if len(lost) < 2:
            lost.append(args)
            raise UnknownOutcome("No answer.")

    jobs.change = once  # type: ignore[assignment, method-assign]
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to()[0] is True and writes(jobs.world, "evict") == []
    assert not jobs.jobs[JOB].suspended and row().ended_at is not None
    assert jobs.set_to().count(True) == jobs.set_to().count(False) == 1


def test_a_spec_that_somebody_changed_between_intent_and_write_is_left_alone(jobs: Jobs) -> None:
    seen: list[str] = []

    def fails(verb: str) -> None:
        if verb == "suspend" and not seen:
            seen.append(verb)
            jobs.somebody(suspended=True)
            jobs.somebody(suspended=False)
            raise UnknownOutcome("No answer.")

    jobs.fails = fails
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.writes == [] and writes(jobs.world, "evict") == ["train/w-0"]
    assert "was changed by somebody else meanwhile" in memo(workflow)["not_suspended"][0]


@pytest.mark.parametrize(
    ("kinds", "wish", "suspended", "said"),
    [
        (["JobSet"], "", False, False),
        (["JobSet"], "true", False, True),
        (["Workload"], "", True, False),
        (["Workload"], "false", False, False),
    ],
)
def test_what_kueue_starts_and_stops_is_suspended_by_its_workload_where_that_is_named(
    jobs: Jobs, kinds: list[str], wish: str, suspended: bool, said: bool
) -> None:
    title = "Workload train/jobset-llm"
    jobs.jobs.clear()
    jobs.members.clear()
    jobs.places = {"train": frozenset(kinds)}
    jobs.add(*ranks(NODE), title=title, wish=wish)
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    jobs.world.run(20)
    assert jobs.set_to(title) == ([True, False] if suspended else [])
    assert writes(jobs.world, "evict") == ([] if suspended else ["train/w-0"])
    assert ("Kueue starts and stops it" in str(memo(workflow).get("not_suspended"))) == said


def test_why_a_job_is_not_suspended_is_said(jobs: Jobs) -> None:
    jobs.somebody(refusal="is managed by kueue.x-k8s.io/multikueue")
    workflow = fault(jobs.world, NODE)
    assert past_the_drain(jobs.world, workflow)
    assert memo(workflow)["not_suspended"] == [f"{JOB} is not suspended: it is managed by kueue.x-k8s.io/multikueue."]


def test_a_stop_of_all_disruption_gives_the_job_back_at_once(jobs: Jobs) -> None:
    """No drain goes on, its nodes take no new work, and to start the job disrupts nobody."""
    fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    throw(jobs.world)
    jobs.world.run(20)
    assert jobs.set_to() == [True, False] and jobs.world.pods["train/w-0"].node != NODE


def test_nothing_is_suspended_while_all_is_stopped(jobs: Jobs) -> None:
    workflow = fault(jobs.world, NODE)
    jobs.world.run(60, lambda: again(workflow).verb == "drain" or jobs.world.nodes[NODE].unschedulable)
    throw(jobs.world)
    jobs.world.run(60)
    assert jobs.writes == [] and not Suspension.objects.exists()
    assert again(workflow).blocked_code == "stopped"


def test_mode_observe_writes_nothing_and_what_is_suspended_is_started_when_it_is_over(jobs: Jobs) -> None:
    fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    Cluster.objects.update(mode=Mode.OBSERVE)
    jobs.world.run(400)
    assert jobs.set_to() == [True]
    Cluster.objects.update(mode=Mode.AUTOMATE)
    jobs.world.run(60)
    assert jobs.set_to() == [True, False]


def test_a_drain_that_is_aborted_gives_the_job_back(jobs: Jobs) -> None:
    jobs.deaf.add(JOB)
    workflow = fault(jobs.world, NODE)
    assert jobs.world.run(60, lambda: jobs.jobs[JOB].suspended)
    services.abort(workflow.pk, "minseo", "the node is needed", jobs.world.clock.now())
    jobs.world.run(20)
    assert jobs.set_to() == [True, False] and state_of(NODE) == "released"


def test_no_job_is_suspended_for_longer_than_is_allowed(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "TIMING", dataclasses.replace(worlds.TIMING, suspend_most=120))
    put(jobs.world, a_pod("guarded", NODE, owner="ReplicaSet/x", gang=""))
    jobs.world.budgets["guarded"] = "x/one"
    workflow = fault(jobs.world, NODE)
    jobs.world.run(110)
    assert jobs.set_to() == [True] and again(workflow).blocked_code == "pdb"
    jobs.world.run(60)
    assert jobs.set_to() == [True, False]


def test_what_may_not_be_started_stays_ours_until_the_right_is_back(jobs: Jobs) -> None:
    def fails(verb: str) -> None:
        if verb == "resume":
            raise MissingRight("patch", "jobsets")

    jobs.fails = fails
    assert past_the_drain(jobs.world, fault(jobs.world, NODE))
    jobs.world.run(30)
    assert row().ended_at is None and "may not patch jobsets" in row().text
    jobs.fails = lambda verb: None
    jobs.world.run(20)
    assert jobs.set_to() == [True, False]
    assert Intent.objects.filter(verb="resume").count() == 1


def test_the_head_of_a_ray_cluster_goes_with_its_job(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a head that does not survive is never drained: here its place says that the whole may stop."""
    world = build(NODE)
    jobs = attach(world, monkeypatch, Jobs(world, ["RayJob"]))
    head = {"ray.io/node-type": "head", "ray.io/cluster": "llm"}
    jobs.add(*ranks(NODE, labels=head, annotations={"ray.io/ft-enabled": "false"}), title="RayJob train/llm")
    workflow = planned_drain(world, NODE)
    assert past_the_drain(world, workflow)
    world.run(20)
    assert jobs.set_to("RayJob train/llm") == [True, False] and writes(world, "evict") == []
