"""Which role may do what, as a table.

Decides the permission of each role; each role includes those before it. Refuses to look at a database or a request.
"""

from __future__ import annotations

VIEW = "view"
OPERATE = "operate"  # hold, release, drain, reboot, retry, skip, abort, close a ticket, acknowledge
APPROVE = "approve"
ADMINISTER = "administer"  # modes, caps, clusters, users, tokens

ROLE_RIGHTS: dict[str, frozenset[str]] = {
    "viewer": frozenset({VIEW}),
    "operator": frozenset({VIEW, OPERATE}),
    "approver": frozenset({VIEW, OPERATE, APPROVE}),
    "admin": frozenset({VIEW, OPERATE, APPROVE, ADMINISTER}),
}


def least_role(right: str) -> str:
    """The smallest role that has `right`, for the sentence on a 403 page."""
    for role, rights in ROLE_RIGHTS.items():
        if right in rights:
            return role
    raise KeyError(right)
