"""Talking to a BMC within its one slot, and what its failures mean for a step.

Decides how long an unreachable BMC is tried before people are asked, and keeps its condition on the inventory row where
pages show it. Refuses two calls at once: every session, reads too, is an intent on that BMC.
"""

from __future__ import annotations

from typing import Any

from fleet.inventory.models import Bmc
from fleet.lifecycle import alone, intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Outcome, Repair, Wait
from fleet.ports.errors import IdentityMismatch, PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.power import PowerSeen, PowerVerb


def probe(ctx: Context, row: Bmc) -> PowerSeen | Outcome:
    """Read power and identity; on failure the outcome that the step should return."""
    with alone.at(f"bmc {row.pk}") as mine:
        return _probe(ctx, row) if mine else _occupied()


def _probe(ctx: Context, row: Bmc) -> PowerSeen | Outcome:
    try:
        intent = intents.begin(ctx.workflow, ctx.step, "probe", row.address, ctx.now, bmc_id=row.pk, quiet=True)
    except intents.BmcBusy as busy:
        return wait_for(ctx, busy)
    try:
        seen = ctx.ports.power.observe(ctx.ports.target(row), intents.BMC_CALL_SECONDS)
    except PermanentError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return given_up(ctx, row, error)
    except PortError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return refused(ctx, row, error)
    Intent.objects.filter(pk=intent.pk).delete()  # a reading that succeeded leaves no trace worth keeping
    Bmc.objects.filter(pk=row.pk).update(condition="", condition_text="", condition_since=None, answered_at=ctx.now)
    return seen


def send(
    ctx: Context,
    row: Bmc,
    verb: PowerVerb,
    kind: str,
    sent: str,
    taken: str,
    before: dict[str, Any] | None = None,
) -> Outcome:
    """Exactly one power call under one intent of `kind`. Whatever may have happened is left to be observed."""
    with alone.at(f"bmc {row.pk}") as mine:
        return _send(ctx, row, verb, kind, sent, taken, before) if mine else _occupied()


def _occupied() -> Outcome:
    return Wait(intents.BMC_CALL_SECONDS, "Another call to the BMC is under way.")


def _send(
    ctx: Context, row: Bmc, verb: PowerVerb, kind: str, sent: str, taken: str, before: dict[str, Any] | None
) -> Outcome:
    try:
        intent = intents.begin(
            ctx.workflow, ctx.step, kind, f"{verb} {row.address}", ctx.now, bmc_id=row.pk, before=before
        )
    except intents.BmcBusy as busy:
        return wait_for(ctx, busy)
    left = intents.seconds_left(intent, ctx.now)
    if left <= 0:
        intents.resolve(intent, intents.REFUSED, "Not sent: the time of the call had passed.", ctx.now)
        return Wait(ctx.timing.poll, "This worker stood still for too long; looking again before anything is sent.")
    try:
        ctx.ports.power.reset(ctx.ports.target(row), verb, left)
    except UnknownOutcome as error:
        intents.resolve(intent, intents.UNKNOWN, str(error), ctx.now)
        return Wait(intents.BMC_CALL_SECONDS, f"No answer to {verb}; observing before anything else: {error}")
    except TemporaryError as error:
        outcome = intents.UNKNOWN if error.code == "bmc_error" else intents.REFUSED
        intents.resolve(intent, outcome, str(error), ctx.now)
        return refused(ctx, row, error)
    except PermanentError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return given_up(ctx, row, error)
    intents.resolve(intent, intents.DONE, taken, ctx.now)
    return Wait(ctx.timing.poll, sent)


def wait_for(ctx: Context, busy: intents.BmcBusy) -> Outcome:
    left = min(max(0.1, (busy.until - ctx.now).total_seconds()), intents.BMC_CALL_SECONDS)  # the clock may be set back
    return Wait(left + 0.1, "Another call to the BMC may still be under way.")


def refused(ctx: Context, row: Bmc, error: PortError) -> Outcome:
    """A failure that may pass: blocked with the reason, until patience ends."""
    _note(ctx, row, error)
    since = ctx.step.memo.get("bmc_failing_since") or ctx.now.timestamp()
    tries = int(ctx.step.memo.get("bmc_failures", 0)) + 1
    ctx.remember(bmc_failing_since=since, bmc_failures=tries)
    if ctx.since(since) > ctx.timing.bmc_patience:
        return Repair(
            "bmc_unreachable", f"The BMC has not answered for {ctx.timing.bmc_patience / 60:.0f} min: {error}"
        )
    return Blocked(error.code, f"BMC {row.address}: {error}", min(5.0 * tries, 60))


def given_up(ctx: Context, row: Bmc, error: PermanentError) -> Outcome:
    """A failure that only a person can end. A wrong identity goes straight to people: that BMC is not this node's."""
    _note(ctx, row, error)
    if isinstance(error, IdentityMismatch):
        return Repair("identity_mismatch", f"BMC {row.address} is not this node's: {error}")
    return Repair(error.code, f"BMC {row.address}: {error}")


def _note(ctx: Context, row: Bmc, error: PortError) -> None:
    if row.condition != error.code:
        row.condition_since = ctx.now
    Bmc.objects.filter(pk=row.pk).update(
        condition=error.code[:32], condition_text=str(error)[:500], condition_since=row.condition_since
    )
