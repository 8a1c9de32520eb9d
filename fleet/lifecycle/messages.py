"""Which messages wake workflows, and which of them can wait for others.

Decides that holds go together, a few to a message and before everything else (until a node is held it takes new work),
and that every other step has a message of its own. When more is due than the workers can do, work is moved off sick
nodes first and they are healed then: a job loses by each minute on them, an empty node loses nothing more. Refuses to
carry more than ids and versions, and to send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.lifecycle.playbooks import CONFIRM, HOLD, KEEP, REMEDIES, SOAK, VALIDATE, WAIT_REPAIR

TOGETHER = 24
"""Holds of one message: few enough to be through well within their lease, many enough to share their transactions."""

CAN_WAIT = {CONFIRM, *REMEDIES, WAIT_REPAIR, KEEP, VALIDATE, SOAK}
"""Steps on a node without work. Returning and releasing it are not among them: they give room back."""


def of(awake: Iterable[tuple[int, int, str]]) -> list[tuple[str, dict[str, Any]]]:
    """(task, arguments) of each message for workflows as (id, version, verb of the step)."""
    rows = list(awake)
    holds = [[pk, version] for pk, version, verb in rows if verb == HOLD]
    some = [holds[start : start + TOGETHER] for start in range(0, len(holds), TOGETHER)]
    return [("tasks.hold", {"holds": part}) for part in some] + [
        ("tasks.advance", {"workflow_id": pk, "version": version, "can_wait": verb in CAN_WAIT})
        for pk, version, verb in rows
        if verb != HOLD
    ]
