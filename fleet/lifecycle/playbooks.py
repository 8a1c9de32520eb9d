"""Which steps mend which class of fault.

Decides the plan of an incident from its action class and the node's kind, as data. Pure: no Django, no I/O. Refuses a
BMC verb off metal, a plan for a class that only asks to be watched, and any plan that does not end in validation and
soak before the return.
"""

from __future__ import annotations

from dataclasses import dataclass

HOLD, DRAIN, REBOOT, WAIT_REPAIR = "hold", "drain", "reboot", "wait_repair"
VALIDATE, SOAK, RETURN, RELEASE = "validate", "soak", "return", "release"
VERBS = (HOLD, DRAIN, REBOOT, WAIT_REPAIR, VALIDATE, SOAK, RETURN, RELEASE)

MAX_ATTEMPTS = 2  # gpud sends a node to inspection after two reboots without effect; so do we

_BACK = (VALIDATE, SOAK, RETURN)
PLAYBOOKS: dict[str, tuple[str, ...]] = {
    "reboot": (HOLD, DRAIN, REBOOT, *_BACK),
    "repair": (HOLD, DRAIN, WAIT_REPAIR, *_BACK),
}
BY_ACTION: dict[str, str] = {
    "reboot_node": "reboot",
    "reset_gpu": "reboot",  # a reboot resets every GPU; the narrower verb does not exist yet
    "replace_part": "repair",
    "inspect": "repair",
    "contact_support": "repair",
}
CLAIMS: dict[str, str] = {HOLD: "hold", DRAIN: "take_out", REBOOT: "in_flight"}
"""The cap that a step must hold a claim of before it may act."""

WORDS: dict[str, str] = {
    HOLD: "Hold",
    DRAIN: "Drain",
    REBOOT: "Reboot",
    WAIT_REPAIR: "Wait for repair",
    VALIDATE: "Validate",
    SOAK: "Soak",
    RETURN: "Return to service",
    RELEASE: "Release",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`playbook` is "" when nothing is to be done; `why_not` then says so in a sentence."""

    playbook: str
    verbs: tuple[str, ...] = ()
    why_not: str = ""

    def as_json(self) -> list[dict[str, str]]:
        return [{"verb": verb} for verb in self.verbs]


def plan_for(action_class: str, pool_kind: str) -> Plan:
    """The plan for one incident. `pool_kind` is bare_metal, vm or spot."""
    name = BY_ACTION.get(action_class)
    if name is None:
        return Plan("", why_not=f"The action class {action_class} asks for no workflow.")
    if pool_kind != "bare_metal":
        return Plan("", why_not=f"The pool is {pool_kind}: no BMC verb and no hardware ticket off metal.")
    return Plan(name, PLAYBOOKS[name])


def retry_index(verbs: list[str]) -> int | None:
    """Where another attempt begins: the plan's remediation; None when the plan has none."""
    return verbs.index(REBOOT) if REBOOT in verbs else None
