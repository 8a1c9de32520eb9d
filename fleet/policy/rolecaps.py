"""How many nodes one action of a person may touch.

Decides from the person's roles and the installation's table: the widest role counts. Pure. Refuses a role that nobody
listed: it may touch none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

USUAL: Mapping[str, int] = {"operator": 20, "approver": 20, "admin": 200}
"""A rack or two for who operates; what a whole row holds for an admin."""


def most(roles: Iterable[str], table: Mapping[str, int]) -> tuple[str, int]:
    """(role, nodes) of the widest of the roles; ("", 0) for somebody without one. `table` overrides the usual."""
    caps = {**USUAL, **table}
    found = [(caps[role], role) for role in roles if role in caps]
    nodes, role = max(found, default=(0, ""))
    return role, max(0, nodes)


def refusal(count: int, roles: Iterable[str], table: Mapping[str, int]) -> str:
    """Why that many nodes are too many for one action of a person with these roles; "" if they are not."""
    role, nodes = most(roles, table)
    if count <= nodes:
        return ""
    if not role:
        return "None of your roles may act on nodes here."
    wider = sorted((allowed, name) for name, allowed in {**USUAL, **table}.items() if allowed >= count)
    more = f" The role {wider[0][1]} may touch {wider[0][0]}." if wider else ""
    return f"The role {role} may touch {nodes} nodes in one action; these are {count}.{more}"
