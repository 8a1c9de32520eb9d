"""Reasons around installing a node anew and testing it on suspicion.

Decides the words for providers and active tests. Data only.
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import gettext_noop as noop

from fleet.readmodels.reasons.types import PEOPLE, PROVIDER, Reason, Word

_CLOSED = lazy("The ticket is closed; then the node is tested.")


def _people(name: Promise, text: Promise, do: Word, *says: str) -> Reason:
    return Reason(name, text, PEOPLE, _CLOSED, do, says, "tickets", True)


PROVISIONING: dict[str, Reason] = {
    "no_provisioner": _people(
        lazy("a provisioner"),
        lazy("No provisioner is configured for the cluster, so no node can be installed anew."),
        lazy("Configure one, or install the node by hand and close the ticket."),
        noop("No provisioner is configured for cluster %(cluster)s."),
    ),
    "provision_refused": _people(
        lazy("the provider's consent"),
        lazy("The provider says why the host must not be installed anew."),
        lazy("Do what the sentence says, and close the ticket."),
    ),
    "provision_state": Reason(
        lazy("the provider"),
        lazy("The host is not in a state in which it can be installed anew."),
        PROVIDER,
        lazy("The provider's host changes its state; after a while people are asked."),
        lazy("Look at the host in the provider's own tools."),
    ),
    "provision_failed": Reason(
        lazy("an installation"),
        lazy("The provider could not install the node anew."),
        PROVIDER,
        lazy("What the playbook says: the step again, the next rung, a ticket, or a person's word."),
        lazy("Read the provider's message in the output."),
    ),
    "provision_no_effect": Reason(
        lazy("an installation"),
        lazy("The provider took the requests and nothing began."),
        PROVIDER,
        lazy("What the playbook says: the step again, the next rung, a ticket, or a person's word."),
        lazy("Look at the provider's own log."),
        (noop("The provider took %(n)s requests and nothing began."),),
    ),
    "stalled": _people(
        lazy("a person, after a stall"),
        lazy("It stalled: it is past its time, and it may yet end well."),
        lazy("Look at it in the provider's own tools; close the ticket when it is over."),
        noop("Stalled after %(n)s min. %(rest)s"),
    ),
    "provision_image_lost": _people(
        lazy("an image"),
        lazy("It is no longer known which image the host had."),
        lazy("Set the image of the host in the provider's own tools, and close the ticket."),
    ),
    "provision_unknown_host": _people(
        lazy("a host of the provider"),
        lazy("The provider knows no such host, or more than one."),
        lazy("Give the host's name in the inventory, and close the ticket."),
    ),
    "not_drained": _people(
        lazy("a drained node"),
        lazy("The node is not drained, and nothing is tested under work."),
        lazy("Drain the node, and close the ticket."),
        noop("The node is %(state)s, not drained: it is not tested under work."),
    ),
    "no_result": _people(
        lazy("a test's result"),
        lazy("The node could not be tested."),
        lazy("Look why the node cannot run the test, and close the ticket."),
        noop("The node is not Ready and could not be tested."),
    ),
    "drift": Reason(
        lazy("the pool's common facts"),
        lazy("Its facts differ from the pool's."),
        PEOPLE,
        lazy("The facts agree, or the test's deadline counts as a failure."),
        lazy("Bring kernel, driver, image and kubelet to what the pool has; reprovision if in doubt."),
        (noop("Its facts differ from the pool's: %(what)s."),),
    ),
}
