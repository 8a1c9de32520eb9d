"""What people ask to have done to nodes: an action by its verb, or a playbook by its name.

Decides the plan of each, on which nodes it may run and which kinds of approval it needs. A playbook is taken as it is
now: what is kept of it is what runs, whatever becomes of the book. Refuses a name that the book does not have, a
version other than the one in force, and a playbook that is for hosts that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.inventory.models import Node
from fleet.lifecycle.playbooks import (
    DRAIN,
    FENCE,
    HOLD,
    KEEP,
    POWER_CYCLE,
    REBOOT,
    RELEASE,
    REPROVISION,
    RESET_GPU,
    RETURN,
    SOAK,
    VALIDATE,
    Book,
    Match,
    PlannedStep,
    adapted,
)
from fleet.policy import approvals

PLAYBOOK = "playbook"
_BACK = (VALIDATE, SOAK, RETURN)
ACTIONS: dict[str, tuple[str, ...]] = {
    HOLD: (HOLD, KEEP),
    DRAIN: (HOLD, DRAIN, KEEP),
    RESET_GPU: (HOLD, DRAIN, RESET_GPU, *_BACK),
    REBOOT: (HOLD, DRAIN, REBOOT, *_BACK),
    POWER_CYCLE: (HOLD, DRAIN, POWER_CYCLE, *_BACK),
    REPROVISION: (HOLD, DRAIN, REPROVISION, *_BACK),
    VALIDATE: (HOLD, DRAIN, *_BACK),
}
APPROVALS = {REBOOT: approvals.BMC_POWER, POWER_CYCLE: approvals.BMC_POWER, REPROVISION: approvals.REPROVISION}
"""Verbs that other people must agree to when a person asks for them; how many is the installation's rule."""


class Unknown(Exception):
    """There is no such action or playbook; the text says which there are."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`playbook` names its workflows; `version` is "" of an action. `where`: pools and SKUs that a playbook is for."""

    action: str
    playbook: str = ""
    steps: tuple[PlannedStep, ...] = ()
    attempts: int = 1
    version: str = ""
    where: Match = field(default_factory=Match)

    @property
    def verbs(self) -> tuple[str, ...]:
        """Every verb that it may come to, with all rungs."""
        return tuple(verb for step in self.steps for verb in step.ladder or (step.verb,))

    @property
    def kinds(self) -> list[str]:
        """Which kinds of approval its verbs need."""
        return list(dict.fromkeys(APPROVALS[verb] for verb in self.verbs if verb in APPROVALS))

    def plan(self) -> list[dict[str, Any]]:
        return [step.as_json() for step in self.steps]

    def suits(self, node: Node) -> bool:
        """Is it for nodes of that pool and SKU?"""
        pool = node.pool
        return self.where.suits(pool.name if pool else "", pool.kind if pool else "bare_metal", node.gpu_model)


def of_action(action: str) -> Asked:
    """Raises Unknown."""
    if action == RELEASE:
        return Asked(RELEASE)
    if action not in ACTIONS:
        raise Unknown(f"There is no action {action}; there are {', '.join((*ACTIONS, RELEASE))}.")
    return Asked(action, f"manual-{action.replace('_', '-')}", tuple(PlannedStep(verb) for verb in ACTIONS[action]))


def of_playbook(named: str, book: Book, provisioned: bool) -> Asked:
    """`NAME`, or `NAME@VERSION` for exactly that version. Raises Unknown."""
    name, _, version = named.strip().partition("@")
    playbook = book.named(name)
    if playbook is None:
        known = ", ".join(one.name for one in book.playbooks)
        raise Unknown(f"There is no playbook {name}; there are {known}.")
    if version and version != playbook.version:
        raise Unknown(f"The playbook {name} in force is {playbook.version}, not {version}.")
    if any(step.verb == FENCE for step in playbook.steps):
        raise Unknown(f"The playbook {name} fences a host that is gone: it is not for planned work.")
    plan = adapted(playbook, provisioned)
    if plan.why_not:
        raise Unknown(plan.why_not)
    match = playbook.match
    where = Match(pool=match.pool, pool_kind=match.pool_kind, sku=match.sku)
    return Asked(PLAYBOOK, name, plan.steps, plan.attempts, playbook.version, where)


def kept(asked: Asked) -> dict[str, Any] | None:
    """What a batch keeps of a playbook, as JSON; None of an action, which says it all by its name."""
    if asked.action != PLAYBOOK:
        return None
    where = {"pool": asked.where.pool, "pool_kind": asked.where.pool_kind, "sku": asked.where.sku}
    return {
        "name": asked.playbook,
        "version": asked.version,
        "attempts": asked.attempts,
        "steps": asked.plan(),
        "where": {key: list(names) for key, names in where.items()},
    }


def again(action: str, stored: Mapping[str, Any] | None) -> Asked:
    """From what `kept` made of it."""
    if stored is None:
        return of_action(action)
    pool, pool_kind, sku = (tuple(stored["where"][key]) for key in ("pool", "pool_kind", "sku"))
    where = Match(pool=pool, pool_kind=pool_kind, sku=sku)
    steps = tuple(PlannedStep.of(step) for step in stored["steps"])
    return Asked(PLAYBOOK, stored["name"], steps, stored["attempts"], stored["version"], where)
