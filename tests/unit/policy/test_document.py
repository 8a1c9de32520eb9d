"""The policy as one text: read back whole, and every mistake told with its line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from pathlib import Path

import pytest
from hypothesis import given, settings

from fleet.policy.breaker import TripRule
from fleet.policy.document import Policy, text_of
from fleet.policy.document_file import BadPolicy, parse
from fleet.policy.rules import CapRule
from tests.unit.policy.policies import CLUSTERS, ROLES, policies

WHOLE = """
version: 1
default:
  caps:
    hold: {fleet: 20%}
    in_flight: {fleet: 5%, rack: 2, leaf: {nodes: 3, percent: 12.5}}
  rates: {fleet: {verbs: 20, within: 1h}, tenant: {percent: 5, within: 30m}}
  floors: {tenant: 80%, pool: 4}
  breaker: {percent: 10, window: 15m}
  windows:
    - {kind: freeze, name: quarter end, zone: Asia/Seoul, days: [mon, fri], start: 22:30, lasts: 4h,
       urgent_passes: true}
    - {kind: opening, name: nights, zone: UTC, start: "02:00", lasts: 90m, pool: h100,
       begins: 2026-12-01T00:00, ends: 2027-01-01}
clusters:
  seoul:
    caps: {in_flight: {rack: none}}
approvals: {reprovision: {people: 3, within: 2h}}
roles: {operator: 10}
"""


def read(text: str) -> Policy:
    return parse(text, "policy.yaml", CLUSTERS, ROLES)


def test_a_document_says_every_kind_of_limit() -> None:
    found = read(WHOLE)
    assert found.default.limits["in_flight", "leaf"] == CapRule("in_flight", "leaf", 3, 12.5)
    assert found.default.limits["rate", "fleet"] == CapRule("rate", "fleet", 20, None, 3600)
    assert found.default.limits["floor", "tenant"] == CapRule("floor", "tenant", None, 80.0)
    assert found.default.breaker == TripRule(percent=10, window=900)
    assert found.limits("seoul")["in_flight", "rack"].limit(10) is None
    assert found.limits("busan")["in_flight", "rack"].limit(10) == 2
    assert (found.approvals["reprovision"], found.approvals["loosen"]) == ((3, 120), (1, 10080))
    freeze, opening = found.default.windows
    assert (freeze.start, freeze.days, freeze.minutes) == (time(22, 30), frozenset({1, 5}), 240)
    assert opening.begins == datetime(2026, 12, 1, tzinfo=UTC) and opening.pool == "h100"
    assert read(text_of(found)) == found


@settings(deadline=None, max_examples=60)
@given(policies)
def test_what_is_written_is_read_back(policy: Policy) -> None:
    assert read(text_of(policy)) == policy


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (1, "caps: {}", "must hold `version: 1`"),
        (1, "version: true", "must hold `version: 1`"),
        (2, "version: 1\ndefaults: {}", "There is no 'defaults' in the file"),
        (4, "version: 1\ndefault:\n  caps:\n    inflight: {rack: 2}", "There is no 'inflight' in default.caps"),
        (3, "version: 1\ndefault:\n  caps: {hold: {room: 2}}", "There is no 'room' in default.caps.hold"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: 0}}", "cannot be 0"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: 120%}}", "cannot be '120%'"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: 2.5}}", "cannot be 2.5"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: true}}", "cannot be True"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: {nodes: 2}}}", "cannot be {'nodes': 2}"),
        (3, "version: 1\ndefault:\n  rates: {fleet: 20}", "it is {verbs: 20, within: 1h}"),
        (3, "version: 1\ndefault:\n  breaker: {least: 0}", "default.breaker.least cannot be 0"),
        (3, "version: 1\ndefault:\n  breaker: {window: 600}", "it is a time such as 90s"),
        (
            4,
            "version: 1\nclusters:\n  seoul: {}\n  tokyo: {}",
            "No cluster 'tokyo' is registered; there are busan, seoul",
        ),
        (2, "version: 1\napprovals: {bulk: {people: -1}}", "approvals.bulk is like"),
        (2, "version: 1\nroles: {boss: 1}", "There is no 'boss' in roles"),
        (3, "version: 1\ndefault:\n  windows: [{kind: freeze}]", "default.windows.1.name cannot be None"),
        (3, "version: 1\ndefault:\n  caps: {hold: {rack: 1, rack: 9}}", "'rack' is there twice"),
        (2, "version: 1\ndefault: [", "This is no YAML"),
    ],
)
def test_each_mistake_is_told_with_its_line(line: int, text: str, said: str) -> None:
    with pytest.raises(BadPolicy) as caught:
        read(text)
    assert any(mistake.line == line and said in mistake.text for mistake in caught.value.mistakes), caught.value


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadPolicy) as caught:
        read("version: 1\ndefault:\n  caps: {hold: {rack: 0}}\n  floors: {rack: x}\nroles: {boss: 1}\n")
    assert [mistake.line for mistake in caught.value.mistakes] == [3, 4, 5]


@pytest.mark.parametrize("zone", ["Mars/Base", "../etc/passwd", "", 3])
def test_a_window_in_a_zone_that_is_none_is_refused(zone: object) -> None:
    with pytest.raises(BadPolicy):
        read(f"version: 1\ndefault:\n  windows: [{{kind: freeze, name: x, zone: {zone!r}, start: '02:00', lasts: 1h}}]")


def test_the_example_of_the_manual_is_a_policy() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(version: 1\ndefault:.*?)```", manual, re.DOTALL)
    found = parse(example, "operations.md", ["seoul-1"], ROLES)
    assert {kind for kind, _ in found.default.limits} == {"hold", "take_out", "in_flight", "rate", "floor"}
    assert found.default.breaker == TripRule() and len(found.windows("seoul-1")) == 1
