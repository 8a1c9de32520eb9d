"""The words that pages use for states, verbs and outcomes.

Decides one translatable name, and one sentence where a name is not enough, for every value of the domain. Refuses to
choose colours or shapes: those belong to the templates.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext

from fleet.lifecycle.owners import DOES

Word = str | Promise

NODE_STATES: dict[str, Word] = {
    "in_service": lazy("In service"),
    "suspect": lazy("Suspect"),
    "held": lazy("Held"),
    "draining": lazy("Draining"),
    "drained": lazy("Drained"),
    "remediating": lazy("Remediating"),
    "validating": lazy("Validating"),
    "soaking": lazy("Soaking"),
    "awaiting_repair": lazy("Awaiting repair"),
    "released": lazy("Released"),
    "unmanaged": lazy("Unmanaged"),
    "retired": lazy("Retired"),
}
VERDICTS: dict[str, Word] = {
    "healthy": lazy("Healthy"),
    "degraded": lazy("Degraded"),
    "unhealthy": lazy("Unhealthy"),
    "unknown": lazy("Unknown"),
    "lost": lazy("Lost"),
}
WORKFLOW_STATES: dict[str, Word] = {
    "planned": lazy("Planned"),
    "waiting": lazy("Waiting for approval"),
    "running": lazy("Running"),
    "blocked": lazy("Blocked"),
    "repair": lazy("In repair"),
    "succeeded": lazy("Succeeded"),
    "failed": lazy("Failed"),
    "cancelled": lazy("Cancelled"),
}
VERBS: dict[str, Word] = {
    "hold": lazy("Hold"),
    "drain": lazy("Drain"),
    "reset_gpu": lazy("Reset GPU"),
    "reboot": lazy("Reboot"),
    "power_cycle": lazy("Power-cycle"),
    "reprovision": lazy("Reprovision"),
    "fence": lazy("Fence"),
    "wait_repair": lazy("Wait for repair"),
    "keep": lazy("Keep until released"),
    "validate": lazy("Validate"),
    "soak": lazy("Soak"),
    "return": lazy("Return to service"),
    "release": lazy("Release"),
    "confirm": lazy("Confirm by an active test"),
}
VERB_SENTENCES: dict[str, Word] = {
    "hold": lazy("Cordon the node, with Muster as an owner of the hold. What runs is untouched."),
    "drain": lazy("Evict its pods through the eviction API; disruption budgets are respected."),
    "reset_gpu": lazy("Reset the GPU with a job on the node, while nothing uses it or its NVLink domain."),
    "reboot": lazy("Reboot through its BMC; proved by a changed boot ID, Ready and a fresh heartbeat."),
    "power_cycle": lazy("Turn its power off and on through its BMC; proved as a reboot is."),
    "reprovision": lazy("Install its image anew; local disks are erased. Proved by a new boot and by the provisioner."),
    "fence": lazy("Prove its power off before its pods and volumes are let go, then turn it on again."),
    "wait_repair": lazy("Open a ticket with the evidence; closing it goes on with the tests."),
    "keep": lazy("A person holds it until a person releases it."),
    "validate": lazy("Test it: every GPU seen, devices healthy, a validation job on the node."),
    "soak": lazy("Watch it before it returns; a signal of the same cause sends it back."),
    "return": lazy("Muster leaves as owner of the hold. With no other owner the node is uncordoned."),
    "release": lazy("Muster leaves as owner of the hold without remediation."),
    "confirm": lazy("Test it under load before anything is done; a test that passes ends the suspicion."),
}
VERB_DOING: dict[str, Word] = {
    "hold": lazy("Being held"),
    "drain": lazy("Draining, not drained"),
    "reset_gpu": lazy("Resetting a GPU"),
    "reboot": lazy("Rebooting"),
    "power_cycle": lazy("Power-cycling"),
    "reprovision": lazy("Reprovisioning"),
    "fence": lazy("Fencing"),
    "wait_repair": lazy("Waiting for repair"),
    "keep": lazy("Kept"),
    "validate": lazy("Being validated"),
    "soak": lazy("Soaking"),
    "return": lazy("Returning to service"),
    "release": lazy("Being released"),
    "confirm": lazy("Being tested on suspicion"),
}
BATCH_STATES: dict[str, Word] = {
    "draft": lazy("Not started"),
    "waiting": lazy("Waiting for approval"),
    "running": lazy("Running"),
    "paused": lazy("Paused"),
    "done": lazy("Done"),
    "cancelled": lazy("Cancelled"),
}
MEMBER_STATES: dict[str, Word] = {
    "pending": lazy("Waits"),
    "begun": lazy("Under way"),
    "done": lazy("Done"),
    "failed": lazy("Failed"),
    "refused": lazy("Refused"),
}
APPROVAL_KINDS: dict[str, Word] = {
    "recommend": lazy("A plan of Muster"),
    "bmc_power": lazy("Power by a person"),
    "reprovision": lazy("Reprovision"),
    "bulk": lazy("Many nodes"),
    "force": lazy("By force"),
    "ray_head": lazy("Ray head"),
    "loosen": lazy("A looser policy"),
}
APPROVAL_STATES: dict[str, Word] = {
    "pending": lazy("Pending"),
    "approved": lazy("Approved"),
    "rejected": lazy("Rejected"),
    "expired": lazy("Expired"),
    "withdrawn": lazy("Withdrawn"),
}
STEP_STATES: dict[str, Word] = {
    "running": lazy("Under way"),
    "done": lazy("Done"),
    "failed": lazy("Failed"),
    "skipped": lazy("Skipped"),
    "cancelled": lazy("Cancelled"),
}
AT_DEADLINE: dict[str, Word] = {
    "stay": lazy("It stays and says so."),
    "ask": lazy("A person is asked: retry, skip or abort."),
    "escalate": lazy("It counts as failed, and the playbook goes on."),
}
ON_FAILURE: dict[str, Word] = {
    "next": lazy("the next rung, then people"),
    "repair": lazy("a ticket"),
    "stop": lazy("a person decides"),
}
MEMO: dict[str, Word] = {
    "tries": lazy("try"),
    "stopping_now_loses": lazy("stopping now loses"),
    "stopping_then_loses": lazy("stopping then loses"),
    "waiting_costs": lazy("waiting costs"),
    "joined": lazy("of the gang"),
    "gangs": lazy("gangs interrupted"),
    "ray": lazy("Ray"),
    "suspended": lazy("suspended"),
    "not_suspended": lazy("not suspended"),
    "gang": lazy("gang"),
    "kept_by_budget": lazy("kept by a budget"),
    "ended_by_others": lazy("ended by others"),
    "deleted_by_force": lazy("deleted by force"),
    "without_owner": lazy("without an owner"),
    "local_data": lazy("local data"),
    "arrived": lazy("came during the drain"),
    "waits_for_nobody": lazy("told to wait for nobody"),
    "job": lazy("job"),
    "off": lazy("power proven off"),
    "on": lazy("power on again"),
    "let_go_since": lazy("pods let go since"),
    "part": lazy("part"),
    "confirmed": lazy("confirmed"),
    "not_confirmed": lazy("not confirmed"),
}
CAP_KINDS: dict[str, Word] = {
    "hold": lazy("Held"),
    "take_out": lazy("Out of service"),
    "in_flight": lazy("In flight"),
    "rate": lazy("Rate of disruption"),
    "floor": lazy("Floor of healthy capacity"),
}
SCOPES: dict[str, Word] = {
    "fleet": lazy("fleet"),
    "cluster": lazy("cluster"),
    "pool": lazy("pool"),
    "rack": lazy("rack"),
    "leaf": lazy("leaf"),
    "nvlink": lazy("NVLink domain"),
    "node": lazy("node"),
    "tenant": lazy("tenant"),
}
SOURCES: dict[str, Word] = {
    "kernel_log": lazy("kernel log"),
    "dcgm": lazy("DCGM"),
    "node_exporter": lazy("node exporter"),
    "kubernetes": lazy("Kubernetes"),
    "exporter": lazy("another exporter"),
}
ACTION_CLASSES: dict[str, Word] = {
    "reboot_node": lazy("a reboot"),
    "fence_node": lazy("fencing through its BMC"),
    "reset_gpu": lazy("a GPU reset"),
    "replace_part": lazy("a new part"),
    "inspect": lazy("an inspection"),
    "restart_app": lazy("a restart of the job"),
    "monitor": lazy("watching only"),
    "ignore": lazy("nothing"),
    "contact_support": lazy("the vendor's support"),
    "confirm": lazy("an active test that confirms it"),
    "ticket": lazy("a ticket, beside running work"),
}
POOL_KINDS: dict[str, Word] = {
    "bare_metal": lazy("bare metal"),
    "vm": lazy("virtual machines"),
    "spot": lazy("spot"),
}
AUDIT_ACTIONS: dict[str, Word] = {
    "workflow.plan": lazy("planned it"),
    "workflow.request": lazy("asked for it"),
    "approval.vote": lazy("voted"),
    "batch.ask": lazy("asked for approval of a bulk action"),
    "batch.start": lazy("started a bulk action"),
    "batch.pause": lazy("paused a bulk action"),
    "batch.resume": lazy("resumed a bulk action"),
    "batch.cancel": lazy("cancelled a bulk action"),
    "batch.done": lazy("finished a bulk action"),
    "workflow.approve": lazy("approved the plan"),
    "workflow.abort": lazy("aborted the workflow"),
    "workflow.retry": lazy("asked to retry now"),
    "workflow.skip": lazy("skipped a step"),
    "workflow.blocked": lazy("was blocked"),
    "workflow.repair": lazy("handed it to people"),
    "workflow.succeeded": lazy("finished the workflow"),
    "workflow.failed": lazy("gave the workflow up"),
    "workflow.cancelled": lazy("cancelled the workflow"),
    "step.skip": lazy("skipped a step"),
    "step.done": lazy("finished a step"),
    "step.failed": lazy("failed a step"),
    "ticket.open": lazy("opened a ticket"),
    "ticket.close": lazy("closed the ticket"),
    "incident.open": lazy("opened an incident"),
    "incident.resolve": lazy("resolved the incident"),
    "remedy.bounced": lazy("counted a bounce: the same fault is back within a day of the return"),
    "remedy.again": lazy("counted a bounce: another fault took the node out within a day of the return"),
    "incident.acknowledge": lazy("acknowledged the incident"),
    "incident.mute": lazy("muted the incident"),
    "incident.unmute": lazy("unmuted the incident"),
    "workflow.exchange": lazy("exchanged the plan"),
    "node.state": lazy("moved the node"),
    "claim.grant": lazy("granted room"),
    "inventory.import": lazy("imported facts"),
    "workflow.reject": lazy("rejected the plan"),
    "workflow.release": lazy("released the node"),
    "step.retry": lazy("tried the step again"),
    "breaker.open": lazy("opened the breaker"),
    "workflow.withdraw": lazy("withdrew the workflow"),
    "hold.release": lazy("released a hold"),
    "node.retire": lazy("retired the node"),
    "breaker.reset": lazy("reset the breaker"),
    "switch.stop": lazy("stopped all new disruption"),
    "switch.resume": lazy("allowed disruption again"),
    "cluster.mode": lazy("changed the mode"),
    "incident.mode": lazy("changed the mode"),
    "policy.propose": lazy("proposed a change of the policy"),
    "policy.apply": lazy("changed the policy"),
    "policy.withdraw": lazy("withdrew a change of the policy"),
}


BESIDE: dict[str, Word] = {str(stance): lazy(text) for stance, text in DOES.items()}
"""What Muster does beside another owner of a node, by how that owner binds."""


def word(table: dict[str, Word], value: str) -> str:
    """The word for `value`; an unknown value is shown as it is, with spaces."""
    return str(table.get(value) or value.replace("_", " "))


def actor(name: str) -> str:
    """Who acted, as people call it: every process of ours is Muster."""
    return "Muster" if name == "muster" or name.startswith("muster:") else name


def duration(value: timedelta | float | None) -> str:
    """A length of time in at most two units; tenths below ten seconds, thousandths below a tenth."""
    if value is None:
        return ""
    seconds = max(0.0, value.total_seconds() if isinstance(value, timedelta) else float(value))
    if 0 < seconds < 0.1:
        return _("%(n)d ms") % {"n": max(1, round(seconds * 1000))}
    if seconds < 9.95:
        return _("%(n)s s") % {"n": f"{seconds:.1f}".removesuffix(".0")}
    if seconds < 90:
        return _("%(n)d s") % {"n": round(seconds)}
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 10:
        return _("%(m)d min %(s)d s") % {"m": minutes, "s": rest} if rest else _("%(n)d min") % {"n": minutes}
    if minutes < 90:
        return _("%(n)d min") % {"n": minutes}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(h)d h %(m)d min") % {"h": hours, "m": minutes} if minutes else _("%(n)d h") % {"n": hours}
    return days(hours // 24)


def days(count: int) -> str:
    return ngettext("%(n)d day", "%(n)d days", count) % {"n": count}


def countdown(until_seconds: float) -> str:
    """`m:ss` as a countdown shows it; never below zero."""
    minutes, seconds = divmod(max(0, round(until_seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
