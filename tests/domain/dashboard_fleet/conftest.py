"""A person who looks at pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from fleet.access.models import Grant, User

PASSWORD = "correct horse battery"


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """`person("viewer")`, `person("operator", cluster="demo")`, `person("")` for somebody without any role."""

    def make(role: str, cluster: str = "", name: str = "") -> User:
        user = User.objects.create_user(username=name or role or "nobody", password=PASSWORD)
        if role:
            Grant.objects.create(user=user, role=role, cluster=cluster)
        return user

    return make


@pytest.fixture
def viewer(person: Callable[..., User]) -> Client:
    client = Client()
    client.force_login(person("viewer"))
    return client
