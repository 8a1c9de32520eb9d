"""In which domain of a network's tree each node lies, at each tier.

Decides that a gang which may not go above a tier shares the largest domain that is no higher; a name of a tier means
the highest domain of that name above the node, for trees may differ in depth. Refuses patterns that could take long to
match, and members that are not there: such a domain is smaller, and never larger, than its tree says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from fleet.ports.gangs import Domain, Inside, Match, tier_level

Labels = Mapping[str, str]
LONGEST_PATTERN = 200
_NESTED = re.compile(r"[*+}][^()]*\)\s*[*+{]")  # a repeated group that repeats inside


def levels_of(domains: Iterable[Domain], nodes: Mapping[str, Labels]) -> dict[str, dict[str, str]]:
    """By node: level (`fleet.ports.gangs.tier_level`) -> its domain there. Nodes in no domain are left out."""
    by_name = {one.name: one for one in sorted(domains, key=lambda one: one.name)}
    above: dict[str, list[str]] = defaultdict(list)
    direct: dict[str, list[str]] = defaultdict(list)
    for domain in by_name.values():
        for inside in domain.members:
            for member in _members(inside, by_name, nodes):
                (above if inside.domains else direct)[member].append(domain.name)
    tiers = sorted({one.tier for one in by_name.values()})
    known: dict[tuple[str, ...], dict[str, str]] = {}
    for names in direct.values():
        lowest = tuple(names)
        if lowest not in known:
            known[lowest] = _levels([by_name[name] for name in _upwards(lowest, above)], tiers)
    return {node: known[tuple(names)] for node, names in direct.items()}


def _upwards(names: tuple[str, ...], above: Mapping[str, list[str]]) -> list[str]:
    """The domains and all that they lie in; a circle ends."""
    seen = dict.fromkeys(names)
    queue = list(seen)
    for here in queue:
        for name in above.get(here, ()):
            if name not in seen:
                seen[name] = None
                queue.append(name)
    return list(seen)


def _levels(domains: list[Domain], tiers: list[int]) -> dict[str, str]:
    found: dict[str, str] = {}
    highest_last = sorted(domains, key=lambda one: (one.tier, one.name))
    for tier in tiers:
        below = [one.name for one in highest_last if one.tier <= tier]
        if below:
            found[tier_level(tier)] = below[-1]
    found.update((tier_level(one.tier_name), one.name) for one in highest_last if one.tier_name)
    return found


def _members(inside: Inside, domains: Mapping[str, Domain], nodes: Mapping[str, Labels]) -> Iterator[str]:
    known: Mapping[str, object] = domains if inside.domains else nodes
    if inside.name:
        yield from [inside.name] if inside.name in known else ()
    elif inside.pattern:
        pattern = _compiled(inside.pattern)
        yield from (name for name in known if pattern is not None and pattern.search(name))
    elif inside.labels and not inside.domains:
        yield from (name for name, labels in nodes.items() if all(_matches(match, labels) for match in inside.labels))


def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > LONGEST_PATTERN or _NESTED.search(pattern):
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _matches(match: Match, labels: Labels) -> bool:
    """As a label selector does: what is not there is in no list."""
    if match.operator == "In":
        return labels.get(match.key) in match.values
    if match.operator == "NotIn":
        return labels.get(match.key) not in match.values
    if match.operator == "Exists":
        return match.key in labels
    return match.operator == "DoesNotExist" and match.key not in labels
