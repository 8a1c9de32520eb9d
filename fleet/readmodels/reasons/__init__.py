"""Every reason why something waits, in one place: code, sentence, who is waited for, what clears it, what one can do.

Decides what pages, API and command say for a code. Refuses a code that it does not know: a test walks the source and
holds every code there to be in here.
"""

from __future__ import annotations

from fleet.readmodels.reasons.batches import BATCHES
from fleet.readmodels.reasons.guards import GUARDS
from fleet.readmodels.reasons.ports import PORTS
from fleet.readmodels.reasons.provisioning import PROVISIONING
from fleet.readmodels.reasons.steps import STEPS
from fleet.readmodels.reasons.types import SCOPES, Reason, parts_of, told
from fleet.readmodels.reasons.work import WORKLOADS

CATALOGUE: dict[str, Reason] = {**GUARDS, **BATCHES, **STEPS, **WORKLOADS, **PROVISIONING, **PORTS}

__all__ = ["CATALOGUE", "SCOPES", "Reason", "of", "parts_of", "told"]


def of(code: str) -> Reason:
    """The entry of a code; one that a newer version wrote reads as a fault of the other side."""
    return CATALOGUE.get(code) or PORTS["port_error"]
