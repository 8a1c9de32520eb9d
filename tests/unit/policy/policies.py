"""Random policies, as the document allows them."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from hypothesis import strategies as st

from fleet.policy import approvals
from fleet.policy.breaker import TripRule
from fleet.policy.document import KINDS, Policy, Section, limits_of
from fleet.policy.rules import RATE, SCOPES, CapRule
from fleet.policy.windows import Window

CLUSTERS = ("busan", "seoul")
ROLES = ("viewer", "operator", "approver", "policy", "admin")
NOW = datetime(2026, 11, 30, 3, tzinfo=UTC)

percents = st.integers(1, 10_000).map(lambda hundredths: hundredths / 100)
amounts = st.tuples(st.none() | st.integers(1, 60), st.none() | percents)


@st.composite
def cap_rules(draw: st.DrawFn, kind: str, scope: str) -> CapRule:
    absolute, percent = draw(amounts)
    limited = absolute is not None or percent is not None
    window = draw(st.sampled_from([60.0, 90.0, 1800.0, 3600.0])) if kind == RATE and limited else None
    return CapRule(kind, scope, absolute, percent, window)


@st.composite
def windows(draw: st.DrawFn, name: str) -> Window:
    begins = draw(st.none() | st.integers(-20, 20).map(lambda days: NOW + timedelta(days=days)))
    ends = draw(st.none() | st.integers(1, 30).map(lambda days: (begins or NOW) + timedelta(days=days)))
    return Window(
        draw(st.sampled_from(["freeze", "opening"])),
        name,
        draw(st.sampled_from(["UTC", "Asia/Seoul"])),
        draw(st.frozensets(st.integers(1, 7), min_size=1)),
        draw(st.sampled_from([time(2), time(22, 30)])),
        draw(st.sampled_from([30, 240, 1440])),
        draw(st.sampled_from(["", "h100", "a100"])),
        begins,
        ends,
        draw(st.booleans()),
    )


@st.composite
def sections(draw: st.DrawFn) -> Section:
    keys = draw(st.sets(st.tuples(st.sampled_from(KINDS), st.sampled_from(SCOPES)), max_size=6))
    rules = st.builds(
        TripRule,
        st.booleans(),
        percents,
        st.integers(1, 40),
        st.sampled_from([60.0, 600.0]),
        st.integers(1, 9),
        percents,
        st.sampled_from([600.0, 3600.0]),
        st.sampled_from([60.0, 300.0]),
    )
    named = [f"w{number}" for number in range(draw(st.integers(0, 3)))]
    return Section(
        limits_of(draw(cap_rules(kind, scope)) for kind, scope in sorted(keys)),
        draw(st.none() | rules),
        tuple(draw(windows(name)) for name in named),
    )


@st.composite
def _policies(draw: st.DrawFn) -> Policy:
    own = {name: draw(sections()) for name in draw(st.sets(st.sampled_from(CLUSTERS)))}
    asked = st.tuples(st.integers(0, 3), st.sampled_from([30, 60, 1440]))
    return Policy(
        draw(sections()),
        {name: section for name, section in own.items() if section},
        {kind: draw(st.just(usual) | asked) for kind, usual in approvals.KINDS.items()},
        draw(st.dictionaries(st.sampled_from(ROLES), st.integers(0, 50), max_size=2)),
    )


policies: st.SearchStrategy[Policy] = _policies()


@st.composite
def changed(draw: st.DrawFn) -> tuple[Policy, Policy]:
    """Two policies, most of them alike in most of what they say."""
    old, other = draw(policies), draw(policies)
    section: dict[str, Any] = {}
    for name in ("limits", "breaker", "windows"):
        section[name] = getattr(draw(st.sampled_from([old, old, other])).default, name)
    source = draw(st.sampled_from([old, old, other]))
    return old, Policy(Section(**section), source.clusters, old.approvals, old.roles)
