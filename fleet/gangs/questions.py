"""What may be asked of a board, and the answers, as they travel between a page and the observer.

Decides the bounds of one question. Refuses what is none: `question_of` gives None for bytes that it cannot read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Kind = Literal["return", "drain", "suspend", "room"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NODES_AT_MOST, QUESTIONS_AT_MOST, NAMED_AT_MOST = 200, 12, 25


@dataclass(frozen=True, slots=True)
class Question:
    """`return` and `drain` name nodes, `suspend` a gang's key, `room` the label key of the domains ("": none)."""

    kind: Kind
    nodes: tuple[str, ...] = ()
    gang: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A gang in an answer."""

    key: str
    title: str
    gpus: int  # that it wants


@dataclass(frozen=True, slots=True)
class Loses:
    """A gang that a drain takes members from; `again`: what it lacks then fits elsewhere at once."""

    key: str
    title: str
    loses: int
    left: int
    minimum: int
    breaks: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    nodes: int
    free: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How the free GPUs lie (`diagnosis.fragmentation.Scatter`), for one kind of device."""

    resource: str
    free: int
    total: int
    partly_used: int
    sizes: tuple[int, ...]
    slots: tuple[int, ...]
    packed: tuple[int, ...]
    domains: tuple[Domain, ...]
    histogram: tuple[tuple[int, int], ...]
    levels: tuple[str, ...]  # label keys that nodes have and that could be asked for


@dataclass(frozen=True, slots=True)
class Answer:
    """`unknown` are names that the board does not know. `starts` and `no_longer` name the first of `*_count` gangs.
    `free` GPUs and `whole` empty nodes are left in the imagined world. `late`: there was no time for it."""

    unknown: tuple[str, ...] = ()
    starts: tuple[Named, ...] = ()
    starts_count: int = 0
    no_longer: tuple[Named, ...] = ()
    no_longer_count: int = 0
    broken: tuple[Loses, ...] = ()
    gpus: int = 0
    free: int = 0
    whole: int = 0
    room: Room | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """`at` is the moment of the board, as ISO text."""

    at: str
    answers: tuple[Answer, ...] = field(default_factory=tuple)


def question_of(raw: Any) -> Question | None:
    if not isinstance(raw, dict) or raw.get("kind") not in KINDS:
        return None
    nodes, gang, level = raw.get("nodes", []), raw.get("gang", ""), raw.get("level", "")
    if not isinstance(nodes, list) or not all(isinstance(one, str) for one in (*nodes, gang, level)):
        return None
    return Question(raw["kind"], tuple(nodes[:NODES_AT_MOST]), gang, level)


def answers_of(raw: Any) -> Answers:
    """Raises (KeyError, TypeError, ValueError) for what no observer of this release wrote."""
    return Answers(str(raw["at"]), tuple(_answer(one) for one in raw["answers"]))


def _answer(raw: dict[str, Any]) -> Answer:
    plain = {name: raw[name] for name in ("starts_count", "no_longer_count", "gpus", "free", "whole", "late")}
    return Answer(
        unknown=tuple(raw["unknown"]),
        starts=tuple(Named(**one) for one in raw["starts"]),
        no_longer=tuple(Named(**one) for one in raw["no_longer"]),
        broken=tuple(Loses(**one) for one in raw["broken"]),
        room=_room(raw["room"]) if raw["room"] else None,
        **plain,
    )


def _room(raw: dict[str, Any]) -> Room:
    return Room(
        resource=raw["resource"],
        free=raw["free"],
        total=raw["total"],
        partly_used=raw["partly_used"],
        sizes=tuple(raw["sizes"]),
        slots=tuple(raw["slots"]),
        packed=tuple(raw["packed"]),
        domains=tuple(Domain(one["name"], one["nodes"], one["free"], tuple(one["slots"])) for one in raw["domains"]),
        histogram=tuple((free, nodes) for free, nodes in raw["histogram"]),
        levels=tuple(raw["levels"]),
    )
