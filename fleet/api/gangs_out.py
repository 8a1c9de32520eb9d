"""The shapes in which the API tells gangs, queues, what-ifs and findings in manifests.

Decides names and types, which scripts may rely on. Refuses logic.
"""

from __future__ import annotations

from datetime import datetime

from ninja import Schema


class BlockerOut(Schema):
    """A node that is out; it and the others together would let the gang fit."""

    node: str
    members: int
    code: str
    text: str
    since: str | None
    back_at: str | None
    workflow: int | None
    ticket: str


class ConditionOut(Schema):
    code: str
    severity: str
    name: str
    sentence: str
    meaning: str
    remedy: str
    since: datetime


class GangReason(Schema):
    """`raw` and `source` are the scheduler's own words; `fits`: there is room for it now."""

    code: str
    name: str
    sentence: str
    clears: str
    do: str
    raw: str
    source: str
    fits: bool | None


class GangOut(Schema):
    """`gpu_hours_idle` is what it has held for nothing up to now; `money_idle` None without a price."""

    key: str
    cluster: str
    system: str
    kind: str
    namespace: str
    name: str
    title: str
    owner: str
    queue: str
    queue_key: str
    priority: int
    position: int | None
    state: str
    wanted: int
    minimum: int
    placed: int
    running: int
    ready: int
    gpus_per_member: int
    gpus_wanted: int
    gpus_held: int
    gpus_held_idle: int
    gpu_hours_idle: float
    money_idle: str | None
    waits_since: datetime | None
    started_at: datetime | None
    reason: GangReason | None
    blockers: list[BlockerOut]
    conditions: list[ConditionOut]


class GangList(Schema):
    count: int
    items: list[GangOut]


class MemberOut(Schema):
    key: str
    node: str
    state: str
    role: str
    gpus: int
    waits: str
    stuck: str
    sick_device: str


class MomentOut(Schema):
    at: datetime
    kind: str
    text: str
    raw: str
    nodes: list[str]


class GangDetail(GangOut):
    guarantee: str
    gone_at: datetime | None
    members: list[MemberOut]
    timeline: list[MomentOut]


class QuotaOut(Schema):
    flavor: str
    resource: str
    guaranteed: float | None
    used: float
    reserved: float | None
    borrowed: float
    ceiling: float | None
    wanted: float | None


class QueueOut(Schema):
    key: str
    cluster: str
    system: str
    kind: str
    namespace: str
    name: str
    parent: str
    stopped: bool
    strict: bool
    quotas: list[QuotaOut]
    share: float | None
    share_means: str
    weight: float | None
    gangs: int
    gangs_waiting: int
    gpus_held_idle: int
    said: list[str]


class QueueList(Schema):
    count: int
    items: list[QueueOut]


class NamedOut(Schema):
    key: str
    title: str
    gpus: int


class LosesOut(Schema):
    key: str
    title: str
    loses: int
    left: int
    minimum: int
    breaks: bool
    again: bool


class WhatIfOut(Schema):
    """`known` false: the observer did not answer, or knows none of the names; everything else is then empty."""

    cluster: str
    question: str
    known: bool
    sentence: str
    at: datetime | None
    starts: list[NamedOut]
    starts_count: int
    no_longer: list[NamedOut]
    no_longer_count: int
    broken: list[LosesOut]
    gpus: int
    gpus_free_then: int
    whole_nodes_free_then: int
    unknown: list[str]


class WrongOut(Schema):
    line: int
    path: str
    text: str


class FindingOut(Schema):
    line: int
    path: str
    code: str
    severity: str
    name: str
    sentence: str
    meaning: str
    remedy: str


class LintOut(Schema):
    """`ok`: manifests were judged, none is wrong and nothing was found."""

    ok: bool
    looked: list[str]
    skipped: list[str]
    wrong: list[WrongOut]
    findings: list[FindingOut]
