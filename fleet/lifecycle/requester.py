"""May the person who asked for something still have it done, now that it begins?

Decides from the roles that the person has at this moment and what they may touch: between the asking and the start lie
approvals, windows and caps, and people change places. Refuses what was asked for by an account that is closed, gone or
without a role here. A command at a shell of the installation is its administrator's.
"""

from __future__ import annotations

from fleet.access.selectors import roles_named
from fleet.inventory.models import Cluster
from fleet.policy import rolecaps
from fleet.policy import selectors as policy

SHELL = " (command line)"
"""How the name of somebody without an account ends."""
OURS = "muster"
CODE = "role"


def refusal(by: str, cluster: Cluster, count: int) -> str:
    """Why `by` may not have that many nodes of the cluster touched in one action; "" if so, or if Muster asked."""
    if by == OURS or by.startswith(f"{OURS}:") or by.endswith(SHELL):
        return ""
    roles = roles_named(by, cluster.name)
    if roles is None:
        return f"{by}, who asked for it, has no open account any more. Abort it, or ask anew."
    said = rolecaps.refusal(count, roles, policy.role_caps())
    said = said.replace("None of your roles may act on nodes here.", "None of that person's roles may act here.")
    return f"{by} asked for it and may not have it done now. {said}" if said else ""
