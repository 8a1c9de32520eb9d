"""What a thing waits for, as the API tells it, and what the whole fleet waits for.

Decides the one shape of a reason: its code, sentence, since, until, who is waited for, what clears it and what one can
do. Refuses a reason that is not in the catalogue.
"""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Router, Schema

from fleet.api.callers import caller_of
from fleet.readmodels import explain, reasons
from fleet.readmodels.totals import totals

router = Router()


class LineOut(Schema):
    place: int
    of: int


class WhyOut(Schema):
    """`reason` is a code of docs/why.md. `until` null: no time clears it, a person does."""

    reason: str
    text: str
    since: datetime
    until: datetime | None
    waits_for: str
    clears: str
    do: str
    needs_person: bool
    line: LineOut | None


class WaitingOut(Schema):
    reason: str
    name: str
    workflows: int
    clears: str
    do: str


@router.get("/why", response=list[WaitingOut], summary="What the workflows of the fleet wait for, the most first")
def why_fleet(request: HttpRequest, cluster: str = "") -> list[WaitingOut]:
    found = totals(caller_of(request).visible)
    waiting = explain.groups((found.within(cluster) if cluster else found).waits)
    return [
        WaitingOut(
            reason=group.code,
            name=group.name,
            workflows=group.n,
            clears=str(reasons.of(group.code).clears),
            do=str(reasons.of(group.code).do),
        )
        for group in waiting
    ]
