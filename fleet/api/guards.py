"""The REST API of what is allowed: limits and levels, breakers, windows, kill switch, playbooks and their effect.

Decides shapes. Refuses writes: a policy is changed on its page and by `manage.py policy`, where another person agrees.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema

from fleet.api.callers import caller_of
from fleet.inventory.models import Mode
from fleet.inventory.selectors import active_clusters
from fleet.policy import selectors as policy
from fleet.policy.document import text_of
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import playbook_page, policy_page

router = Router(tags=["guards"])


class ClusterOut(Schema):
    """`half_open`: one node at a time, until one has returned. `conditions`: what its connection lacks, in words."""

    name: str
    mode: Mode
    mode_since: datetime | None
    half_open: bool
    conditions: list[str]


class UseOut(Schema):
    """How far one place has used a limit: `used` of `limit`. Of a floor: nodes in service, and how many must stay.
    `full`: the next that asks is blocked; `over`: how many more there are than it allows."""

    scope: str
    cluster: str
    key: str
    used: int
    limit: int
    size: int
    full: bool
    over: int
    nodes: list[str]


class LimitOut(Schema):
    kind: Literal["hold", "take_out", "in_flight", "rate", "floor"]
    scope: str
    said: str
    places: int
    full: int
    fullest: list[UseOut]


class BreakerOut(Schema):
    cluster: str
    state: Literal["closed", "open", "cooling"]
    since: datetime | None
    until: datetime | None
    by: str
    text: str
    held: int
    allowed: int


class WindowOut(Schema):
    """`cluster` "": all. `at`: when it ends if it lasts `now`, else when it comes next; null: never again."""

    cluster: str
    kind: str
    name: str
    zone: str
    now: bool
    at: datetime | None


class SwitchOut(Schema):
    stopped: bool
    since: datetime | None
    by: str
    reason: str


class PolicyOut(Schema):
    """`document` is the policy as `manage.py policy show` writes it."""

    document: str
    switch: SwitchOut
    limits: list[LimitOut]
    breakers: list[BreakerOut]
    windows: list[WindowOut]


class PlaybookOut(Schema):
    name: str
    version: str
    title: str
    own: bool
    attempts: int
    matches: list[str]
    steps: list[str]


class EffectOut(Schema):
    """Of `tries`, `held` lasted a day; `bounced` came back within it; of `again` another fault took the node out within
    it; the rest failed. `left_out`: so seldom that ladders pass over it."""

    verb: str
    cause: str
    sku: str
    driver: str
    firmware: str
    tries: int
    held: int
    bounced: int
    again: int
    left_out: bool


class PlaybooksOut(Schema):
    """In the order in which they are asked. `problem`: why the site's own file cannot be used."""

    file: str
    problem: str
    playbooks: list[PlaybookOut]


@router.get("/clusters", response=list[ClusterOut], summary="Clusters with their modes")
def clusters(request: HttpRequest) -> list[dict[str, Any]]:
    visible = caller_of(request).visible
    return [
        {
            "name": row.name, "mode": row.mode, "mode_since": row.mode_since, "half_open": row.half_open,
            "conditions": [str(stated.get("text", "")) for stated in row.conditions or []],
        }
        for row in active_clusters()
        if visible is None or row.name in visible
    ]  # fmt: skip


@router.get("/policy", response=PolicyOut, summary="Limits and how full they are, breakers, windows, the kill switch")
def policy_in_force(request: HttpRequest) -> dict[str, Any]:
    now = SYSTEM_CLOCK.now()
    page = policy_page.read(caller_of(request).visible, now)
    switch = policy.stopped()
    return {
        "document": text_of(page.policy) if caller_of(request).visible is None else "",
        "switch": {
            "stopped": switch is not None, "since": switch.since if switch else None,
            "by": switch.by if switch else "", "reason": switch.reason if switch else "",
        },
        "limits": [_limit(line) for line in page.limits],
        "breakers": [
            {
                "cluster": line.cluster, "state": line.state, "since": line.since, "until": line.until, "by": line.by,
                "text": line.text, "held": line.held, "allowed": line.allowed,
            }
            for line in page.breakers
        ],
        "windows": [
            {
                "cluster": line.cluster, "kind": line.window.kind, "name": line.window.name, "zone": line.window.zone,
                "now": line.now, "at": line.at,
            }
            for line in page.windows
        ],
    }  # fmt: skip


def _limit(line: policy_page.LimitLine) -> dict[str, Any]:
    fullest = [
        {
            "scope": use.scope, "cluster": use.cluster, "key": use.key, "used": use.used, "limit": use.limit,
            "size": use.size, "full": use.full, "over": use.over, "nodes": list(use.names),
        }
        for use in line.uses
    ]  # fmt: skip
    return {
        "kind": line.kind, "scope": line.scope, "said": line.said, "places": line.scopes, "full": line.full,
        "fullest": fullest,
    }  # fmt: skip


@router.get("/playbooks", response=PlaybooksOut, summary="The playbooks in force, in the order in which they are asked")
def playbooks(request: HttpRequest) -> dict[str, Any]:
    page = playbook_page.read(frozenset(), SYSTEM_CLOCK.now())
    return {
        "file": page.file,
        "problem": page.problem,
        "playbooks": [
            {
                "name": shown.playbook.name, "version": shown.playbook.version, "title": shown.playbook.title,
                "own": shown.own, "attempts": shown.playbook.attempts,
                "matches": [f"{what}: {values}" for what, values in shown.match],
                "steps": [" > ".join(step.ladder or (step.verb,)) for step in shown.playbook.steps],
            }
            for shown in page.playbooks
        ],
    }  # fmt: skip


@router.get("/effectiveness", response=list[EffectOut], summary="How often each verb mended each fault")
def effectiveness(request: HttpRequest) -> list[dict[str, Any]]:
    page = playbook_page.read(caller_of(request).visible, SYSTEM_CLOCK.now())
    return [
        {
            "verb": one.line.verb, "cause": one.line.cause, "sku": one.line.sku, "driver": one.line.driver,
            "firmware": one.line.firmware, "tries": one.line.tries, "held": one.line.held,
            "bounced": one.line.bounced, "again": one.line.again, "left_out": one.poor,
        }
        for one in page.effects
    ]  # fmt: skip
