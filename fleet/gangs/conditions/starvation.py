"""Gangs that starve each other: each holds GPUs that the other lacks, and none can start.

Decides by the exact test (two or more of one pool with 0 < placed < minimum, and together they hold idle at least what
the smallest of them lacks) and finds the cheapest way out: which to suspend so that another starts. One pool means
here that GPUs that one holds lie on nodes that the other may use. Refuses to call it a deadlock while one of them fits
into what is free, for then it starts by itself, and to count a gang that holds no GPU: it starves nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.gangs.board import Board
from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.diagnosis.whatif import play, release, suspending
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need

AT_MOST = 8  # gangs tried for the way out: each is a replay of all queues


@dataclass(frozen=True, slots=True)
class WayOut:
    """Keys: whom to suspend, who starts then; and the GPUs that come free. Nobody starts: there is none among them."""

    suspend: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    gpus: int = 0


def deadlocks(board: Board) -> list[Condition]:
    """One for each gang that takes part, all of one deadlock with the same way out."""
    told: list[Condition] = []
    halves = [gang for gang in board.gangs.values() if 0 < gang.placed < gang.minimum and gang.gpus_held_idle]
    for pool in _pools(board, halves):
        held, lacking = sum(gang.gpus_held_idle for gang in pool), min(map(_lacks, pool))
        if len(pool) < 2 or not lacking or held < lacking or any(_fits(board, gang) for gang in pool):
            continue
        out = way_out(board, pool)
        suspend_called, starts_called = _called(board, out.suspend), _called(board, out.starts)
        for gang in pool:
            others = tuple(one for one in pool if one is not gang)
            told.append(
                found(
                    "deadlock",
                    gang.key,
                    "critical",
                    gang_called=gang.called,
                    others=tuple(one.key for one in others),
                    others_called=tuple(one.called for one in others),
                    held=held,
                    own=gang.gpus_held_idle,
                    missing=_lacks(gang),
                    suspend=out.suspend,
                    suspend_called=suspend_called,
                    frees=out.gpus,
                    starts=out.starts,
                    starts_called=starts_called,
                )
            )
    return told


def _called(board: Board, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(board.gangs[key].called for key in keys)


def way_out(board: Board, pool: Sequence[Gang]) -> WayOut:
    """The least to give up: of low priority before high, of few GPUs before many, of the young before the old. Idle
    GPUs compute nothing, so that nothing is lost but the place."""
    inside = {gang.key for gang in pool}
    order = sorted(pool, key=_cost)[:AT_MOST]
    for gang in order:
        one = suspending(board.starter, board.space, board.turns, gang)
        if inside.intersection(one.starts):
            return WayOut((gang.key,), one.starts, one.gpus)
    for chosen in _several(order, len(pool)):
        if inside.intersection(_try(board, chosen).starts):
            return _without_needless(board, chosen, inside)
    return WayOut()


def _several(order: Sequence[Gang], size: int) -> Iterator[Sequence[Gang]]:
    """More and more of the cheap ones; then all but one, the dearest first: where only a cheap one could ever start,
    the dear ones give way."""
    yield from (order[:n] for n in range(2, min(len(order) + 1, size)))
    yield from ([gang for gang in order if gang is not one] for one in reversed(order[:-1]))


def _without_needless(board: Board, chosen: Sequence[Gang], inside: set[str]) -> WayOut:
    """They were taken in the line of cost, so that one of them may free nothing that counts: leave out whom one can,
    the dearest first."""
    kept = list(chosen)
    for gang in sorted(chosen, key=_cost, reverse=True):
        rest = [one for one in kept if one is not gang]
        if rest and inside.intersection(_try(board, rest).starts):
            kept = rest
    return _try(board, kept)


def _try(board: Board, gangs: Sequence[Gang]) -> WayOut:
    """What `whatif.suspending` tells of one gang, for several at once."""
    space, out = board.space, {gang.key for gang in gangs}
    turns = [turn for turn in board.turns if turn.gang.key not in out]
    before = set(play(board.starter, space, turns))
    for gang in gangs:
        space = release(board.starter.rooms, space, gang)
    starts = tuple(key for key in play(board.starter, space, turns) if key not in before)
    return WayOut(tuple(gang.key for gang in gangs), starts, sum(gang.gpus_held for gang in gangs))


def _cost(gang: Gang) -> tuple[int, int, float, str]:
    made = gang.created_at.timestamp() if gang.created_at else 0.0
    return gang.priority, gang.gpus_held, -made, gang.key


def _lacks(gang: Gang) -> int:
    """GPUs that it needs on top of what it has."""
    return sum(m.count * (m.need.gpus if m.need else gang.gpus_per_member) for m in gang.missing)


def _fits(board: Board, gang: Gang) -> bool:
    return board.starter.judged(gang) and board.starter.could(gang, board.space)


def _pools(board: Board, partial: Sequence[Gang]) -> list[list[Gang]]:
    """Gangs that stand in each other's way, each set in order of age."""
    near: dict[str, set[str]] = {gang.key: set() for gang in partial}
    masks = {gang.key: [board.starter.eligibility.of(need) for need in _gpu_needs(gang)] for gang in partial}
    places = {gang.key: board.starter.rooms.places(_gpu_nodes(gang)) for gang in partial}
    for one in partial:
        for other in partial:
            wanted = one is not other and any(mask[places[other.key]].any() for mask in masks[one.key])
            if wanted:
                near[one.key].add(other.key)
                near[other.key].add(one.key)
    by_key, left, pools = {gang.key: gang for gang in partial}, dict.fromkeys(near), []
    while left:
        pending, pool = [next(iter(left))], set()
        while pending:
            key = pending.pop()
            if key not in pool:
                pool.add(key)
                left.pop(key, None)
                pending.extend(near[key])
        pools.append(sorted((by_key[key] for key in pool), key=lambda g: (g.created_at is None, _age(g), g.key)))
    return pools


def _gpu_needs(gang: Gang) -> list[Need]:
    return [missing.need for missing in gang.missing if missing.need and missing.need.gpus]


def _gpu_nodes(gang: Gang) -> set[str]:
    return {member.node for member in gang.members if member.node and member.need.gpus}


def _age(gang: Gang) -> float:
    return gang.created_at.timestamp() if gang.created_at else 0.0
