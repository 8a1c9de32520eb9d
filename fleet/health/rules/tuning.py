"""What a site may change of a rule, and whether a change makes sense.

Decides which settings there are, what each may be, and which of them mean something to a rule; a pool may have any of
them of its own. Refuses the rest, saying what is allowed: a rule that is misspelt must never be a rule that is silently
off, and a number that no rule reads must not look like a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, get_args

from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.codes import Codes
from fleet.health.rules.types import ActionClass, ModeWord, Rule, Severity

NUMBERS, COUNTS, SWITCHES = ("threshold", "window", "clear"), ("scrapes", "of"), ("enabled", "shadow")
WORDS: dict[str, tuple[str, ...]] = {
    "severity": get_args(Severity),
    "action_class": tuple(word for word in get_args(ActionClass) if word not in ("ignore", "confirm")),
    "mode": get_args(ModeWord),
}
FIELDS = (*SWITCHES, *NUMBERS, *COUNTS, *WORDS)
_ALWAYS = frozenset({"telemetry-stale"})


@dataclass(frozen=True, slots=True)
class Tuning:
    """A site's rules: all of them, and by pool those that differ there; and its words on single codes."""

    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(DEFAULTS))
    pools: Mapping[str, Mapping[str, Rule]] = field(default_factory=dict)
    codes: Codes = field(default_factory=Codes)

    def mode_of(self, rule_id: str, pool: str) -> ModeWord:
        """How far a rule may go on the nodes of that pool ("" for none). A rule that is no more limits nothing."""
        rule = self.pools.get(pool, {}).get(rule_id) or self.rules.get(rule_id)
        return rule.mode if rule else "automate"

    @property
    def limited(self) -> bool:
        """Is any rule's mode below automate, anywhere?"""
        every = (self.rules, *self.pools.values())
        return any(rule.mode != "automate" for rules in every for rule in rules.values())


def wrong_rule(rule_id: object) -> str:
    """The sentence on a rule that does not exist, empty when it does."""
    if isinstance(rule_id, str) and rule_id in DEFAULTS:
        return ""
    near = get_close_matches(str(rule_id), DEFAULTS, 3)
    hint = f"did you mean {', '.join(near)}?" if near else f"the rules are {', '.join(DEFAULTS)}."
    return f"There is no rule {rule_id!r}; {hint}"


def settings_of(rule: Rule) -> tuple[str, ...]:
    """What may be set of a rule; a suspicion stays one, because passive evidence alone must never act."""
    words = ("severity", "mode") if rule.action_class == "confirm" else WORDS
    return tuple(key for key in FIELDS if key in rule.tunes or key in SWITCHES or key in words)


def wrong(rule_id: str, key: object, value: object) -> str:
    """The sentence on a setting that cannot be, empty when it can."""
    default = DEFAULTS[rule_id]
    if key not in settings_of(default):
        known = "no setting" if key not in FIELDS else "no use for"
        return f"Rule {rule_id!r} has {known} {key!r}; it has {', '.join(settings_of(default))}."
    said = f"Rule {rule_id!r}: {key} cannot be {value!r}"
    if key in SWITCHES:
        if key == "enabled" and value is False and rule_id in _ALWAYS:
            return f"Rule {rule_id!r} cannot be switched off: missing data is never health."
        return "" if isinstance(value, bool) else f"{said}; it is true or false."
    if key in WORDS:
        return "" if value in WORDS[str(key)] else f"{said}; it is one of {', '.join(WORDS[str(key)])}."
    return _wrong_number(default, str(key), value, said)


def _wrong_number(default: Rule, key: str, value: object, said: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int if key in COUNTS else int | float):
        unit = default.unit if key == "threshold" else "seconds"
        if isinstance(value, str) and re.fullmatch(r"[0-9]+e-?[0-9]+", value):
            return f"{said}: YAML reads it as text; write {value.replace('e', '.0e', 1)}."
        return f"{said}; it is {'a whole number from 1 to 8' if key in COUNTS else f'a number ({unit})'}."
    below_zero = key == "threshold" and default.threshold < 0
    if (value < 0 and not below_zero) or value != value or abs(value) == float("inf"):
        return f"Rule {default.id!r}: {key} cannot be negative." if value < 0 else f"{said}."
    if key == "window" and value == 0 and default.window > 0:
        return f"{said}; this rule needs a window of more than 0 seconds."
    return ""


def wrong_whole(rule: Rule) -> str:
    """The sentence on settings that do not fit together."""
    if not 1 <= rule.scrapes <= rule.of <= 8:
        return f"Rule {rule.id!r}: scrapes and of must satisfy 1 <= scrapes <= of <= 8."
    if rule.unit == "lines" and rule.threshold > 1 and not rule.window:
        return f"Rule {rule.id!r}: {rule.threshold:g} lines need a window in which they are counted."
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
