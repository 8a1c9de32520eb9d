"""Every reason why something waits, in one place: code, sentence, who is waited for, what clears it, what one can do.

Decides what pages, API and command say for a code. Refuses a code that it does not know: a test walks the source and
holds every code there to be in here.
"""

from __future__ import annotations

from functools import lru_cache

from django.utils.translation import get_language

from fleet.readmodels.reasons.batches import BATCHES
from fleet.readmodels.reasons.guards import GUARDS
from fleet.readmodels.reasons.ports import PORTS
from fleet.readmodels.reasons.provisioning import PROVISIONING
from fleet.readmodels.reasons.steps import STEPS
from fleet.readmodels.reasons.types import SCOPES, Reason, names, parts_of, told
from fleet.readmodels.reasons.work import WORKLOADS

CATALOGUE: dict[str, Reason] = {**GUARDS, **BATCHES, **STEPS, **WORKLOADS, **PROVISIONING, **PORTS}

__all__ = ["CATALOGUE", "SCOPES", "Reason", "in_readers_words", "names", "of", "parts_of", "told"]


def of(code: str) -> Reason:
    """The entry of a code; one that a newer version wrote reads as a fault of the other side."""
    return CATALOGUE.get(code) or PORTS["port_error"]


def in_readers_words(stored: str) -> str:
    """A stored sentence whose code is not at hand, in the reader's language where one of the templates fits."""
    language = get_language() or "en"
    return stored if not stored or language.startswith("en") else _said_in(language, stored)


@lru_cache(maxsize=2048)
def _said_in(language: str, stored: str) -> str:
    found = next((reason for reason in CATALOGUE.values() if parts_of(reason, stored) is not None), None)
    return stored if found is None else told(found, stored)
