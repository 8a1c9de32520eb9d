"""Which tests prove which node.

Decides the words of a suite (its tests, for which nodes, how hard each purpose tests) and which suite answers a node:
the first whose match fits. Pure: no Django, no I/O; `suite_file` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from fnmatch import fnmatchcase

from fleet.lifecycle.validation import storage
from fleet.lifecycle.validation.findings import Status
from fleet.lifecycle.validation.judge import Limit
from fleet.lifecycle.validation.reading import DCGM, NCCL, STORAGE

VALIDATE, CONFIRM, BURN_IN = "validate", "confirm", "burn_in"
PURPOSES = (VALIDATE, CONFIRM, BURN_IN)
ALL_GPUS = -1

LEVELS = {VALIDATE: 2, CONFIRM: 3, BURN_IN: 3}
"""Of DCGM: 1 takes seconds, 2 some two minutes, 3 a quarter of an hour under full load."""
CONFIRM_DEGRADED = 2
"""A suspicion that is no more than degraded is worth two minutes, not a quarter of an hour."""
MINUTES = {1: 10, 2: 20, 3: 60}
"""How long a Job may take before it counts as hung: some four times the usual."""

COMMANDS: dict[str, tuple[str, ...]] = {
    # The image of DCGM runs no host engine when its command is replaced; dcgmi asks one.
    DCGM: ("sh", "-c", "nv-hostengine >/dev/null 2>&1; exec dcgmi diag -r {level} -j"),
    NCCL: ("all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "{gpus}"),
    STORAGE: ("bash", "-c", storage.SCRIPT, "probe"),
}
LIMITS: dict[str, Limit] = {
    DCGM: Limit(of_baseline=0.8, below=Status.WARN),
    NCCL: Limit(measure="busbw"),
    STORAGE: Limit(of_baseline=0.5, below=Status.WARN),  # a shared server is slow for everybody at times
}


@dataclass(frozen=True, slots=True)
class Test:
    """One Job. `image` "" is the installation's own; `levels` by purpose; `gpus` ALL_GPUS means what the node has."""

    __test__ = False

    name: str
    kind: str
    image: str = ""
    command: tuple[str, ...] = ()
    levels: tuple[tuple[str, int], ...] = ()
    minutes: int = 0
    gpus: int = ALL_GPUS
    mounts: tuple[str, ...] = ()
    limit: Limit = field(default_factory=Limit)
    purposes: tuple[str, ...] = PURPOSES

    def level(self, purpose: str, severity: str = "") -> int:
        """How hard it tests; a suite's own number wins."""
        own = dict(self.levels).get(purpose)
        if own is not None:
            return own
        if purpose == CONFIRM and severity != "unhealthy":
            return CONFIRM_DEGRADED
        return LEVELS[purpose]

    def deadline(self, level: int) -> int:
        """Seconds after which the Job counts as hung."""
        return 60 * (self.minutes or (MINUTES.get(level, 60) if self.kind == DCGM else 20))

    def argv(self, level: int, gpus: int) -> tuple[str, ...]:
        """The command with its level and number of GPUs filled in; a storage probe gets its mounts as arguments."""
        told = self.command or COMMANDS.get(self.kind, ())
        if not self.command and self.kind == STORAGE:
            return (*told, *self.mounts)
        return tuple(part.replace("{level}", str(level)).replace("{gpus}", str(gpus)) for part in told)


@dataclass(frozen=True, slots=True)
class Suite:
    """Empty matches mean any; names may hold `*`."""

    name: str
    tests: tuple[Test, ...]
    pool: tuple[str, ...] = ()
    pool_kind: tuple[str, ...] = ()
    sku: tuple[str, ...] = ()
    source: str = "built in"

    def fits(self, pool: str, pool_kind: str, sku: str) -> bool:
        return _any(self.pool, pool) and _any(self.pool_kind, pool_kind) and _any(self.sku, sku)

    def of(self, purpose: str) -> tuple[Test, ...]:
        return tuple(test for test in self.tests if purpose in test.purposes)


@dataclass(frozen=True, slots=True)
class BurnIn:
    """Idle nodes of these pools are tested every so often, at most `at_once` of a cluster, between `start` and `end`.

    `priority_class` must be one that every other pod outranks; "" leaves the pod at the cluster's usual priority, where
    only our own watch clears the way.
    """

    pools: tuple[str, ...]
    every: timedelta = timedelta(days=7)
    at_once: int = 1
    priority_class: str = ""
    start: time | None = None
    end: time | None = None
    zone: str = "UTC"

    def covers(self, pool: str) -> bool:
        return _any(self.pools, pool)


@dataclass(frozen=True, slots=True)
class Suites:
    """In the order in which they are asked. `problem` says why a site's file is not part of it."""

    suites: tuple[Suite, ...] = ()
    burn_in: BurnIn | None = None
    confirm_pools: tuple[str, ...] = ()
    problem: str = ""

    def answer(self, pool: str, pool_kind: str, sku: str) -> Suite | None:
        return next((suite for suite in self.suites if suite.fits(pool, pool_kind, sku)), None)

    def confirms_alone(self, pool: str) -> bool:
        """May a mere suspicion take a node of this pool out without a person's word?"""
        return bool(self.confirm_pools) and _any(self.confirm_pools, pool)


def _any(patterns: Sequence[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)
