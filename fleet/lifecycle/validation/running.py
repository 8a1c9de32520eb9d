"""Runs the suite of a node as Jobs, within a step of a workflow.

Decides which Jobs are started (at most one at a time that uses GPUs, or at all where the host itself runs them), what
all of them come to, and that nothing of them is left on the node when it is known. Refuses to take a Job that is
missing, late or without a result for a pass. It never waits: each call looks once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.validation import judge, keeping, rack
from fleet.lifecycle.validation.models import ValidationRun
from fleet.lifecycle.validation.reading import NCCL
from fleet.lifecycle.validation.suite import ALL_GPUS, Suite, Test
from fleet.ports.cluster import JobRequest, JobSeen, NodeSeen
from fleet.ports.errors import PortError

RUNNING = "running"
LATE = timedelta(minutes=2)
"""The cluster ends a Job at its deadline; later than this it does not answer for it."""


@dataclass(frozen=True, slots=True)
class Tested:
    """`state`: RUNNING, or a result as in `judge`. `part` names the device that failed, where one did."""

    state: str
    text: str
    part: str = ""


def run(ctx: Context, node: NodeSeen, purpose: str) -> Tested:
    """Start what may start, look at what runs, and say what the suite came to so far."""
    suite = rack.suite_of(ctx.workflow.node)
    if suite is None:
        return Tested(judge.SKIPPED, rack.suites().problem or "No suite of tests fits this node.")
    tests = suite.of(purpose)
    runs = {found.test: found for found in _runs(ctx)}
    for test in tests:
        found = runs.get(test.name)
        if found is not None and found.ended_at is None:
            _look(ctx, test, found, node)
    if any(found.result in (judge.FAILED, judge.NO_RESULT) for found in runs.values()):
        stop(ctx)
        runs = {found.test: found for found in _runs(ctx)}
    else:
        _start_more(ctx, suite, tests, purpose, runs, node)
    tested = _sum(tests, runs)
    if tested.state != RUNNING:
        ctx.ports.actor.clear_tests(node.name)
    return tested


def stop(ctx: Context) -> None:
    """End what still runs for this workflow: its node is about to serve somebody, or nobody waits for the answer."""
    for found in ValidationRun.objects.filter(workflow=ctx.workflow, ended_at=None):
        namespace, _, name = found.job.partition("/")
        intent = intents.begin(ctx.workflow, ctx.step, "stop_test", found.job, ctx.now)
        ctx.ports.actor.delete_job(namespace, name)
        intents.resolve(intent, intents.DONE, "Deleted.", ctx.now)
        keeping.end(found, judge.STOPPED, "Stopped before it ended.", ctx.now)
    if ValidationRun.objects.filter(workflow=ctx.workflow).exists():
        ctx.ports.actor.clear_tests(ctx.node_name)


def _runs(ctx: Context) -> list[ValidationRun]:
    """Those of this try of the step; a step that is tried again tests anew."""
    return list(ValidationRun.objects.filter(step=ctx.step, tries=_tries(ctx)))


def _tries(ctx: Context) -> int:
    return int(ctx.step.memo.get("tries", 1))


def _start_more(
    ctx: Context, suite: Suite, tests: tuple[Test, ...], purpose: str, runs: dict[str, ValidationRun], node: NodeSeen
) -> None:
    alone = ctx.ports.tests_on_host
    busy = any(runs[test.name].ended_at is None for test in tests if (test.gpus or alone) and test.name in runs)
    for test in tests:
        if test.name in runs or ((test.gpus or alone) and busy):
            continue
        found = _begin(ctx, suite, test, purpose)
        runs[test.name] = found
        if test.kind == NCCL and not test.image and not alone:
            keeping.end(found, judge.SKIPPED, "No image is set for this test.", ctx.now)
            continue
        _create(ctx, test, found, node)
        busy = busy or alone or bool(test.gpus)


def _begin(ctx: Context, suite: Suite, test: Test, purpose: str) -> ValidationRun:
    """The run's row, before anything is written to the cluster. Its Job's name tells when the workflow was planned:
    numbers come again where a database was restored or made anew, and then what another node passed would count."""
    severity = ctx.incident.severity if ctx.incident else ""
    level = test.level(purpose, severity)
    tries = _tries(ctx)
    planned = f"{ctx.workflow.pk}-{int(ctx.workflow.created_at.timestamp()):x}"
    name = f"muster-{purpose.replace('_', '-')}-{planned}-{ctx.step.attempt}-{test.name}"
    row = ctx.workflow.node
    found, _ = ValidationRun.objects.get_or_create(
        cluster_id=ctx.workflow.cluster_id,
        job=f"{ctx.ports.validation_namespace}/{name}" + (f"-{tries}" if tries > 1 else ""),
        defaults={
            "node_id": ctx.workflow.node_id,
            "workflow": ctx.workflow,
            "step": ctx.step,
            "tries": tries,
            "purpose": purpose,
            "suite": suite.name,
            "test": test.name,
            "kind": test.kind,
            "level": level,
            "sku": row.gpu_model,
            "pool": row.pool.name if row.pool else "",
            "started_at": ctx.now,
            "deadline": ctx.now + timedelta(seconds=test.deadline(level)),
        },
    )
    return found


def _create(ctx: Context, test: Test, found: ValidationRun, node: NodeSeen) -> None:
    """Creating by name is idempotent: after a crash the same Job is created again, or is there already."""
    intent = intents.begin(ctx.workflow, ctx.step, "validate", found.job, ctx.now)
    ctx.ports.actor.create_job(request(test, found, node, ctx.ports.validation_image))
    intents.resolve(intent, intents.DONE, "Created.", ctx.now)


def request(test: Test, found: ValidationRun, node: NodeSeen, image: str, priority_class: str = "") -> JobRequest:
    namespace, _, name = found.job.partition("/")
    gpus = (node.gpu_allocatable or 0) if test.gpus == ALL_GPUS else test.gpus
    labels = {"muster.dev/purpose": found.purpose.replace("_", "-"), "muster.dev/test": test.name}
    if found.workflow_id:
        labels["muster.dev/workflow"] = str(found.workflow_id)
    return JobRequest(
        name=name,
        namespace=namespace,
        node=node.name,
        image=test.image or image,
        command=test.argv(found.level, gpus),
        deadline_seconds=test.deadline(found.level),
        labels=labels,
        gpus=gpus,
        mounts=test.mounts,
        priority_class=priority_class,
    )


def _look(ctx: Context, test: Test, found: ValidationRun, node: NodeSeen) -> None:
    namespace, _, name = found.job.partition("/")
    job = ctx.ports.actor.job(namespace, name)
    if job.phase in ("succeeded", "failed"):
        expected = ctx.workflow.node.gpu_expected if test.gpus == ALL_GPUS else None
        complaint = None if job.phase == "succeeded" else job.text
        keeping.finish(found, test, ctx.ports.actor.job_log(namespace, name), complaint, expected, ctx.now)
    elif ctx.since(found.started_at) > (found.deadline + LATE - found.started_at).total_seconds():
        _give_up(ctx, found, job)
    elif job.phase == "missing":
        # The row was written, the create was not, or somebody deleted it.
        _create(ctx, test, found, node)
    elif job.phase == "running" and found.ran_at is None:
        found.ran_at = ctx.now
        found.save(update_fields=["ran_at"])


def _give_up(ctx: Context, found: ValidationRun, job: JobSeen) -> None:
    namespace, _, name = found.job.partition("/")
    with suppress(PortError):  # it ends at its own deadline; what counts is that nobody waits for it any more
        ctx.ports.actor.delete_job(namespace, name)
    minutes = (found.deadline - found.started_at).total_seconds() / 60
    said = f"No result: the Job was still {job.phase} after {minutes:.0f} min. {job.text}".strip()
    keeping.end(found, judge.NO_RESULT, said, ctx.now)


def _sum(tests: tuple[Test, ...], runs: dict[str, ValidationRun]) -> Tested:
    mine = [runs[test.name] for test in tests if test.name in runs]
    bad = [found for found in mine if found.result in (judge.FAILED, judge.NO_RESULT)]
    going = [found for found in mine if found.ended_at is None]
    if bad:
        worst = next((found for found in bad if found.result == judge.FAILED), bad[0])
        return Tested(worst.result, f"Test {worst.test} (Job {worst.job}): {worst.text}", part_of(worst))
    if going or len(mine) < len(tests):
        names = ", ".join(found.test for found in going) or "the next test"
        return Tested(RUNNING, f"Being tested: {names} ({len(mine) - len(going)} of {len(tests)} done).")
    passed = [found for found in mine if found.result == judge.PASSED]
    if not passed:
        return Tested(judge.SKIPPED, "No test could be run: " + "; ".join(f"{f.test}: {f.text}" for f in mine))
    skipped = "".join(f" {found.test} was left out: {found.text}" for found in mine if found.result == judge.SKIPPED)
    return Tested(judge.PASSED, "Passed: " + "; ".join(f"{f.test}: {f.text}" for f in passed) + skipped)


def part_of(found: ValidationRun) -> str:
    """The device that failed; "" where several did or none is named."""
    devices = set(found.results.filter(status="fail").exclude(device="").values_list("device", flat=True)[:3])
    return devices.pop() if len(devices) == 1 else ""
