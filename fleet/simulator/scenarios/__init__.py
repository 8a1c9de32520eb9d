"""Scenario files: what breaks when, written by people who need not know the rules that will notice.

It decides what a scenario file may say. It refuses unknown words with the file's name and the place, before the
fleet starts.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleet.simulator.gangs.plan import Pool, Queue, Team, Teams

FOLDER = Path(__file__).parent
_ODD = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)  # values of a wrong kind


class ScenarioError(Exception):
    """The file is missing or says something that cannot be done."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Which nodes an event hits: so many (or a share of all), at random, of a rack or a leaf (its number), a pool, or
    named ones; `each_gang` takes one node of so many gangs, and of the whole fleet as many gangs as there are for 0."""

    count: int = 1
    share: float = 0.0
    rack: int = 0
    leaf: int = 0
    each_gang: bool = False
    pool: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    at: float
    fault: str
    nodes: Pick = Pick()
    device: int | None = None
    spread: float = 0.0
    clear_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Recurring:
    fault: str
    weight: float = 1.0
    clear_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    description: str = ""
    foreign_cordons: int = 0
    latched_xids: int = 0
    events: tuple[Planned, ...] = ()
    every: float = 0.0
    gang_every: float = 0.0
    kinds: tuple[Recurring, ...] = field(default=())
    gangs: Teams = field(default_factory=Teams)


def available() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Scenario:
    """By the name of one of ours, or by the path of a file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise ScenarioError(
            f"no scenario {name!r}; there are {', '.join(available())}, or give the path of a .yaml file"
        )
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, OSError, *_ODD) as problem:
        raise ScenarioError(f"{path.name}: not YAML: {problem}") from problem
    try:
        return _scenario(path, said)
    except _ODD as problem:
        raise ScenarioError(f"{path.name}: a value of another kind than expected: {problem}") from problem


def _scenario(path: Path, said: Any) -> Scenario:
    _only(said, {"description", "start", "events", "stream", "gang_every", "gangs"}, path.name)
    start, stream = said.get("start") or {}, said.get("stream") or {}
    _only(start, {"foreign_cordons", "latched_xids"}, f"{path.name}: start")
    _only(stream, {"every", "kinds"}, f"{path.name}: stream")
    events = [_planned(e, f"{path.name}: events[{i}]") for i, e in enumerate(said.get("events") or [])]
    kinds = [_build(Recurring, e, f"{path.name}: stream.kinds[{i}]") for i, e in enumerate(stream.get("kinds") or [])]
    if kinds and not stream.get("every"):
        raise ScenarioError(f"{path.name}: stream: 'every' (seconds between faults) is missing")
    return Scenario(
        path.stem,
        str(said.get("description", "")),
        int(start.get("foreign_cordons", 0)),
        int(start.get("latched_xids", 0)),
        tuple(events),
        float(stream.get("every", 0)),
        float(said.get("gang_every", 0)),
        tuple(kinds),
        _teams(said.get("gangs") or {}, f"{path.name}: gangs"),
    )


def _teams(said: Any, where: str) -> Teams:
    _only(said, {"least_nodes", "pools", "queues", "teams"}, where)
    parts: dict[str, tuple[Any, ...]] = {}
    for name, shape in (("pools", Pool), ("queues", Queue), ("teams", Team)):
        parts[name] = tuple(_build(shape, e, f"{where}.{name}[{i}]") for i, e in enumerate(said.get(name) or []))
    for one in (one for some in parts.values() for one in some):
        for problem in one.problems():
            raise ScenarioError(f"{where}: {one.name}: {problem}")
    return Teams(int(said.get("least_nodes", 0)), **parts)


def _planned(said: Any, where: str) -> Planned:
    if not isinstance(said, dict):
        raise ScenarioError(f"{where}: a mapping is expected, not {said!r}")
    nodes = said.get("nodes") or {}
    if isinstance(nodes, dict) and "names" in nodes:
        nodes = nodes | {"names": tuple(nodes["names"])}
    return _build(Planned, said | {"nodes": _build(Pick, nodes, f"{where}.nodes")}, where)


def _build(shape: Any, said: Any, where: str) -> Any:
    _only(said, set(shape.__dataclass_fields__), where)
    try:
        return shape(**said)
    except TypeError as problem:
        raise ScenarioError(f"{where}: {problem}") from problem


def _only(said: Any, words: set[str], where: str) -> None:
    if not isinstance(said, dict):
        raise ScenarioError(f"{where}: a mapping is expected, not {said!r}")
    unknown = set(said) - words
    if unknown:
        raise ScenarioError(f"{where}: unknown {', '.join(sorted(unknown))}; possible are {', '.join(sorted(words))}")
