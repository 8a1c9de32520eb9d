"""Which role may do what, as a table.

Decides the permission of each role. Viewer, operator, approver and admin each include those before them; policy sets
limits and does not act, so that the two can lie in different hands. Refuses to look at a database or a request.
"""

from __future__ import annotations

VIEW = "view"
OPERATE = "operate"  # hold, release, drain, reboot, retry, skip, abort, close a ticket, acknowledge
APPROVE = "approve"
POLICY = "policy"  # caps, rates, floors, breaker, windows, approval rules
ADMINISTER = "administer"  # modes, clusters, users, tokens

ROLE_RIGHTS: dict[str, frozenset[str]] = {
    "viewer": frozenset({VIEW}),
    "operator": frozenset({VIEW, OPERATE}),
    "approver": frozenset({VIEW, OPERATE, APPROVE}),
    "policy": frozenset({VIEW, POLICY}),
    "admin": frozenset({VIEW, OPERATE, APPROVE, POLICY, ADMINISTER}),
}


def least_role(right: str) -> str:
    """The smallest role that has `right`, for the sentence on a 403 page."""
    for role, rights in ROLE_RIGHTS.items():
        if right in rights:
            return role
    raise KeyError(right)
