"""People who act by the API: who they are, what they may where, and the texts they send.

Decides the bounds of each text and which right is asked in which cluster. Refuses a token that only reads, and text
with a NUL.
"""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja.errors import HttpError
from pydantic import AfterValidator, Field

from fleet.access.models import User
from fleet.access.rights import OPERATE
from fleet.access.selectors import may, visible_clusters
from fleet.api.callers import caller_of


def plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL")
    return text


Text = Annotated[str, Field(max_length=1000), AfterValidator(plain)]
Name = Annotated[str, Field(max_length=253), AfterValidator(plain)]
Reason = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(plain)]
Action = Literal["hold", "release", "drain", "validate", "reset_gpu", "reboot", "power_cycle", "reprovision"]


def person_of(request: HttpRequest) -> User:
    caller = caller_of(request)
    if caller.user is None:
        raise HttpError(403, "This token only reads: acting takes a person's session, or a token of scope act.")
    return caller.user


def may_there(request: HttpRequest, right: str, cluster: str) -> bool:
    """Has the caller that right there? Cluster "" is the whole site."""
    caller = caller_of(request)
    if caller.user is None or (caller.visible is not None and cluster not in caller.visible):
        return False
    return may(caller.user, right, cluster) if cluster else visible_clusters(caller.user, right) is None


def operator_in(request: HttpRequest, cluster: str) -> User:
    person = person_of(request)
    if not may_there(request, OPERATE, cluster):
        raise HttpError(403, f"Needs the role operator in cluster {cluster}.")
    return person
