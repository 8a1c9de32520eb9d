"""Who must agree before a plan may run, and whether enough have.

Decides over one request and its votes: enough other people, in time, on exactly this plan. Pure. Refuses the
requester's own vote, a second vote of one person, and a vote on a plan that has changed since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.policy.rules import ALLOWED, Decision

RECOMMEND, BMC_POWER, REPROVISION, BULK, FORCE, RAY_HEAD, LOOSEN = (
    "recommend", "bmc_power", "reprovision", "bulk", "force", "ray_head", "loosen",
)  # fmt: skip
KINDS: dict[str, tuple[int, int]] = {
    RECOMMEND: (1, 24 * 60),  # what Muster itself plans in mode recommend
    BMC_POWER: (1, 60),  # a person asks for a reboot or power-cycle: with the requester that makes two people
    REPROVISION: (2, 60),
    BULK: (2, 60),
    FORCE: (1, 30),  # to delete what a budget protects
    RAY_HEAD: (1, 4 * 60),  # to drain the head of a Ray cluster, whose workers wait minutes for it
    LOOSEN: (1, 7 * 24 * 60),  # a policy that allows more than before
}
"""Kind -> (people beside the requester, minutes until it expires); the defaults of every installation."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for approval. `plan_hash` is what exactly is asked for."""

    plan_hash: str
    requested_by: str
    needed: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Vote:
    by: str
    yes: bool


def plan_hash(plan: Mapping[str, Any]) -> str:
    """One text for one plan, whatever the order of its keys."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def may_vote(ask: Ask, votes: Sequence[Vote], person: str, current_hash: str, now: datetime) -> str:
    """The sentence that says why this person's vote does not count; "" if it does."""
    if now >= ask.expires_at:
        return f"The request expired at {ask.expires_at:%Y-%m-%d %H:%M} UTC."
    if current_hash != ask.plan_hash:
        return "The plan has changed since approval was asked for; it must be asked for anew."
    if person == ask.requested_by:
        return "Another person than the requester must approve."
    if any(vote.by == person for vote in votes):
        return "You have answered already."
    return ""


def answer(ask: Ask, votes: Sequence[Vote], current_hash: str, now: datetime) -> Decision:
    """Allowed once enough people other than the requester said yes, nobody said no, and nothing changed."""
    if current_hash != ask.plan_hash:
        return Decision("approval", "The plan has changed since it was approved; it needs a new approval.", None)
    for vote in votes:
        if not vote.yes:
            return Decision("approval", f"Rejected by {vote.by}.", None)
    yes = {vote.by for vote in votes if vote.yes and vote.by != ask.requested_by}
    if len(yes) >= ask.needed:
        return ALLOWED
    if now >= ask.expires_at:
        return Decision("approval", f"The request expired at {ask.expires_at:%Y-%m-%d %H:%M} UTC.", None)
    people = "a person's approval" if ask.needed == 1 else f"{ask.needed} people's approval"
    got = f" ({len(yes)} of {ask.needed} so far)" if yes else ""
    return Decision("approval", f"Waits for {people}{got}.", ask.expires_at)
