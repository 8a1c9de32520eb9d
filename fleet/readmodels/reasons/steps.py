"""Reasons that steps give while they wait, and why a try failed or people must repair.

Decides the words for drains, remedies, tests, returns and tickets. Data only.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import gettext_noop as noop

from fleet.readmodels.reasons.types import ADMIN, DATA, NODE, OWNER, PEOPLE, WORK, Reason, Word

_REPAIR = lazy("The ticket is closed; then the node is tested.")


def _failed(name: Word, text: Word, do: Word, *says: str) -> Reason:
    """A try that failed: the playbook says what follows, so nobody waits for it by itself."""
    follows = lazy("What the playbook says: the step again, the next rung, a ticket, or a person's word.")
    return Reason(name, text, NODE, follows, do, says)


def _people(name: Word, text: Word, do: Word, *says: str) -> Reason:
    """Only people can mend it: a ticket is open."""
    return Reason(name, text, PEOPLE, _REPAIR, do, says, "tickets", True)


STEPS: dict[str, Reason] = {
    "pdb": Reason(
        lazy("a PodDisruptionBudget"),
        lazy("A PodDisruptionBudget refuses to let a pod go now."),
        WORK,
        lazy("The budget yields: another replica becomes ready, or its job ends."),
        lazy("Ask the owner of the job; raise the budget; or force the drain, if another person agrees."),
        (
            noop("PDB %(budgets)s keeps %(names)s. Waits for a person's approval to delete them."),
            noop("PDB %(budgets)s keeps %(names)s."),
        ),
    ),
    "driver_word": Reason(
        lazy("the driver's own request"),
        lazy("The driver may still say what it needs (Xid 154)."),
        DATA,
        lazy("That line, or a few seconds without it."),
        lazy("Nothing."),
        (noop("Held. The driver may still say what it needs (Xid 154); what follows the hold is chosen then."),),
    ),
    "deadline": Reason(
        lazy("a person, after a deadline"),
        lazy("The step has not ended in its time."),
        PEOPLE,
        lazy("A person retries, skips or aborts; or the step ends after all."),
        lazy("Look at what keeps the step, then retry, skip with a reason, or abort."),
        (noop("%(step)s has not ended in %(time)s. %(rest)s A person decides: retry, skip or abort."),),
        person=True,
    ),
    "stopped_here": Reason(
        lazy("a person, after a failure"),
        lazy("The step failed and its playbook stops there."),
        PEOPLE,
        lazy("A person retries, skips or aborts."),
        lazy("Read what failed in the output, then retry, skip with a reason, or abort."),
        (noop("%(rest)s A person decides: retry, skip or abort."),),
        person=True,
    ),
    "kept": Reason(
        lazy("a person's release"),
        lazy("A person keeps the node."),
        PEOPLE,
        lazy("A person releases it."),
        lazy("Ask who keeps it; release it on the node's page."),
        (noop("Kept by %(by)s: %(reason)s. Release it to give it back."),),
        person=True,
    ),
    "ticket": Reason(
        lazy("a repair"),
        lazy("People must repair the node; a ticket is open."),
        PEOPLE,
        _REPAIR,
        lazy("Repair it, write what was done, and close the ticket."),
        (noop("Waits for %(ticket)s: %(why)s"),),
        "tickets",
        True,
    ),
    "foreign_hold": Reason(
        lazy("another owner's hold"),
        lazy("Somebody else holds the node; that is respected."),
        OWNER,
        lazy("The other owner lets the node go."),
        lazy("Find out who cordoned it and why; uncordon it when it is yours to do so."),
        (noop("Another hold stands on the node: %(there)s."),),
        person=True,
    ),
    "owner": Reason(
        lazy("another owner of the node"),
        lazy("Another controller or a person works on the node; that is respected."),
        OWNER,
        lazy("The other owner ends what it does."),
        lazy("Wait; or ask the owner that is named to let the node go."),
        (
            noop("%(who)s. Muster begins nothing on the node before that has ended."),
            noop("%(who)s. Muster returns the node when nobody else holds it any more."),
            noop("%(who)s; nothing more is done to it."),
        ),
    ),
    "other_installation": Reason(
        lazy("another installation"),
        lazy("Another installation of Muster holds this cluster's Lease."),
        PEOPLE,
        lazy("The other installation gives the Lease up, or it runs out."),
        lazy("Let one installation act on a cluster: stop the copy, or set it to observe."),
        (noop("Another installation of Muster holds this cluster's Lease."),),
        "fleet",
        True,
    ),
    "internal_error": Reason(
        lazy("a fault of Muster"),
        lazy("Muster itself failed in this step; it is tried again."),
        PEOPLE,
        lazy("The cause is mended, in Muster or around it."),
        lazy("Look into the worker's log, and report it with the workflow's number."),
        person=True,
    ),
    "no_data": Reason(
        lazy("fresh data"),
        lazy("No fresh data has come, and old data proves nothing."),
        DATA,
        lazy("Fresh telemetry of the node."),
        lazy("Look whether its exporters run and are scraped."),
        (
            noop("No telemetry has come since the remediation."),
            noop("No fresh data, so its time does not count: %(why)s"),
            noop("No observer watches this cluster since %(since)s UTC: what is known is too old to act upon."),
            noop("No observer watches this cluster yet: what is known is too old to act upon."),
        ),
    ),
    "not_ready": Reason(
        lazy("a Ready node"),
        lazy("The node is not Ready, so it cannot be tested."),
        NODE,
        lazy("Its kubelet reports Ready."),
        lazy("Look at the kubelet's log and the node's console."),
        (noop("The node is not Ready: %(why)s."),),
    ),
    "still_bad": Reason(
        lazy("the end of a signal"),
        lazy("A signal of the fault still stands on the node."),
        NODE,
        lazy("The signal clears, or the test's deadline counts as a failure."),
        lazy("Look at the node's signals; what stands is named."),
        (noop("Still open: %(what)s"),),
    ),
    "gpu_count": Reason(
        lazy("all GPUs"),
        lazy("The counts of its GPUs do not agree."),
        NODE,
        lazy("Every source counts the same GPUs, or the test's deadline counts as a failure."),
        lazy("Compare what the PCI bus, the driver, DCGM and Kubernetes see on the node."),
        (noop("Kubernetes offers %(offered)s of %(all)s GPUs."),),
    ),
    "gpu_in_use": Reason(
        lazy("an idle GPU"),
        lazy("Something on the node may still use a GPU; a reset would end it without a word."),
        WORK,
        lazy("The named pods end."),
        lazy("End the named pods, or skip the step with a reason."),
        (noop("%(names)s may still use a GPU of this node; a reset would end it without a word."),),
    ),
    "nvlink_busy": Reason(
        lazy("an idle NVLink domain"),
        lazy("Work runs in the node's NVLink domain; a reset here would break it."),
        WORK,
        lazy("The work of the domain ends; after a deadline people are asked."),
        lazy("Agree with the owner of the work on a time, or drain the domain's other nodes."),
        (noop("NVLink domain %(domain)s runs work on %(names)s; a reset here would break it."),),
    ),
    "force_refused": Reason(
        lazy("the right to delete pods"),
        lazy("People agreed to force the drain, and Muster's account may not delete pods in this cluster."),
        ADMIN,
        lazy("The right is given: it is asked again every 5 min, or at once by a retry."),
        lazy("Apply deploy/kustomize/components/force-drain, or move the named pods by hand."),
        (noop("%(by)s agreed to delete %(pods)s, and the API server refuses: %(why)s Its budget still keeps it."),),
        person=True,
    ),
    "not_released": Reason(
        lazy("the release of the hold"),
        lazy("The API server took the release of our hold, and the hold still stands on the node."),
        NODE,
        lazy("Another look at the node that finds the hold gone; it is asked again at least every 5 min."),
        lazy("Look at admission webhooks and whatever else writes to the node; uncordon it by hand if it must serve."),
        (noop("The API server said yes %(n)s times, and our hold still stands on the node. It is asked again."),),
    ),
    "kubelet_answers": Reason(
        lazy("a host that is lost"),
        lazy("Its kubelet answers, so the host is not lost and is not fenced."),
        NODE,
        lazy("The kubelet falls silent, or the node becomes Ready and the plan ends."),
        lazy("Look at the kubelet: it reports NotReady and says why."),
        (noop("Its kubelet answers and says NotReady: it is not lost, so it is not fenced."),),
    ),
    "gpu_services": _failed(
        lazy("the GPU services"),
        lazy("A service of the GPU Operator did not leave the node, so no GPU can be reset."),
        lazy("Look at the named pod and its node."),
        noop("%(pod)s has not left the node in %(n)s min."),
    ),
    "reset_failed": _failed(
        lazy("a failed GPU reset"),
        lazy("The GPU could not be reset."),
        lazy("Read the Job's message in the output."),
    ),
    "reset_timeout": _failed(
        lazy("a slow GPU reset"),
        lazy("The reset Job did not end in its time."),
        lazy("Look whether the node runs Jobs at all, and whether the image can be pulled."),
    ),
    "reset_lost": _failed(
        lazy("a lost GPU reset"),
        lazy("The reset Job vanished before its result was read."),
        lazy("Find out who removes Jobs from that namespace."),
        noop("Somebody removed the reset Job before its result was read."),
        noop("The reset Job never appeared."),
    ),
    "soak_unhealthy": _failed(
        lazy("a fault during the soak"),
        lazy("The node became unhealthy again while it was watched."),
        lazy("Look at the signals of the soak."),
        noop("Unhealthy again while it was watched: %(why)s"),
    ),
    "validation_failed": _failed(
        lazy("a failed test"),
        lazy("The node did not pass its test."),
        lazy("Read the test's result on this page."),
    ),
    "validation_timeout": _failed(
        lazy("a test without end"),
        lazy("The node could not be validated in time."),
        lazy("Look at what the test waited for; it is named."),
    ),
    "replace_part": _people(
        lazy("a new part"),
        lazy("A part must be replaced."),
        lazy("Replace the part that the ticket names, and close it."),
    ),
    "bmc_no_effect": _people(
        lazy("a BMC that acts"),
        lazy("The BMC took resets and the node never rebooted."),
        lazy("Reset the BMC itself, or power the node by hand, and close the ticket."),
        noop("The BMC took %(n)s resets and the node never rebooted."),
    ),
    "no_bmc": _people(
        lazy("a BMC address"),
        lazy("No BMC address is known for the node, so its power cannot be switched."),
        lazy("Add its BMC: manage.py inventory import; then close the ticket."),
        noop("No BMC address is known for this node: manage.py inventory import."),
        noop("The BMC is no longer in the inventory; the host stays off."),
        noop("The BMC that took the reset is no longer in the inventory."),
    ),
    "not_back": _people(
        lazy("a node that boots"),
        lazy("The node did not come back after its power verb."),
        lazy("Look at its console; mend what keeps it from booting, and close the ticket."),
        noop("Not back %(n)s min after the reset."),
        noop("Not back %(n)s min after its power came on; it stays out of service."),
    ),
    "not_off": _people(
        lazy("a power-off"),
        lazy("The BMC took power-offs and the power is still on; nothing is proved, so nothing follows."),
        lazy("Cut the host's power by hand, and close the ticket."),
        noop("The BMC took %(n)s power-offs and the power is still on."),
    ),
    "not_on": _people(
        lazy("a power-on"),
        lazy("The BMC took power-ons and the power is still off."),
        lazy("Power the host on by hand, and close the ticket."),
        noop("The BMC took %(n)s power-ons and the power is still off."),
    ),
}
