"""Reset the GPU that the incident names, the narrowest disruptive verb, by one privileged Job on the node.

Decides which GPUs are reset (one, or all of the node where its model or the fault leaves no choice), when nothing uses
them, and what became of it: the Job is named by the op, so that it exists once however often it is asked for. Success
is the Job's word and then the tests' (the driver's recovery action is a level that keeps the verdict bad). Refuses a
GPU that a pod uses, a node whose NVLink domain runs work elsewhere, and a second reset before the first is observed.
"""

from __future__ import annotations

import re
import uuid

from fleet.inventory.models import Device, Node
from fleet.lifecycle import alone, intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Done, Failed, Outcome, Repair, Wait
from fleet.lifecycle.playbooks import PlannedStep
from fleet.lifecycle.steps import gpu_services, taken_back
from fleet.lifecycle.steps.guards import recheck
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.steps.reboot import rebooted_since
from fleet.ports.cluster import PURPOSE_LABEL, JobRequest, NodeSeen, PodSeen
from fleet.ports.errors import PermanentError, TemporaryError, UnknownOutcome

VERB = "reset_gpu"
COMMAND = ("nvidia-smi", "--gpu-reset")
JOB_SECONDS = 300
"""A reset takes seconds; pulling the image may take minutes."""
CALL_SECONDS = 15.0
"""The API server's answer comes within ten seconds or not at all; only then may the same Job be asked for again."""
IN_USE_SECONDS = 600.0
NVLINK_SECONDS = 3600.0
"""How long work elsewhere in the NVLink domain is waited for, unless the plan says otherwise; then people decide."""
TOGETHER = ("P100", "V100")
"""Models whose NVLink neighbours can only be reset with them; from Ampere on a GPU is reset alone (nvidia-smi)."""
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def ahead(ctx: Context) -> Outcome | None:
    """Before the claim is asked for, so that waiting for the NVLink domain takes nobody's room; and again before the
    act."""
    return taken_back.check(ctx, fresh_node(ctx)) or _domain_works(ctx)


def run(ctx: Context) -> Outcome:
    with alone.at(f"reset {ctx.workflow.pk}") as mine:
        return _run(ctx) if mine else Wait(CALL_SECONDS, "Another worker asks for its Job just now.")


def _run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    sent = list(Intent.objects.filter(step=ctx.step, verb=VERB).exclude(outcome=intents.REFUSED).order_by("created_at"))
    if len(sent) >= int(ctx.step.memo.get("tries", 1)):  # the plan's retries of this step are each one more op
        return _follow(ctx, node, sent[-1])
    if rebooted_since(ctx, node):
        move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
        return Done("It has rebooted since the fault, which resets every GPU.")
    pods = ctx.ports.reader.pods_on(node.name)
    refusal = recheck(ctx, node) or _in_use(ctx, pods) or _domain_works(ctx) or gpu_services.pause(ctx, node, pods)
    if isinstance(refusal, Failed | Repair):
        gpu_services.restore(ctx, node)
    return refusal or _send(ctx, node)


def _in_use(ctx: Context, pods: list[PodSeen]) -> Outcome | None:
    """Any pod left behind counts: a claim of a GPU through DRA does not show as a number."""
    users = [pod.key for pod in pods if not pod.finished and (pod.kind in ("workload", "bare") or pod.gpus > 0)]
    if not users:
        return None
    text = f"{', '.join(users[:3])} may still use a GPU of this node; a reset would end it without a word."
    if _waited(ctx, "in_use_since") > IN_USE_SECONDS:
        return Failed("gpu_in_use", text)
    return Blocked("gpu_in_use", text, 5)


def _domain_works(ctx: Context) -> Outcome | None:
    """A reset takes the node's NVLinks down: whoever shares the domain across nodes would lose its peers."""
    node = ctx.workflow.node
    if not node.nvlink_domain:
        return None
    busy = list(
        Node.objects.filter(cluster_id=node.cluster_id, nvlink_domain=node.nvlink_domain, gone_at=None, pods__gt=0)
        .exclude(pk=node.pk)
        .order_by("name")
        .values_list("name", "gang")
    )
    if not busy:
        return None
    named = ", ".join(f"{name} ({gang})" if gang else name for name, gang in busy[:3])
    more = f" and {len(busy) - 3} more" if len(busy) > 3 else ""
    text = f"NVLink domain {node.nvlink_domain} runs work on {named}{more}; a reset here would break it."
    limit = PlannedStep.of(ctx.workflow.plan[ctx.workflow.step]).deadline or NVLINK_SECONDS
    if _waited(ctx, "nvlink_since") > limit:
        return Repair("nvlink_busy", f"{text} It has not become free in {limit / 60:.0f} min.")
    return Blocked("nvlink_busy", text, 15)


def _waited(ctx: Context, key: str) -> float:
    """Seconds since this was first waited for."""
    if key not in ctx.step.memo:
        ctx.remember(**{key: ctx.now.timestamp()})
    return ctx.since(float(ctx.step.memo[key]))


