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

SCOPES = ("push", "read")


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
) -> tuple[Token, str]:
    """The new token and its secret, which is never to be seen again."""
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}")
    secret = f"mst_{secrets.token_urlsafe(32)}"
    token = Token.objects.create(
        name=name,
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        scope=scope,
        cluster=cluster,
        node=node,
        created_at=now,
        expires_at=expires_at,
    )
    audit.record(
        "site",
        [
            audit.Entry(
                actor=by, action="token.create", object=f"token:{token.pk}", detail={"name": name, "scope": scope}
            )
        ],
        now,
    )
    return token, secret


@transaction.atomic
def ensure_user(*, name: str, password: str, role: str, now: datetime, by: str, cluster: str = "") -> User:
    """A user of that name with that password and role; an existing one keeps what it had besides."""
    if role not in Role.values:
        raise ValueError(f"role must be one of {', '.join(Role.values)}")
    user, fresh = User.objects.get_or_create(username=name)
    if fresh or not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    _, granted = Grant.objects.get_or_create(user=user, role=role, cluster=cluster)
    if fresh or granted:
        audit.record(
            "site",
            [audit.Entry(actor=by, action="user.grant", object=f"user:{user.pk}", detail={"name": name, "role": role})],
            now,
        )
    return user
