"""The policy page's form as a document.

Decides which fields a person filled and writes them into the policy in force; what they mean, and what of it is a
mistake, is said by the document's own reader. Refuses nothing by itself, and touches nothing but caps of one section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from fleet.policy.document import LEVELS, Policy, data_of
from fleet.policy.rules import SCOPES

_BOTH = re.compile(r"(\d+)\s*,\s*(\d+(?:\.\d+)?)\s*%")


def field_name(kind: str, scope: str) -> str:
    return f"{kind}.{scope}"


def document(policy: Policy, cluster: str, fields: Mapping[str, str]) -> str:
    """`policy` with the caps of `cluster` ("" for all) as the fields say; an empty field is no word of this section."""
    data = data_of(policy)
    section = data.setdefault("clusters", {}).setdefault(cluster, {}) if cluster else data["default"]
    caps: dict[str, dict[str, Any]] = {}
    for kind in LEVELS:
        for scope in SCOPES:
            said = fields.get(field_name(kind, scope), "").strip()
            if said:
                caps.setdefault(kind, {})[scope] = _value(said)
    section.pop("caps", None)
    if caps:
        section["caps"] = caps
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)


def _value(said: str) -> Any:
    both = _BOTH.fullmatch(said)
    if both:
        return {"nodes": int(both[1]), "percent": float(both[2])}
    return int(said) if said.isdecimal() and len(said) < 12 else said
