"""What a Train run does when a worker dies.

Decides by its failure configuration (Ray's default of 0 ends the run with the first failure), by how much of it is
used, and by whether its number of workers may shrink. Refuses runs that are over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.gangs.conditions.condition import Condition, found
from fleet.ports.ray import TrainRun

OVER = frozenset({"FINISHED", "ERRORED", "ABORTED"})
ENDLESS = -1  # Ray's word for: try again for ever


def live(runs: Iterable[TrainRun]) -> Iterator[TrainRun]:
    return (run for run in runs if run.status not in OVER)


def failures(key: str, runs: Iterable[TrainRun]) -> Iterator[Condition]:
    for run in live(runs):
        allowed, failed = run.max_failures, max(0, run.attempts - 1)
        if not allowed:
            yield found("failures_none", key, "warning", run.name, workers=run.workers[1])
        elif allowed != ENDLESS and failed >= allowed:
            yield found("failures_spent", key, "critical", run.name, failed=failed, allowed=allowed)
        if run.workers[0] == run.workers[1] and run.workers[1] > 1:
            yield found("elastic_missing", key, "notice", run.name, workers=run.workers[1])
