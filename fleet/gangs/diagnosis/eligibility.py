"""Which nodes a need may use at all, in service or not.

Decides selector, required node affinity and taints as Kubernetes does (labels and taints, concepts "Assigning Pods to
Nodes" and "Taints and Tolerations"), leaving out the taints of a passing state. Refuses preferences: they keep nobody
waiting. An operator that is not known matches nothing, so that nothing is promised on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fleet.gangs.diagnosis.rooms import Mask, Rooms, Taint
from fleet.ports.gangs import Match, Need, Toleration


class Eligibility:
    """Masks by need, kept: needs are few and asked for often. Those of `before` that nobody asks for are let go."""

    def __init__(self, rooms: Rooms, before: Eligibility | None = None) -> None:
        self._rooms = rooms
        self._masks: dict[Need, Mask] = {}
        self._known = before._masks if before is not None else {}

    def of(self, need: Need) -> Mask:
        mask = self._masks.get(need)
        if mask is None:
            mask = self._known.get(need)
            mask = self._masks[need] = self._find(need) if mask is None else mask
        return mask

    def using(self, places: Sequence[int], needs: Iterable[Need]) -> set[Need]:
        """Those of `needs` that may use any of these nodes."""
        rows = np.array(places, np.int64)
        return {need for need in needs if self.of(need)[rows].any()}

    def _find(self, need: Need) -> Mask:
        rooms = self._rooms
        mask = self._tolerated(need.tolerations)
        for key, value in need.selector:
            mask &= rooms.labelled(key, value)
        if need.any_of:
            terms = np.zeros(len(mask), np.bool_)
            for term in need.any_of:
                if term:  # an empty term matches nothing
                    terms |= np.logical_and.reduce([self._matched(match) for match in term])
            mask &= terms
        return mask

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        rooms = self._rooms
        fine = np.array([all(_tolerates(tolerations, t) for t in taints) for taints in rooms.taint_classes], np.bool_)
        return fine[rooms.taint_class] if len(fine) else np.zeros(len(rooms.names), np.bool_)

    def _matched(self, match: Match) -> Mask:
        rooms, nothing = self._rooms, np.zeros(len(self._rooms.names), np.bool_)
        if match.key == "metadata.name":  # matchFields
            has = nothing.copy()
            has[rooms.places(match.values)] = True
        elif match.operator in ("Gt", "Lt"):
            has = self._compared(match)
        else:
            has = nothing.copy()
            for value in match.values:
                has |= rooms.labelled(match.key, value)
        if match.operator in ("In", "Gt", "Lt"):
            return has
        if match.operator == "NotIn":
            return ~has
        if match.operator == "Exists":
            return rooms.having(match.key)
        return ~rooms.having(match.key) if match.operator == "DoesNotExist" else nothing

    def _compared(self, match: Match) -> Mask:
        mask = np.zeros(len(self._rooms.names), np.bool_)
        bound = _number(match.values[0]) if match.values else None
        if bound is None:
            return mask
        sign = 1 if match.operator == "Gt" else -1
        for value in self._rooms.values(match.key):
            number = _number(value)
            if number is not None and (number - bound) * sign > 0:
                mask |= self._rooms.labelled(match.key, value)
        return mask


def _tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    key, value, effect = taint
    return any(
        (not t.key or t.key == key)
        and (t.operator == "Exists" or (bool(t.key) and t.value == value))
        and t.effect in ("", effect)
        for t in tolerations
    )


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