def targets(ctx: Context) -> list[str]:
    """The UUIDs to reset; [] means every GPU of the node together."""
    node = ctx.workflow.node
    name = ctx.incident.device if ctx.incident else ""
    if not name or any(model in node.gpu_model for model in TOGETHER):
        return []
    if UUID.fullmatch(name):
        return [name]
    index = re.fullmatch(r"(?:GPU-|gpu:)?(\d{1,3})", name)
    address = name.removeprefix("pci:")
    gpus = Device.objects.filter(node=node, kind="gpu", gone_at=None).values_list("key", "index", "pci")
    found = [key for key, at, pci in gpus if (index and at == int(index[1])) or (pci and pci == address)]
    return found if len(found) == 1 and UUID.fullmatch(found[0]) else []


def _send(ctx: Context, node: NodeSeen) -> Outcome:
    move(ctx, NodeState.REMEDIATING)
    gpus, place, op_id = targets(ctx), ctx.ports.gpu_reset, uuid.uuid4()
    before = {"boot_id": node.boot_id, "job": f"muster-reset-{op_id.hex[:24]}", "namespace": place.namespace}
    before["gpus"] = ",".join(gpus)
    what = gpus[0] if gpus else "every GPU"
    intent = intents.begin(ctx.workflow, ctx.step, VERB, f"{what} of {node.name}", ctx.now, op_id=op_id, before=before)
    if intents.late(intent, ctx.now, CALL_SECONDS / 3):
        intents.resolve(intent, intents.REFUSED, "Not sent: the time of the call had passed.", ctx.now)
        return Wait(ctx.timing.poll, "This worker stood still for too long; looking again before anything is sent.")
    return _create(ctx, intent) or Wait(ctx.timing.poll, f"The Job that resets {what} was created.")


def _create(ctx: Context, intent: Intent) -> Outcome | None:
    """Ask for the op's Job. None when the server has it."""
    try:
        ctx.ports.actor.create_job(_request(ctx, intent))
    except UnknownOutcome as error:
        intents.resolve(intent, intents.UNKNOWN, str(error), ctx.now)
        return Wait(CALL_SECONDS, f"No answer to the Job; looking for it before anything else: {error}")
    except TemporaryError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Blocked(error.code, str(error), error.retry_after or 5)
    except PermanentError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Failed(error.code, f"The reset Job is refused: {error}")
    _settle(ctx, intent, intents.DONE, "The Job was created; its result will tell.")
    return None


def _request(ctx: Context, intent: Intent) -> JobRequest:
    gpus = [gpu for gpu in intent.before["gpus"].split(",") if gpu]
    place = ctx.ports.gpu_reset
    return JobRequest(
        name=intent.before["job"],
        namespace=intent.before["namespace"],
        node=ctx.node_name,
        image=place.image,
        command=(*COMMAND, *(("-i", ",".join(gpus)) if gpus else ())),
        deadline_seconds=JOB_SECONDS,
        labels={"muster.dev/workflow": str(ctx.workflow.pk), PURPOSE_LABEL: "reset-gpu"},
        privileged=True,
        runtime_class=place.runtime_class,
        env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"},
    )


def _follow(ctx: Context, node: NodeSeen, sent: Intent) -> Outcome:
    """A reset was intended: what the Job says, or whether there is one at all."""
    age = ctx.since(sent.created_at)
    job = ctx.ports.actor.job(sent.before["namespace"], sent.before["job"])
    if job.phase == "missing":
        return _missing(ctx, node, sent, age)
    if job.phase == "succeeded":
        _settle(ctx, sent, intents.DONE, "The Job succeeded.")
        move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
        gpu_services.restore(ctx, node)
        return Done(f"Reset in {age:.0f} s: {sent.target}. The tests that follow must agree.")
    told = f"The reset Job is {job.phase} for {age:.0f} s. {job.text}".strip()
    if job.phase == "failed":
        return _failed(ctx, node, sent, "reset_failed", f"{sent.target} could not be reset: {job.text or 'no message'}")
    if age > JOB_SECONDS + 60:
        ctx.ports.actor.delete_job(sent.before["namespace"], sent.before["job"])
        return _failed(ctx, node, sent, "reset_timeout", told)
    return Wait(ctx.timing.poll, told)


def _missing(ctx: Context, node: NodeSeen, sent: Intent, age: float) -> Outcome:
    """Never created, or removed: only the first may be asked for again, by the same name."""
    if sent.outcome in (intents.DONE, intents.FAILED):
        return _failed(ctx, node, sent, "reset_lost", "Somebody removed the reset Job before its result was read.")
    if age > JOB_SECONDS:
        return _failed(ctx, node, sent, "reset_lost", "The reset Job never appeared.")
    if age < CALL_SECONDS:
        return Wait(CALL_SECONDS - age + 0.1, "The Job may still be on its way to the API server.")
    return _create(ctx, sent) or Wait(ctx.timing.poll, "The Job had not arrived; it was asked for again by its name.")


def _failed(ctx: Context, node: NodeSeen, sent: Intent, code: str, text: str) -> Outcome:
    _settle(ctx, sent, intents.FAILED, text)
    gpu_services.restore(ctx, node)
    return Failed(code, text)


def _settle(ctx: Context, sent: Intent, outcome: str, text: str) -> None:
    """What was observed replaces whatever was thought of it before."""
    Intent.objects.filter(pk=sent.pk).update(outcome=outcome, text=text[:500], resolved_at=ctx.now)
