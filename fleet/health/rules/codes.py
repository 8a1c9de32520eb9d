"""What a site says of single codes of the driver and of DCGM, where it disagrees with the tables.

Decides which of the site's, the pool's and the table's word on a code holds: the narrowest. Refuses a word on Xid 154,
which carries the driver's own request, and an action that disrupts for what is not called unhealthy.

A site's word outranks the table and what a line says of itself (Fatal, Non-fatal, the words of NVLink 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args

from fleet.health.rules import dcgmcodes, sxid, xid
from fleet.health.rules.types import ActionClass, Meaning, Severity

Family = Literal["xid", "sxid", "dcgm"]
FAMILIES: tuple[Family, ...] = get_args(Family)
SEVERITIES = (*get_args(Severity), "none")
ACTIONS = tuple(word for word in get_args(ActionClass) if word not in ("confirm", "ignore"))
DISRUPTIVE = frozenset({"reset_gpu", "reboot_node"})
SITE = "the site's rules"
_RANGES: dict[str, tuple[int, int]] = {"xid": (1, 999), "sxid": (10_000, 99_999)}
Key = tuple[str, str]  # family, code


@dataclass(frozen=True, slots=True)
class Codes:
    """`site` and `pools` hold only what differs from the tables."""

    site: Mapping[Key, Meaning] = field(default_factory=dict)
    pools: Mapping[str, Mapping[Key, Meaning]] = field(default_factory=dict)

    def said(self, family: str, code: int | str, pool: str) -> Meaning | None:
        """What the site says of it for nodes of that pool, None where it says nothing."""
        key = (family, str(code))
        own = self.pools.get(pool)
        return (own.get(key) if own else None) or self.site.get(key)


def by_table(family: str, code: str) -> Meaning:
    """What the tables say of a code alone."""
    if family == "dcgm":
        return dcgmcodes.meaning(code)
    return xid.meaning(int(code)) if family == "xid" else sxid.meaning(int(code), None)


def wrong_code(family: object, code: object) -> str:
    """The sentence on a code that cannot be, empty when it can."""
    if family not in FAMILIES:
        return f"There are no codes {family!r}; there are {', '.join(FAMILIES)}."
    if family == "dcgm":
        if str(code) in dcgmcodes.known():
            return ""
        near = get_close_matches(str(code), dcgmcodes.known(), 3)
        hint = f"did you mean {', '.join(near)}?" if near else "they begin with DCGM_FR_."
        return f"There is no DCGM code {code!r}; {hint}"
    least, most = _RANGES[str(family)]
    if isinstance(code, bool) or not isinstance(code, int) or not least <= code <= most:
        return f"{code!r} is no code of {family}; it is a whole number from {least} to {most}."
    if family == "xid" and code == xid.RECOVERY:
        return "Xid 154 carries the driver's own request; it cannot be changed."
    return ""


def wrong_word(family: str, code: object, key: object, value: object) -> str:
    """The sentence on a setting of a code that cannot be, empty when it can."""
    words = {"severity": SEVERITIES, "action_class": ACTIONS}
    if key not in words:
        return f"Code {code} of {family} has no setting {key!r}; it has {', '.join(words)}."
    allowed = words[str(key)]
    return (
        "" if value in allowed else f"Code {code} of {family}: {key} cannot be {value!r}; it is one of {_or(allowed)}."
    )


def changed(base: Meaning, changes: Mapping[str, Any]) -> Meaning:
    """The meaning with a site's words."""
    severity = changes.get("severity", base.severity or "degraded")
    if severity == "none":
        return replace(base, severity=None, action="ignore", source=SITE)
    action = changes.get("action_class", "monitor" if base.action == "ignore" else base.action)
    return replace(base, severity=cast(Severity, severity), action=cast(ActionClass, action), source=SITE)


def wrong_whole(family: str, code: object, what: Meaning) -> str:
    """The sentence on words that do not fit together."""
    if what.action in DISRUPTIVE and what.severity != "unhealthy":
        return (
            f"Code {code} of {family}: {what.action} disrupts, so its severity must be unhealthy, not {what.severity}."
        )
    return ""


def _or(words: tuple[str, ...]) -> str:
    return ", ".join(words)
