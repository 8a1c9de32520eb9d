"""Which messages wake workflows.

Decides that holds go together, a few to a message and before everything else (until a node is held it takes new work),
and that every other step has a message of its own. Refuses to carry more than ids and versions, and to send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.lifecycle.playbooks import HOLD

TOGETHER = 24
"""Holds of one message: few enough to be through well within their lease, many enough to share their transactions."""


def of(awake: Iterable[tuple[int, int, str]]) -> list[tuple[str, dict[str, Any]]]:
    """(task, arguments) of each message for workflows as (id, version, verb of the step)."""
    rows = list(awake)
    holds = [[pk, version] for pk, version, verb in rows if verb == HOLD]
    some = [holds[start : start + TOGETHER] for start in range(0, len(holds), TOGETHER)]
    others = [{"workflow_id": pk, "version": version} for pk, version, verb in rows if verb != HOLD]
    return [("tasks.hold", {"holds": part}) for part in some] + [("tasks.advance", one) for one in others]
