"""Reasons that come from the outside: API servers, BMCs, metrics, the fabric's manager, credentials.

Decides the words for every code of a port's error. The sentence stored with a workflow is the other side's own, with
its address; these say in general what it means and what to do. Data only.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as lazy

from fleet.readmodels.reasons.types import ADMIN, API, BMC, FABRIC, METRICS, PEOPLE, PROVIDER, SLURM, Reason, Word

_LATER = lazy("Nothing yet. If it lasts, look at that server and the way to it.")
_AGAIN = lazy("The other side answers again; it is tried again by itself.")
_MENDED = lazy("The cause is mended; it is tried again by itself.")


def _passing(
    name: Word,
    text: Word,
    who: Word,
    do: Word = _LATER,
) -> Reason:
    return Reason(name, text, who, _AGAIN, do)


def _away(who: Word, text: Word) -> Reason:
    """Somebody who does not serve now, and is waited for."""
    return _passing(who, text, who)


def _set_up(name: Word, text: Word, do: Word) -> Reason:
    """An admin must change something; time does not help."""
    return Reason(name, text, ADMIN, _MENDED, do, person=True)


def _ticketed(name: Word, text: Word, do: Word) -> Reason:
    """A BMC that cannot be used: after its patience people get a ticket."""
    return Reason(
        name, text, BMC, lazy("The BMC is put right; where a ticket is open, closing it."), do, (), "tickets", True
    )


_OTHER = lazy("the other side")
_CERTIFICATE = lazy(
    "Name a file with the certificate's issuer where the address is set, or give it a valid certificate."
)
_CREDENTIAL = lazy("Put a valid credential where its reference points to.")
_ADDRESS = lazy("Correct the address.")

PORTS: dict[str, Reason] = {
    "port_error": _away(_OTHER, lazy("The other side failed.")),
    "permanent": _set_up(
        lazy("an admin"), lazy("The other side refuses for good."), lazy("Do what the sentence says.")
    ),
    "temporary": _away(_OTHER, lazy("The other side failed for now.")),
    "unknown_outcome": _passing(
        lazy("what came of a call"),
        lazy("A call got no answer; what came of it is observed before anything else."),
        _OTHER,
        lazy("Nothing: it is never sent twice blindly."),
    ),
    "conflict": _passing(
        lazy("a fresh read"), lazy("Somebody changed the object at the same moment."), API, lazy("Nothing.")
    ),
    "already_exists": _passing(lazy("a name"), lazy("An object of that name exists already."), API),
    "hold_changed": Reason(
        lazy("another owner's hold"),
        lazy("The mark of the hold is not ours any more."),
        PEOPLE,
        lazy("The workflow sees who holds the node, and respects it."),
        lazy("Find out who changed the mark."),
        person=True,
    ),
    "resync": _passing(
        lazy("a fresh list"), lazy("The API server no longer has the history asked for."), API, lazy("Nothing.")
    ),
    "not_found": _set_up(
        lazy("an object"), lazy("An object that is needed does not exist."), lazy("Create what is named, or abort.")
    ),
    "missing_right": _set_up(
        lazy("a right"),
        lazy("The credential lacks a right in the cluster."),
        lazy("Add the named verb and resource to the role of Muster's account."),
    ),
    "identity_mismatch": Reason(
        lazy("the right machine"),
        lazy("Who answers is not the machine that was pinned; no power call follows."),
        PEOPLE,
        lazy("The inventory and the machine agree again; then the ticket is closed."),
        lazy("Compare serial and address in the inventory with the machine in the rack."),
        (),
        "tickets",
        True,
    ),
    "credential_refused": _set_up(
        lazy("a valid credential"), lazy("The API server refuses the credential."), _CREDENTIAL
    ),
    "no_credential": _set_up(
        lazy("an acting credential"),
        lazy("No credential to act with is set for the cluster."),
        lazy("Add one: manage.py cluster add NAME --act-kubeconfig FILE."),
    ),
    "kubeconfig": _set_up(
        lazy("a usable kubeconfig"), lazy("The kubeconfig cannot be used."), lazy("Mend the named file.")
    ),
    "kubeconfig_exec": _set_up(
        lazy("a permitted command"),
        lazy("The kubeconfig runs a command that no administrator allowed."),
        lazy("Allow it in MUSTER_KUBECONFIG_EXEC, or use a token."),
    ),
    "api_certificate": _set_up(
        lazy("a trusted certificate"), lazy("The API server's certificate is not trusted."), _CERTIFICATE
    ),
    "api_refused": _set_up(
        lazy("the API server's consent"),
        lazy("The API server refuses the request."),
        lazy("Do what its sentence says; an admission rule is often the cause."),
    ),
    "api_error": _away(API, lazy("The API server failed.")),
    "api_garbage": _away(API, lazy("The API server's answer cannot be understood.")),
    "api_unreachable": _away(API, lazy("The API server cannot be reached.")),
    "api_timeout": _away(API, lazy("The API server did not answer in time.")),
    "api_cut": _away(API, lazy("The API server's answer was cut off.")),
    "watch_cut": _away(API, lazy("A watch was cut off in the middle of a line.")),
    "watch_garbage": _away(API, lazy("A watch sent what cannot be understood.")),
    "throttled": _away(API, lazy("The API server asks to slow down.")),
    "namespace_terminating": _passing(lazy("a namespace"), lazy("The pod's namespace is being deleted."), API),
    "eviction_denied": _set_up(
        lazy("the consent of an admission rule"),
        lazy("Admission in the cluster refuses to let a pod go."),
        lazy("Ask the owner of the named rule or webhook; or force the drain, if another person agrees."),
    ),
    "pdb_many": _set_up(
        lazy("one budget for each pod"),
        lazy("More than one PodDisruptionBudget covers a pod, so it cannot be evicted."),
        lazy("Remove all but one of the named budgets."),
    ),
    "no_scheduler": _set_up(
        lazy("a scheduler"),
        lazy("No scheduler tells what runs on the node, so it cannot be drained."),
        lazy("Connect the node's cluster with its Kubernetes or Slurm."),
    ),
    "bad_targets": _set_up(
        lazy("a list of targets"), lazy("The list of targets cannot be used."), lazy("Mend the named file.")
    ),
    "too_large": _set_up(
        lazy("a smaller answer"), lazy("An answer was larger than is accepted."), lazy("Select less.")
    ),
    "bad_answer": _passing(lazy("an answer"), lazy("The answer cannot be understood."), _OTHER),
    "cut_answer": _passing(lazy("an answer"), lazy("The answer was cut off."), _OTHER),
    "bmc_unreachable": _ticketed(
        lazy("a BMC that answers"),
        lazy("The BMC cannot be reached."),
        lazy("Look at its network, or reset the BMC by hand."),
    ),
    "bmc_timeout": _passing(lazy("the BMC"), lazy("The BMC did not answer in time."), BMC),
    "bmc_busy": _passing(lazy("the BMC"), lazy("The BMC is busy."), BMC, lazy("Nothing yet.")),
    "bmc_error": _passing(lazy("the BMC"), lazy("The BMC failed."), BMC, lazy("Reset the BMC by hand if it lasts.")),
    "bmc_address": _ticketed(lazy("a BMC address"), lazy("The BMC's address is no address."), _ADDRESS),
    "bmc_ambiguous": _ticketed(
        lazy("one system behind a BMC"),
        lazy("The BMC manages more than one system and none matches the pinned one."),
        lazy("Give serial or UUID of the node in the inventory."),
    ),
    "bmc_certificate": _ticketed(lazy("a trusted BMC"), lazy("The BMC's certificate is not trusted."), _CERTIFICATE),
    "bmc_credential": _ticketed(lazy("a valid credential"), lazy("The BMC refuses the credential."), _CREDENTIAL),
    "bmc_not_found": _ticketed(
        lazy("a Redfish service"), lazy("There is no Redfish service at the BMC's address."), _ADDRESS
    ),
    "bmc_redirect": _ticketed(lazy("a BMC address"), lazy("The BMC redirects elsewhere."), _ADDRESS),
    "bmc_refused": _ticketed(
        lazy("the BMC's consent"), lazy("The BMC refuses the request."), lazy("Do what its sentence says.")
    ),
    "not_pinned": _ticketed(
        lazy("a pinned identity"),
        lazy("The BMC's serial or UUID is not pinned, so no power call is made."),
        lazy("Give serial or UUID of the node in the inventory: manage.py inventory import."),
    ),
    "reset_unsupported": _ticketed(
        lazy("another way to reset"),
        lazy("The BMC does not support such a power verb."),
        lazy("Power-cycle the node by hand."),
    ),
    "metrics_credential": _set_up(
        lazy("a valid credential"), lazy("The metrics API refuses the credential."), _CREDENTIAL
    ),
    "metrics_refused": _set_up(
        lazy("the metrics API's consent"),
        lazy("The metrics API refuses the query."),
        lazy("Do what its sentence says."),
    ),
    "metrics_tls": _set_up(
        lazy("a trusted certificate"), lazy("The metrics API's certificate is not accepted."), _CERTIFICATE
    ),
    "metrics_unavailable": _away(METRICS, lazy("The metrics API is not available.")),
    "metrics_unreachable": _away(METRICS, lazy("The metrics API cannot be reached.")),
    "query_timeout": _away(METRICS, lazy("A query took too long.")),
    "bad_query": _set_up(
        lazy("a query that is accepted"),
        lazy("The metrics API does not accept a query."),
        lazy("Report it with the query."),
    ),
    "no_query_api": _set_up(lazy("a query API"), lazy("There is no query API at the address."), _ADDRESS),
    "fabric_credential": _set_up(
        lazy("a valid credential"), lazy("The fabric's manager refuses the credential."), _CREDENTIAL
    ),
    "fabric_refused": _set_up(
        lazy("the fabric manager's consent"),
        lazy("The fabric's manager refuses the request."),
        lazy("Do what its sentence says."),
    ),
    "fabric_tls": _set_up(
        lazy("a trusted certificate"), lazy("The fabric manager's certificate is not accepted."), _CERTIFICATE
    ),
    "fabric_timeout": _away(FABRIC, lazy("The fabric's manager did not answer in time.")),
    "fabric_unavailable": _away(FABRIC, lazy("The fabric's manager is not available.")),
    "fabric_unreachable": _away(FABRIC, lazy("The fabric's manager cannot be reached.")),
    "slurm_error": _away(SLURM, lazy("Slurm refused what it was asked.")),
    "slurm_garbage": _away(SLURM, lazy("Slurm's REST server answered with something that is no JSON.")),
    "slurm_read_only": _set_up(
        lazy("a newer Slurm"),
        lazy("This version of Slurm takes no changes by its REST server."),
        lazy("Update Slurm, or let Muster use its command line."),
    ),
    "slurm_no_tests": _set_up(
        lazy("a folder for tests"),
        lazy("Tests on Slurm's nodes have no folder for what they print."),
        lazy("Set MUSTER_SLURM_TEST_OUTPUT; or test the node, then skip the step, or abort."),
    ),
    "slurm_reserved": _set_up(
        lazy("a reservation of its own"),
        lazy("Slurm's reservations do not keep the node for its tests alone."),
        lazy("End what the sentence names; or test the node, then skip the step, or abort."),
    ),
    "slurm_scontrol": _set_up(
        lazy("Slurm's command line"),
        lazy("Slurm's command scontrol cannot be started."),
        lazy("Correct the path in --scontrol."),
    ),
    "slurm_timeout": _away(SLURM, lazy("Slurm's REST server did not answer in time.")),
    "slurm_tls": _set_up(
        lazy("a valid certificate"), lazy("The certificate of Slurm's REST server is not accepted."), _CERTIFICATE
    ),
    "slurm_token": _set_up(lazy("a token of Slurm"), lazy("Slurm's token cannot be read."), _CREDENTIAL),
    "slurm_unreachable": _away(SLURM, lazy("Slurm's REST server cannot be reached.")),
    "slurm_version": _set_up(
        lazy("a version of its API that is known"),
        lazy("Slurm's REST server serves no version of its API that is known here."),
        lazy("Let slurmrestd serve one of the versions that the sentence names."),
    ),
    "no_fabric_api": _set_up(lazy("an API of the fabric"), lazy("There is no such API at the address."), _ADDRESS),
    "provider_busy": _passing(lazy("the provider"), lazy("The provider is busy."), PROVIDER),
    "provider_error": _passing(lazy("the provider"), lazy("The provider failed."), PROVIDER),
    "provider_garbage": _passing(lazy("the provider"), lazy("The provider's answer cannot be understood."), PROVIDER),
    "provider_locked": _passing(lazy("the provider"), lazy("Somebody else holds the host at the provider."), PROVIDER),
    "provider_timeout": _passing(lazy("the provider"), lazy("The provider did not answer in time."), PROVIDER),
    "provider_unreachable": _passing(lazy("the provider"), lazy("The provider cannot be reached."), PROVIDER),
    "provider_certificate": _set_up(
        lazy("a trusted certificate"), lazy("The provider's certificate is not trusted."), _CERTIFICATE
    ),
    "provider_credential": _set_up(
        lazy("a valid credential"), lazy("The provider refuses the credential."), _CREDENTIAL
    ),
    "provider_refused": _set_up(
        lazy("the provider's consent"), lazy("The provider refuses the request."), lazy("Do what its sentence says.")
    ),
    "provider_version": _set_up(
        lazy("a version that is spoken"),
        lazy("The provider does not speak the version that is needed."),
        lazy("Upgrade the provider, or use another one."),
    ),
}
