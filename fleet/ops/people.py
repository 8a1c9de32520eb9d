"""Who acts from a shell.

Decides the name that is written down: that of an account, if it has the right in the cluster, else that of whoever is
logged in on this host. Refuses accounts that are closed or lack the right.
"""

from __future__ import annotations

import getpass

from django.core.management.base import CommandError

from fleet.access.models import User
from fleet.access.rights import least_role
from fleet.access.selectors import may, visible_clusters
from fleet.lifecycle.requester import SHELL


def acting(account: str, right: str, cluster: str) -> str:
    """The actor's name. `cluster` "" is the whole site. Raises CommandError."""
    if not account:
        return f"{getpass.getuser()}{SHELL}"
    user = User.objects.filter(username=account, is_active=True).first()
    if user is None:
        raise CommandError(f"There is no open account {account}.")
    allowed = may(user, right, cluster) if cluster else visible_clusters(user, right) is None
    if not allowed:
        where = f"in cluster {cluster}" if cluster else "for the whole site"
        raise CommandError(f"{account} needs the role {least_role(right)} {where}.")
    return account
