"""Shares of the in-flight cap that nobody uses.

Decides that whoever is told to wait, and has done nothing since it got its share, gives it back: two that kept theirs
under a cap for one would wait for each other for ever. Refuses to take the share of a workflow that has written down an
act since: its node may be off.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Exists, OuterRef

from fleet.lifecycle.models import Intent
from fleet.policy.models import Claim
from fleet.policy.rules import IN_FLIGHT

_SINCE = Intent.objects.filter(workflow_id=OuterRef("workflow_id"), created_at__gte=OuterRef("claimed_at"))
_OPEN = Claim.objects.filter(kind=IN_FLIGHT, released_at=None)
UNDER_WAY = Exists(_OPEN.filter(Exists(_SINCE), workflow_id=OuterRef("pk")))
"""Of a workflow: it has its share, and has written down an act since."""


def give_back(workflow_ids: Collection[int], now: datetime) -> int:
    """How many shares were free again by it. One statement."""
    return _OPEN.filter(workflow_id__in=workflow_ids).exclude(Exists(_SINCE)).update(released_at=now)
