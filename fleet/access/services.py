"""Writes of users, grants and tokens.

Decides that a token's secret is shown once and only its digest kept. Refuses unknown roles and scopes.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.db import transaction

from fleet.access.models import Grant, Role, Token, User
from fleet.audit import services as audit

SCOPES = ("push", "read", "act")


@transaction.atomic
def create_token(
    *,
    name: str,
    scope: str,
    now: datetime,
    by: str,
    cluster: str = "",
    node: str = "",
    expires_at: datetime | None = None,
    user: User | None = None,
) -> tuple[Token, str]:
    """The new token and its secret, which is never to be seen again. Scope `act` stands for a person, no other does."""
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}")
    if (scope == "act") != (user is not None):
        raise ValueError("a token of scope act, and no other, stands for a user")
    secret = f"mst_{secrets.token_urlsafe(32)}"
    token = Token.objects.create(
        name=name,
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        scope=scope,
        cluster=cluster,
        node=node,
        created_at=now,
        expires_at=expires_at,
        user=user,
    )
    audit.record(
        "site",
        [
            audit.Entry(
                actor=by,
                action="token.create",
                object=f"token:{token.pk}",
                detail={"name": name, "scope": scope, **({"user": user.username} if user else {})},
            )
        ],
        now,
    )
    return token, secret


@transaction.atomic
def ensure_user(*, name: str, password: str | None, role: str, now: datetime, by: str, cluster: str = "") -> User:
    """An open account of that name with that role; it keeps what it had besides, and with None its password."""
    if role not in Role.values:
        raise ValueError(f"role must be one of {', '.join(Role.values)}")
    user, fresh = User.objects.get_or_create(username=name)
    opened = fresh or not user.is_active
    if password is None:
        changed = fresh
        if fresh:
            user.set_unusable_password()
    else:
        changed = fresh or not user.check_password(password)
        if changed:
            user.set_password(password)
    user.is_active = True
    if opened or changed:
        user.save(update_fields=["password", "is_active"])
    _, granted = Grant.objects.get_or_create(user=user, role=role, cluster=cluster)
    entries = []
    if opened or granted:
        entries.append(_entry(by, "user.grant", user, role=role, cluster=cluster))
    elif changed:
        entries.append(_entry(by, "user.password", user))
    if entries:
        audit.record("site", entries, now)
    return user


@transaction.atomic
def close_user(*, name: str, now: datetime, by: str) -> bool:
    """The account can no longer log in and has no role; its name stays in the audit log. False if none is open."""
    user = User.objects.select_for_update().filter(username=name, is_active=True).first()
    if user is None:
        return False
    user.is_active = False
    user.is_superuser = False
    user.save(update_fields=["is_active", "is_superuser"])
    Grant.objects.filter(user=user).delete()
    audit.record("site", [_entry(by, "user.close", user)], now)
    return True


def _entry(by: str, action: str, user: User, **detail: str) -> audit.Entry:
    told = {"name": user.username, **{name: value for name, value in detail.items() if value}}
    return audit.Entry(actor=by, action=action, object=f"user:{user.pk}", detail=told)
