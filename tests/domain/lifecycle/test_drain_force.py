"""Deleting what a budget protects: only by a person, agreed to by another, pod by pod."""

from __future__ import annotations

import dataclasses

import pytest

from fleet.audit.models import AuditRow
from fleet.lifecycle import ballots, forcing, services
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.policy.models import Approval, ApprovalRule
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import MissingRight
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.test_drain import NODE, drain_of, put, writes
from tests.domain.lifecycle.world import World, a_pod

REASON = "the cache can be rebuilt"


@pytest.fixture
def kept(build: Build) -> tuple[World, Workflow]:
    world = put(build(NODE), a_pod("w-0", NODE), a_pod("cache-7", NODE, gang=""), a_pod("cache-8", NODE, gang=""))
    world.budgets = {"cache-7": "serving/cache", "cache-8": "serving/cache"}
    workflow = fault(world, NODE)
    assert world.run(20, lambda: again(workflow).blocked_code == "pdb")
    return world, workflow


def test_nothing_is_deleted_before_another_person_agreed(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    row = forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    assert row.summary["pods"] == ["train/cache-7", "train/cache-8"] and row.kind == "force"
    with pytest.raises(services.Refused, match="Another person than the requester"):
        services.approve(workflow.pk, "minseo", world.clock.now())
    world.run(60)
    assert writes(world, "delete") == [] and "Waits for a person's approval" in again(workflow).blocked_text
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert sorted(writes(world, "delete")) == ["train/cache-7", "train/cache-8"]
    intent = Intent.objects.get(verb="delete")
    assert set(intent.before["pods"].values()) == {"train/cache-7", "train/cache-8"}
    assert "jiwoo" in intent.text and "grace" in intent.text
    assert AuditRow.objects.filter(action="workflow.force", actor="minseo").exists()
    assert drain_of(workflow).memo["ended_by_others"] == {}


def test_a_pod_that_came_after_the_approval_is_not_deleted(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    put(world, dataclasses.replace(world.pods["train/cache-7"], uid="another"))
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    world.run(60)
    assert writes(world, "delete") == ["train/cache-8"]
    assert again(workflow).blocked_code == "pdb" and "train/cache-7" in again(workflow).blocked_text


def test_a_rejection_deletes_nothing_and_ends_nothing(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    services.reject(workflow.pk, "jiwoo", "not during the launch", world.clock.now())
    world.run(60)
    assert writes(world, "delete") == [] and again(workflow).blocked_code == "pdb"


def test_an_approval_that_expired_deletes_nothing(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    row = forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    world.clock.tick(31 * 60)
    with pytest.raises(services.Refused, match="expired"):
        services.approve(workflow.pk, "jiwoo", world.clock.now())
    world.run(60)
    assert Approval.objects.get(pk=row.pk).state == Approval.PENDING and writes(world, "delete") == []


def test_an_approval_of_an_earlier_try_does_not_count(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    Workflow.objects.filter(pk=workflow.pk).update(attempt=2)
    with pytest.raises(services.Refused, match="The plan has changed"):
        services.approve(workflow.pk, "jiwoo", world.clock.now())
    world.run(60)
    assert writes(world, "delete") == []


def test_a_site_may_want_nobody_beside_the_requester(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    ApprovalRule.objects.update_or_create(kind="force", defaults={"needed": 0, "minutes": 30})
    forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert len(writes(world, "delete")) == 2


def test_there_must_be_something_to_force_and_a_reason(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE, finalizers=("x/y",)))
    workflow = fault(world, NODE)
    with pytest.raises(forcing.ForceRefused, match="not draining"):
        forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    world.run(6)
    with pytest.raises(forcing.ForceRefused, match="takes a reason"):
        forcing.force_drain(workflow.pk, "minseo", " ", world.clock.now())
    with pytest.raises(forcing.ForceRefused, match="nothing to force"):
        forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    assert not Approval.objects.exists() and Step.objects.filter(verb="drain").exists()


def test_the_inbox_votes_on_what_is_asked_for_a_drain(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    row = forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    assert ballots.hashes([row]) == {row.pk: row.plan_hash}
    assert ballots.vote(row.pk, "jiwoo", True, "", world.clock.now()).allowed
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert len(writes(world, "delete")) == 2


def test_the_hash_that_pages_compare_follows_the_step(kept: tuple[World, Workflow]) -> None:
    world, workflow = kept
    row = forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    assert forcing.hashes([row]) == {row.pk: row.plan_hash}
    Workflow.objects.filter(pk=workflow.pk).update(attempt=2)
    assert forcing.hashes([row])[row.pk] != row.plan_hash


def test_a_force_that_the_api_server_forbids_says_which_right_is_missing_and_goes_on_once_it_is_given(
    kept: tuple[World, Workflow],
) -> None:
    world, workflow = kept
    forbidden = pytest.MonkeyPatch()

    def forbid(pod: PodSeen) -> None:
        raise MissingRight("delete", "pods")

    forbidden.setattr(world, "delete", forbid)
    forcing.force_drain(workflow.pk, "minseo", REASON, world.clock.now())
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    assert world.run(60, lambda: again(workflow).blocked_code == "force_refused")
    said = again(workflow).blocked_text
    assert "jiwoo agreed to delete train/cache-7" in said and "may not delete pods" in said
    assert set(world.pods) >= {"train/cache-7", "train/cache-8"}
    assert Intent.objects.get(verb="delete").outcome == "refused"
    forbidden.undo()
    services.retry_now(workflow.pk, "minseo", world.clock.now())
    assert world.run(60, lambda: drain_of(workflow).state == "done")
