"""What a site may change of a rule, and whether a change makes sense.

Decides which settings there are, what each may be, and which of them a pool may have of its own. Refuses the rest,
saying what is allowed: a rule that is misspelt must never be a rule that is silently off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, get_args

from fleet.health.rules.catalogue import DEFAULTS, WATCHED
from fleet.health.rules.types import ActionClass, Rule, Severity

NUMBERS, COUNTS, SWITCHES = ("threshold", "window", "clear"), ("scrapes", "of"), ("enabled", "shadow")
WORDS: dict[str, tuple[str, ...]] = {
    "severity": get_args(Severity),
    "action_class": tuple(word for word in get_args(ActionClass) if word not in ("ignore", "confirm")),
}
FIELDS = (*SWITCHES, *NUMBERS, *COUNTS, *WORDS)
EVERYWHERE = (*SWITCHES, *WORDS)
"""What a pool may set of any rule; of a rule made from data also its threshold and window."""
_OF_DATA = frozenset(watched.rule.id for watched in WATCHED)
_ALWAYS = frozenset({"telemetry-stale"})


@dataclass(frozen=True, slots=True)
class Tuning:
    """A site's rules: all of them, and by pool those that differ there."""

    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(DEFAULTS))
    pools: Mapping[str, Mapping[str, Rule]] = field(default_factory=dict)


def wrong_rule(rule_id: object) -> str:
    """The sentence on a rule that does not exist, empty when it does."""
    if isinstance(rule_id, str) and rule_id in DEFAULTS:
        return ""
    near = get_close_matches(str(rule_id), DEFAULTS, 3)
    hint = f"did you mean {', '.join(near)}?" if near else f"the rules are {', '.join(DEFAULTS)}."
    return f"There is no rule {rule_id!r}; {hint}"


def wrong(rule_id: str, key: object, value: object, *, in_pool: bool = False) -> str:
    """The sentence on a setting that cannot be, empty when it can."""
    allowed = [key for key in FIELDS if not in_pool or key in EVERYWHERE or (rule_id in _OF_DATA and key not in COUNTS)]
    if in_pool and "clear" in allowed:
        allowed.remove("clear")
    if key not in FIELDS:
        return f"Rule {rule_id!r} has no setting {key!r}; it has {', '.join(allowed)}."
    if key not in allowed:
        return f"Rule {rule_id!r}: {key} holds for the whole site; a pool may set {', '.join(allowed)}."
    said = f"Rule {rule_id!r}: {key} cannot be {value!r}"
    if key in SWITCHES:
        if key == "enabled" and value is False and rule_id in _ALWAYS:
            return f"Rule {rule_id!r} cannot be switched off: missing data is never health."
        return "" if isinstance(value, bool) else f"{said}; it is true or false."
    if key in WORDS:
        return "" if value in WORDS[str(key)] else f"{said}; it is one of {', '.join(WORDS[str(key)])}."
    if isinstance(value, bool) or not isinstance(value, int if key in COUNTS else int | float):
        unit = DEFAULTS[rule_id].unit if key == "threshold" else "seconds"
        return f"{said}; it is {'a whole number from 1 to 8' if key in COUNTS else f'a number ({unit})'}."
    below_zero = key == "threshold" and DEFAULTS[rule_id].threshold < 0
    if (value < 0 and not below_zero) or value != value or abs(value) == float("inf"):
        return f"Rule {rule_id!r}: {key} cannot be negative." if value < 0 else f"{said}."
    if key == "window" and value == 0 and DEFAULTS[rule_id].window > 0:
        return f"{said}; this rule needs a window of more than 0 seconds."
    return ""


def wrong_whole(rule: Rule) -> str:
    """The sentence on settings that do not fit together."""
    if not 1 <= rule.scrapes <= rule.of <= 8:
        return f"Rule {rule.id!r}: scrapes and of must satisfy 1 <= scrapes <= of <= 8."
    return ""


def tuned(overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    """All rules with a site's changes. ValueError says in one sentence what is wrong with them."""
    rules = dict(DEFAULTS)
    for rule_id, changes in overrides.items():
        said = wrong_rule(rule_id) or next(filter(None, (wrong(rule_id, k, v) for k, v in changes.items())), "")
        if said:
            raise ValueError(said)
        rules[rule_id] = replace(rules[rule_id], **changes)
        if said := wrong_whole(rules[rule_id]):
            raise ValueError(said)
    return rules
