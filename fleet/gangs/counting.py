"""The counts of one gang, from its objects and its members.

Decides wanted, minimum, placed, what is missing and which GPUs are held for nothing. Trusts members (pods) before any
status field: a scheduler's `running` leaves out what is bound and has not started. Refuses to say why it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from fleet.gangs.form import Gang, GangState, Missing
from fleet.gangs.joining import ADMITTING, Joined
from fleet.ports.gangs import GangObject, Guarantee, Member, Need, Ref, Said, ref_of

_ON_A_NODE = ("placed", "running", "ready")
_ALONE = "pods"  # the system of pods that no object groups: each starts by itself


def count(joined: Joined, starved: bool = False) -> Gang:
    """`starved`: members are placed and yet wait for more (Ray's pending placement group), so what it holds is idle."""
    ref = ref_of(joined.key)
    objects, alive = joined.objects, [member for member in joined.members if member.state != "ended"]
    on_nodes = [member for member in alive if member.node]
    over = _untold(objects, [member for member in joined.members if member.done])
    told = _told(objects, alive)
    wanted = _present(alive) if told is None else max(0, told - len(over))
    minimum = 1 if ref.system == _ALONE and not objects else _minimum(objects, wanted + len(over))
    if any(one.done or one.later for one in objects) or over:
        left = minimum - len(over) if over and told is None else 0  # of a group whose maker tells nothing
        minimum = max(min(minimum, wanted), left)
    by_state = Counter(member.state for member in alive)
    held = sum(member.need.gpus for member in on_nodes)
    placed = sum(not member.ending for member in on_nodes)
    started = by_state["running"] + by_state["ready"]
    state = _state(objects, placed, started, minimum, wanted, bool(over))
    waiting = state in ("waiting", "partial")
    missing = tuple(_missing(objects, alive, minimum - placed)) if waiting else ()
    return Gang(
        key=joined.key,
        system=ref.system,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        title=_title(objects, ref),
        owner=next((one.owner for one in objects if one.owner), ""),
        queue=next((one.queue for one in objects if one.queue), "") or _first(member.queue for member in alive),
        priority=max((one.priority for one in objects), default=max((m.priority for m in alive), default=0)),
        state=state,
        wanted=wanted,
        minimum=minimum,
        placed=placed,
        running=started,
        ready=by_state["ready"],
        not_created=max(0, wanted - len(alive)),
        gated=by_state["gated"],
        unscheduled=by_state["pending"],
        gpus_per_member=max(_gpus(objects, alive), default=0),
        gpus_wanted=_gpus_wanted(objects, alive, wanted, over),
        gpus_held=held,
        gpus_held_idle=_idle(objects, held, placed, placed - _stuck(on_nodes), minimum, starved),
        guarantee=_guarantee(objects, ref.system),
        created_at=min((at for at in _made(objects, alive)), default=None),
        waits_since=_waits_since(objects, alive) if waiting or starved else None,
        started_at=max((one.started_at for one in objects if one.started_at), default=None),
        nodes=tuple(sorted({member.node for member in on_nodes})),
        missing=missing,
        said=_said(objects, alive),
        objects=objects,
        members=tuple(alive),
    )


def _title(objects: Sequence[GangObject], ref: Ref) -> str:
    """What people made: the outermost object that is no scheduler's own."""
    made = [one for one in objects if not one.places and one.ref.system not in ADMITTING]
    return f"{made[-1].ref.kind} {made[-1].ref.name}" if made else f"{ref.kind} {ref.name}"


def _first(words: Iterable[str]) -> str:
    return next((word for word in words if word), "")


def _told(objects: Sequence[GangObject], alive: Sequence[Member]) -> int | None:
    """How many are wanted: what makes the pods knows best, then what admits them, then the group, then the pods."""
    order = sorted(objects, key=lambda one: (one.places, one.ref.system not in ADMITTING))
    told = next((one.wanted for one in order if one.wanted is not None), None)
    if told is not None:
        return max(0, told)
    return max((member.total for member in alive if member.total), default=None)


def _present(alive: Sequence[Member]) -> int:
    return sum(not member.ending for member in alive)


def _untold(objects: Sequence[GangObject], done: Sequence[Member]) -> Sequence[Member]:
    """Members that ended well and that no object has left out yet: a job counts as done when all of its pods are."""
    return done[max((one.done for one in objects), default=0) :]


def _minimum(objects: Sequence[GangObject], wanted: int) -> int:
    """By the scheduler's group; without one all are needed, for nothing says that fewer would do."""
    order = sorted(objects, key=lambda one: (not one.places, one.ref.system in ADMITTING))
    told = next((one.minimum for one in order if one.minimum is not None), None)
    return wanted if told is None else max(0, told)


def _state(
    objects: Sequence[GangObject], placed: int, started: int, minimum: int, wanted: int, over: bool
) -> GangState:
    made = [one for one in objects if not one.places]
    if made and all(one.finished for one in made):
        return "finished"
    if objects and not made and not placed and all(one.finished for one in objects):  # its pods may outlive a group
        return "finished"
    if not placed and any(one.suspended for one in _commanding(objects)):
        return "suspended"
    if not wanted and not placed:
        return "finished" if over or not objects or any(one.finished or one.done for one in objects) else "empty"
    if placed < minimum or not placed:
        return "partial" if placed else "waiting"
    return "running" if started >= minimum else "starting"


def _commanding(objects: Sequence[GangObject]) -> Sequence[GangObject]:
    """Whose `suspended` is a person's will: what admits a job keeps that suspended until it lets it in."""
    return [one for one in objects if one.ref.system in ADMITTING] or objects


def _stuck(on_nodes: Sequence[Member]) -> int:
    """Members that have a node and do not run there, for a reason that their kubelet tells: they crash again and again,
    or their image is not to be had."""
    return sum(member.state == "placed" and bool(member.stuck) and not member.ending for member in on_nodes)


def _idle(objects: Sequence[GangObject], held: int, placed: int, able: int, minimum: int, starved: bool) -> int:
    """Fewer than its minimum compute nothing; else what its scheduler calls idle (placeholders, a stale group)."""
    if starved or (placed and able < minimum):
        return held
    return min(held, max((one.gpus_idle for one in objects if one.gpus_idle is not None), default=0))


def _guarantee(objects: Sequence[GangObject], system: str) -> Guarantee:
    told = [one.guarantee for one in objects if one.guarantee != "unknown"]
    for word in ("lost", "none", "partial", "whole"):
        if word in told:
            return word
    return "none" if system == _ALONE or not any(one.places for one in objects) else "unknown"


def _missing(objects: Sequence[GangObject], alive: Sequence[Member], lacking: int) -> Iterable[Missing]:
    """The members that are still to come, those that exist first, not more than the minimum asks for."""
    waiting = Counter((member.role, member.need) for member in alive if not member.node)
    parts = {part.role: part for one in reversed(objects) for part in one.parts}
    there = Counter(member.role for member in alive if not member.ending)
    for (role, need), n in sorted(waiting.items(), key=lambda entry: -entry[0][1].gpus):
        take = min(n, lacking)
        if take > 0:
            lacking -= take
            part = parts.get(role) or parts.get("")  # what is said of no role holds for all
            yield Missing(need, take, role, part.topology if part else None)
    for role, part in sorted(parts.items(), key=lambda entry: -(entry[1].need.gpus if entry[1].need else 0)):
        take = min(max(0, part.wanted - there[role]), lacking)
        if take > 0:
            lacking -= take
            yield Missing(part.need or _usual(alive), take, role, part.topology)
    if lacking > 0:
        topology = next((part.topology for part in parts.values() if part.topology), None)
        yield Missing(_usual(alive), lacking, "", topology)


def _usual(alive: Sequence[Member]) -> Need | None:
    """What its members ask for as a rule: the need of most, of the greedier when equal."""
    asked = Counter(member.need for member in alive)
    return max(asked, key=lambda need: (asked[need], need.gpus), default=None)


def _gpus(objects: Sequence[GangObject], alive: Sequence[Member]) -> Iterable[int]:
    yield from (part.need.gpus for one in objects for part in one.parts if part.need)
    yield from (member.need.gpus for member in alive)


def _gpus_wanted(objects: Sequence[GangObject], alive: Sequence[Member], wanted: int, over: Sequence[Member]) -> int:
    for one in objects:
        if one.parts and all(part.need for part in one.parts):
            told = sum(part.wanted * part.need.gpus for part in one.parts if part.need)
            return max(0, told - sum(member.need.gpus for member in over))
    here = sum(member.need.gpus for member in alive)
    usual = _usual(alive)
    return here + max(0, wanted - len(alive)) * (usual.gpus if usual else 0)


def _made(objects: Sequence[GangObject], alive: Sequence[Member]) -> Iterable[datetime]:
    yield from (one.created_at for one in objects if one.created_at)
    if not objects:
        yield from (member.created_at for member in alive if member.created_at)


def _waits_since(objects: Sequence[GangObject], alive: Sequence[Member]) -> datetime | None:
    """The last eviction or requeue began the present wait; else the creation did."""
    begun = [one.waits_since for one in objects if one.waits_since]
    made = list(_made(objects, alive))
    return max([*begun, *([min(made)] if made else [])], default=None)


def _said(objects: Sequence[GangObject], alive: Sequence[Member]) -> tuple[Said, ...]:
    """Equal words once, from the earliest moment on: a hundred pods of a gang say the same."""
    first: dict[tuple[str, str, str], Said] = {}
    held_back = any(one.admitted is False for one in objects)  # then its queue says why, and its gates do not
    of_members = (
        member.waits
        for member in alive
        if member.waits and not member.node and not (held_back and member.state == "gated")
    )
    commanding = _commanding(objects)
    of_objects = (s for one in objects for s in one.said if s.code != "SUSPENDED" or one in commanding)
    for said in (*of_objects, *of_members):
        known = first.get(words := (said.code, said.text, said.source))
        if known is None or (said.at and (known.at is None or said.at < known.at)):
            first[words] = said
    return tuple(first.values())
