"""Who are peers.

Decides it from the gang and the role of the pods on a node: GPUs of one model; ports of one name, which are one rail,
where eight nodes have it, else all ports. Refuses to guess a role: where no label tells, the gang is one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleet.health.grey.peers import LEAST, Groups
from fleet.telemetry.frame import Frame


@dataclass(frozen=True, slots=True)
class Units:
    """`gang_of` and `unit_of` are by node of the frame, -1 for none; a unit is one role of one gang."""

    gangs: list[str]
    gang_of: Groups
    unit_of: Groups


def units(frame: Frame, gangs: Mapping[str, str], roles: Mapping[str, str]) -> Units:
    names = sorted(set(gangs.values()) - {""})
    place = {gang: number for number, gang in enumerate(names)}
    number: dict[tuple[str, str], int] = {}
    gang_of, unit_of = [], []
    for node in list(frame.nodes):
        gang = gangs.get(node, "")
        gang_of.append(place.get(gang, -1))
        unit_of.append(number.setdefault((gang, roles.get(node, "")), len(number)) if gang else -1)
    return Units(names, np.array(gang_of, dtype=np.int64), np.array(unit_of, dtype=np.int64))


class Kinds:
    """Numbers for a word of each part (its model, its name), kept from look to look."""

    def __init__(self) -> None:
        self._of: list[int] = []
        self._number: dict[str, int] = {}

    def of(self, words: list[str]) -> Groups:
        """`words` are those of the parts that are new since the last time."""
        self._of += [self._number.setdefault(word, len(self._number)) for word in words]
        return np.array(self._of, dtype=np.int64)

    @property
    def known(self) -> int:
        return len(self._of)

    def __len__(self) -> int:
        return len(self._number)


def of_kind(unit: Groups, kind: Groups, kinds: int) -> Groups:
    """The number of (unit, kind), -1 where there is no unit."""
    return np.where(unit >= 0, unit * max(1, kinds) + kind, -1)


def rails(unit: Groups, name: Groups, kinds: int) -> Groups:
    """Ports by their name where that makes groups that are large enough, else by their unit."""
    by_name = of_kind(unit, name, kinds)
    mine = by_name[by_name >= 0]
    size = np.bincount(mine, minlength=int(mine.max()) + 1) if len(mine) else np.zeros(1, np.int64)
    large = (by_name >= 0) & (size[np.maximum(by_name, 0)] >= LEAST)
    beyond = int(by_name.max(initial=0)) + 1
    return np.where(large, by_name, np.where(unit >= 0, beyond + unit, -1))
