"""Who may do what, read from grants.

Decides allow or deny for a user, a right and a cluster. Denies what it cannot prove: anonymous and inactive users,
unknown rights, clusters without a grant.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from fleet.access.models import Grant, Token, User
from fleet.access.rights import ROLE_RIGHTS


def may(user: AbstractBaseUser | AnonymousUser, right: str, cluster: str = "") -> bool:
    """Does `user` have `right` in `cluster` (empty: in at least one place)? One query, cached on the user object."""
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.is_superuser:
        return right in ROLE_RIGHTS["admin"]
    return any(
        right in ROLE_RIGHTS.get(role, frozenset()) and (not scope or not cluster or scope == cluster)
        for role, scope in _grants(user)
    )


def visible_clusters(user: AbstractBaseUser | AnonymousUser, right: str) -> frozenset[str] | None:
    """Names of the clusters in which `user` has `right`; None means all of them."""
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return None
    scopes = {scope for role, scope in _grants(user) if right in ROLE_RIGHTS.get(role, frozenset())}
    return None if "" in scopes else frozenset(scopes)


def roles_in(user: AbstractBaseUser | AnonymousUser, cluster: str) -> frozenset[str]:
    """The roles that `user` has in `cluster`."""
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset({"admin"})
    return frozenset(role for role, scope in _grants(user) if scope in ("", cluster))


def roles_named(username: str, cluster: str) -> frozenset[str] | None:
    """The roles that the open account of that name has in `cluster` now; None if there is no such account."""
    user = User.objects.filter(username=username, is_active=True).first()
    return roles_in(user, cluster) if user is not None else None


def _grants(user: User) -> list[tuple[str, str]]:
    cached: list[tuple[str, str]] | None = getattr(user, "_grants", None)
    if cached is None:
        cached = list(Grant.objects.filter(user=user).values_list("role", "cluster"))
        user._grants = cached  # type: ignore[attr-defined]
    return cached


def anybody() -> bool:
    """Is there an account that can log in? Before the first one the log-in page says how to make it."""
    return User.objects.filter(is_active=True).exists()


def token_for(secret: str, scope: str, now: datetime) -> Token | None:
    """The live token of that secret and scope, or None."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    token = Token.objects.select_related("user").filter(digest=digest, scope=scope, revoked_at=None).first()
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    return None if token.user is not None and not token.user.is_active else token
