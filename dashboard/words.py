"""The words, letters and classes of verdicts and states, in one table.

Decides how a verdict or a state is named and marked on every page. Refuses colour alone: each verdict has a shape, a
letter and a word.
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Word = str | Promise

VERDICT_CLASS: dict[str, str] = {
    "healthy": "ok",
    "degraded": "warn",
    "unhealthy": "bad",
    "unknown": "unk",
    "lost": "lost",
}
VERDICT_LETTER: dict[str, str] = {"healthy": "H", "degraded": "D", "unhealthy": "U", "unknown": "?", "lost": "L"}
VERDICT_WORD: dict[str, Word] = {
    "healthy": _("healthy"),
    "degraded": _("degraded"),
    "unhealthy": _("unhealthy"),
    "unknown": _("unknown"),
    "lost": _("lost"),
}
VERDICT_ORDER = ("unhealthy", "lost", "degraded", "unknown", "healthy")

STATE_WORD: dict[str, Word] = {
    "in_service": _("in service"),
    "suspect": _("suspect"),
    "held": _("held"),
    "draining": _("draining"),
    "drained": _("drained"),
    "remediating": _("remediating"),
    "validating": _("validating"),
    "soaking": _("soaking"),
    "awaiting_repair": _("awaiting repair"),
    "released": _("released"),
    "unmanaged": _("unmanaged"),
    "retired": _("retired"),
}
STATE_CLASS: dict[str, str] = {
    "in_service": "b-line",
    "suspect": "b-line",
    "held": "b-go",
    "draining": "b-go",
    "drained": "b-go",
    "remediating": "b-go",
    "validating": "b-go",
    "soaking": "b-go",
    "awaiting_repair": "b-go",
    "released": "b-line",
    "unmanaged": "b-line",
    "retired": "b-line",
}
STATE_ORDER = tuple(STATE_WORD)

WORKFLOW_WORD: dict[str, Word] = {
    "planned": _("planned"),
    "waiting": _("waiting for approval"),
    "running": _("running"),
    "blocked": _("blocked"),
    "repair": _("in repair"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
}
WORKFLOW_CLASS: dict[str, str] = {
    "planned": "b-line",
    "waiting": "b-warn",
    "running": "b-go",
    "blocked": "b-warn",
    "repair": "b-go",
    "succeeded": "b-line",
    "failed": "b-bad",
    "cancelled": "b-line",
}

VERB_WORD: dict[str, Word] = {
    "hold": _("hold"),
    "drain": _("drain"),
    "reset_gpu": _("reset GPU"),
    "reboot": _("reboot"),
    "power_cycle": _("power-cycle"),
    "reprovision": _("reprovision"),
    "validate": _("validate"),
    "soak": _("soak"),
    "return": _("return"),
    "ticket": _("ticket"),
    "wait_repair": _("wait for repair"),
    "fence": _("fence"),
    "keep": _("kept until released"),
    "release": _("release"),
}
VERB_NEXT: dict[str, Word] = {
    "hold": _("Being held"),
    "drain": _("Being drained"),
    "reset_gpu": _("GPU reset"),
    "reboot": _("Reboot"),
    "power_cycle": _("Power-cycle"),
    "reprovision": _("Reprovision"),
    "validate": _("Validation"),
    "soak": _("Soak, then return"),
    "return": _("Return to service"),
    "ticket": _("Repair by people"),
    "wait_repair": _("Repair by people"),
    "fence": _("Fencing"),
    "keep": _("A person releases it"),
    "release": _("Release"),
}
BATCH_CLASS: dict[str, str] = {
    "draft": "b-line",
    "waiting": "b-warn",
    "running": "b-go",
    "paused": "b-warn",
    "done": "b-line",
    "cancelled": "b-line",
}
MEMBER_CLASS: dict[str, str] = {
    "now": "b-ok",
    "waits": "b-warn",
    "pending": "b-warn",
    "begun": "b-go",
    "done": "b-ok",
    "failed": "b-bad",
    "refused": "b-line",
}
APPROVAL_CLASS: dict[str, str] = {
    "pending": "b-warn",
    "approved": "b-ok",
    "rejected": "b-bad",
    "expired": "b-line",
    "withdrawn": "b-line",
}
INTENT_WORD: dict[str, Word] = {
    "evict": _("evict"),
    "ray_drain": _("tell Ray"),
    "suspend": _("suspend the job"),
    "resume": _("start the job again"),
    "delete": _("delete"),
    "probe": _("look at the BMC"),
    "provision": _("set its image"),
    "pause_gpu": _("pause GPU services"),
    "resume_gpu": _("resume GPU services"),
    "stop_test": _("stop a test"),
    "unfence": _("take the fence off"),
}
"""Acts that are no verb of a playbook."""
INTENT_OUTCOME: dict[str, Word] = {
    "done": _("done"),
    "refused": _("refused"),
    "unknown": _("no answer"),
    "expired": _("no answer in time"),
}
MODE_WORD: dict[str, Word] = {"observe": _("Observe"), "recommend": _("Recommend"), "automate": _("Automate")}
ROLE_WORD: dict[str, Word] = {
    "viewer": _("viewer"),
    "operator": _("operator"),
    "approver": _("approver"),
    "policy": _("policy"),
    "admin": _("admin"),
}


def capital(word: Word) -> str:
    text = str(word)
    return text[:1].upper() + text[1:]
