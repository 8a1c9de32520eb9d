"""One module per verb: observe, decide, write the intent, act, record.

Decides which function runs a verb. A step never sleeps and never holds a transaction open over a call to the outside.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.lifecycle import playbooks
from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Outcome
from fleet.lifecycle.steps import (
    confirm,
    drain,
    fence,
    give_back,
    hold,
    keep,
    reboot,
    repair,
    reprovision,
    reset_gpu,
    soak,
    validate,
)

RUN: dict[str, Callable[[Context], Outcome]] = {
    playbooks.HOLD: hold.run,
    playbooks.DRAIN: drain.run,
    playbooks.CONFIRM: confirm.run,
    playbooks.RESET_GPU: reset_gpu.run,
    playbooks.REBOOT: reboot.run,
    playbooks.POWER_CYCLE: reboot.run,
    playbooks.REPROVISION: reprovision.run,
    playbooks.FENCE: fence.run,
    playbooks.WAIT_REPAIR: repair.run,
    playbooks.KEEP: keep.run,
    playbooks.VALIDATE: validate.run,
    playbooks.SOAK: soak.run,
    playbooks.RETURN: give_back.run,
    playbooks.RELEASE: give_back.run_release,
}

AHEAD: dict[str, Callable[[Context], Outcome | None]] = {
    playbooks.DRAIN: drain.ahead,
    playbooks.RESET_GPU: reset_gpu.ahead,
}
"""What a verb looks at before it asks for its claim; an outcome of its own keeps it from asking."""
