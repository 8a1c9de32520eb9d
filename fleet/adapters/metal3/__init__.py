"""Metal3 as a provisioner: BareMetalHost objects in the API server that manages the hosts.

Decides only the entry point that `fleet.wiring` calls. The API server's client is handed in: adapters do not know each
other.
"""

from __future__ import annotations

from fleet.adapters.metal3.driver import Metal3Provisioner, Objects


def provisioner(objects: Objects, namespace: str) -> Metal3Provisioner:
    """A ProvisionPort on the BareMetalHosts of one namespace."""
    return Metal3Provisioner(objects, namespace)
