"""The normal form as the columns of its row.

Decides what is kept of members and objects: what pages show. Refuses labels, specs and every word longer than a screen.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.gangs.board import Board
from fleet.gangs.diagnosis.blocking import Blocker
from fleet.gangs.diagnosis.reasons import Reason
from fleet.gangs.form import Gang
from fleet.ports.gangs import GangObject, Member, QueueObject, Quota, Said

WORDS = 1_000  # characters of one statement
MEMBERS = 2_000  # of one gang that are kept by name

COUNTS = (
    "wanted", "minimum", "placed", "running", "ready", "not_created", "gated", "unscheduled", "gpus_per_member",
    "gpus_wanted", "gpus_held", "gpus_held_idle",
)  # fmt: skip


class Columns:
    """The columns of every gang and queue of one board after another; made anew only where something differs."""

    def __init__(self) -> None:
        self._gangs: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {}
        self._queues: dict[str, tuple[QueueObject, dict[str, Any]]] = {}

    def of(self, made: Board) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """Of the gangs and of the queues, by key."""
        gangs = {key: self._gang(made, key) for key in made.gangs}
        queues = {key: self._queue(key, queue) for key, queue in made.queues.all.items()}
        self._gangs = {key: self._gangs[key] for key in gangs}
        self._queues = {key: self._queues[key] for key in queues}
        return gangs, queues

    def _gang(self, made: Board, key: str) -> dict[str, Any]:
        gang, reason = made.gangs[key], made.reasons.get(key)
        before = tuple(made.gangs[one].called if one in made.gangs else "" for one in reason.ahead) if reason else ()
        seen = gang, reason, made.queue_keys.get(key, ""), made.positions.get(key), before
        kept = self._gangs.get(key)
        if kept is None or kept[0] != seen:
            kept = self._gangs[key] = seen, gang_columns(*seen)
        return kept[1]

    def _queue(self, key: str, queue: QueueObject) -> dict[str, Any]:
        kept = self._queues.get(key)
        if kept is None or kept[0] != queue:
            kept = self._queues[key] = queue, queue_columns(queue)
        return kept[1]


def gang_columns(
    gang: Gang, reason: Reason | None, queue_key: str, position: int | None, before: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Column -> value; equal gangs give equal columns, so that what did not change is not written. `before`: what those
    ahead of it are called, "" for one that is not known."""
    return {
        "system": gang.system,
        "kind": gang.kind[:64],
        "namespace": gang.namespace[:100],
        "name": gang.name[:253],
        "title": gang.title[:330],
        "owner": gang.owner[:200],
        "queue_key": queue_key[:600],
        "queue": gang.queue[:253],
        "priority": gang.priority,
        "position": position,
        "state": gang.state,
        **{name: getattr(gang, name) for name in COUNTS},
        "guarantee": gang.guarantee,
        "created_at": gang.created_at,
        "waits_since": gang.waits_since,
        "started_at": gang.started_at,
        "reason_code": reason.code if reason else "",
        "reason": _reason(reason, before) if reason else {},
        "blockers": [_blocker(one) for one in reason.blockers] if reason else [],
        "nodes": list(gang.nodes),
        "members": [_member(one) for one in sorted(gang.members, key=lambda one: one.key)[:MEMBERS]],
        "objects_seen": [_object(one) for one in gang.objects],
    }


def queue_columns(queue: QueueObject) -> dict[str, Any]:
    return {
        "system": queue.ref.system,
        "kind": queue.ref.kind[:64],
        "namespace": queue.ref.namespace[:100],
        "name": queue.ref.name[:253],
        "parent": queue.parent[:253],
        "leads_to": queue.leads_to[:253],
        "stopped": queue.stopped,
        "head_blocks": queue.head_blocks,
        "quotas": [_quota(one) for one in queue.quotas],
        "share": queue.share,
        "share_text": queue.share_text[:100],
        "weight": queue.weight,
        "waiting": queue.waiting,
        "admitted": queue.admitted,
        "running": queue.running,
        "said": [_said(one) for one in queue.said],
    }


def moment_text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def _reason(reason: Reason, before: tuple[str, ...]) -> dict[str, Any]:
    return {
        "raw": reason.raw[:WORDS],
        "source": reason.source[:200],
        "since": moment_text(reason.since),
        "fits": reason.fits,
        "needs": reason.needs,
        "free": reason.free,
        "slots": reason.slots,
        "lacking": reason.lacking,
        "unmade": reason.unmade,
        "kept_out": reason.kept_out,
        "placed": reason.placed,
        "level": reason.level,
        "ahead": list(reason.ahead),
        **({"ahead_called": list(before)} if any(before) else {}),
    }


def _blocker(blocker: Blocker) -> dict[str, Any]:
    out = blocker.out
    told: dict[str, Any] = {"node": blocker.node, "members": blocker.members}
    if out is None:
        return told | {"code": "short_of_gpus"}
    return told | {
        "code": out.code,
        "text": out.text[:WORDS],
        "since": moment_text(out.since),
        "back_at": moment_text(out.back_at),
        "workflow": out.workflow,
        "ticket": out.ticket,
    }


def _member(member: Member) -> list[Any]:
    waits = member.waits.text[:WORDS] if member.waits else ""
    state = "ending" if member.ending else member.state
    named = [member.key, member.node, state, member.role, member.need.gpus]
    return [*named, waits, member.stuck[:WORDS], member.sick_device]


def _object(one: GangObject) -> dict[str, Any]:
    ref = one.ref
    return {
        "system": ref.system,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "phase": one.phase[:64],
        "said": [_said(said) for said in one.said],
        **({"by_topology": True} if one.by_topology else {}),
        **({"unhealthy": list(one.unhealthy_nodes)} if one.unhealthy_nodes else {}),
    }


def _said(said: Said) -> list[Any]:
    return [said.code, said.text[:WORDS], moment_text(said.at), said.source[:200]]


def _quota(quota: Quota) -> dict[str, Any]:
    return {name: getattr(quota, name) for name in Quota.__slots__}
