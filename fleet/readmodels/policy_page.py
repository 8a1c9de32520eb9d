"""The policy as people see it: every limit with who uses it, breakers, windows, and the versions that led here.

Decides which scopes of a limit are told (those in use, the fullest first; the rest is counted) and in which words.
Reads only. Refuses names of nodes in clusters that the reader may not see: they are counted, not named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.utils.dates import WEEKDAYS_ABBR
from django.utils.translation import gettext as _

from fleet.inventory.models import Cluster
from fleet.inventory.selectors import active_clusters
from fleet.lifecycle.machine import OUT_STATES
from fleet.policy import selectors, versions
from fleet.policy.breaker import TripRule
from fleet.policy.document import LEVELS, LimitKey, Policy, amount
from fleet.policy.models import Approval, ApprovalVote, Breaker, Claim, PolicyVersion
from fleet.policy.rules import FLOOR, RATE, TAKE_OUT, CapRule, ScopeKey
from fleet.policy.windows import Window

TOLD = 6
"""Scopes of one limit that are drawn; the others are counted."""
VERSIONS = 30
Visible = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Use:
    """How far one scope has used a limit: `used` of `limit`. Of a floor, nodes in service and how many must stay."""

    scope: str
    cluster: str
    key: str
    used: int
    limit: int
    size: int
    names: tuple[str, ...]
    kind: str = ""

    @property
    def floor(self) -> bool:
        return self.kind == FLOOR

    @property
    def full(self) -> bool:
        """Would the next one that asks be blocked?"""
        return self.used <= self.limit if self.floor else self.used >= self.limit

    @property
    def over(self) -> int:
        """How many more than it allows."""
        return max(0, self.limit - self.used if self.floor else self.used - self.limit)


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit of the document. `said` is as the document says it; `own` are clusters that say something else."""

    kind: str
    scope: str
    said: str
    own: tuple[tuple[str, str], ...]
    uses: tuple[Use, ...]
    scopes: int  # that it holds in
    busy: int  # of them with anything in use
    full: int


@dataclass(frozen=True, slots=True)
class BreakerLine:
    cluster: str
    pk: int
    state: str
    since: datetime | None
    until: datetime | None
    by: str
    text: str
    rule: TripRule
    held: int  # nodes newly held within the rule's window
    allowed: int
    nodes: int


@dataclass(frozen=True, slots=True)
class WindowLine:
    """`at` is when it ends if it lasts now, else when it comes next (None: never again); `there` in its own zone."""

    cluster: str
    window: Window
    now: bool
    at: datetime | None
    there: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    row: PolicyVersion
    state: str  # in_force, was, pending, rejected, expired, withdrawn
    approval: Approval | None
    votes: tuple[ApprovalVote, ...]

    @property
    def looser(self) -> int:
        return sum(change["loosens"] for change in self.row.changes)


@dataclass(frozen=True, slots=True)
class PolicyPage:
    policy: Policy
    limits: list[LimitLine]
    breakers: list[BreakerLine]
    windows: list[WindowLine]
    versions: list[VersionLine]
    clusters: list[str]

    @property
    def pending(self) -> list[VersionLine]:
        return [line for line in self.versions if line.state == Approval.PENDING]

    @property
    def full(self) -> int:
        return sum(line.full for line in self.limits)


def read(visible: Visible, now: datetime) -> PolicyPage:
    policy = versions.current()
    clusters = [row for row in active_clusters() if visible is None or row.name in visible]
    fleet = selectors.read_fleet(now, OUT_STATES)
    named = {row.pk for row in clusters}
    shown = {node for node, cluster in fleet.cluster_of.items() if cluster in named}
    names = [row.name for row in clusters]
    return PolicyPage(
        policy,
        limit_lines(policy, fleet, names, shown, now),
        _breakers(policy, clusters, fleet, now),
        [line for name in ("", *names) for line in _windows(policy, name, now)],
        version_lines(),
        names,
    )


def limit_lines(
    policy: Policy, fleet: selectors.Fleet, clusters: Sequence[str], shown: set[int], now: datetime
) -> list[LimitLine]:
    """One line for each limit that holds anywhere, in the order of the document."""
    places: dict[str, list[ScopeKey]] = defaultdict(list)
    for key in fleet.tally.sizes:
        places[key[0]].append(key)
    effective = {name: policy.limits(name) for name in ("", *clusters)}
    keys: dict[LimitKey, None] = dict.fromkeys(key for limits in effective.values() for key in limits)
    return [
        _limit_line(kind, scope, effective, [key for key in places[scope] if key[1] in effective], fleet, shown, now)
        for kind, scope in keys
    ]


def _limit_line(
    kind: str,
    scope: str,
    effective: dict[str, dict[LimitKey, CapRule]],
    places: Iterable[ScopeKey],
    fleet: selectors.Fleet,
    shown: set[int],
    now: datetime,
) -> LimitLine:
    common = effective[""].get((kind, scope))
    own = [
        (name, told(rule))
        for name, limits in effective.items()
        if (rule := limits.get((kind, scope))) is not None and rule != common
    ]
    uses = [
        use
        for key in places
        if (rule := effective[key[1]].get((kind, scope))) is not None
        and (use := use_of(rule, key, fleet, shown, now)) is not None
    ]
    busy = sorted((use for use in uses if use.names or use.used or use.floor), key=_fullest)
    shown_uses = tuple(busy[:TOLD]) or (tuple(uses) if len(uses) == 1 else ())  # one place shows its room, empty or not
    return LimitLine(
        kind, scope, told(common), tuple(own), shown_uses, len(uses), len(busy), sum(use.full for use in uses)
    )


def told(rule: CapRule | None) -> str:
    """A limit in words."""
    if rule is None or (rule.absolute is None and rule.percent is None):
        return _("no limit")
    found = amount(rule)
    if not isinstance(found, dict):
        return str(found)
    both = [str(found[name]) for name in ("nodes", "verbs") if name in found]
    both += [f"{found['percent']}%"] if "percent" in found else []
    joined = (_(" or %s, the larger") if rule.kind == FLOOR else _(" or %s, the smaller")) % both[-1]
    text = both[0] + (joined if len(both) > 1 else "")
    return _("%(n)s within %(span)s") % {"n": text, "span": found["within"]} if "within" in found else text


def _fullest(use: Use) -> tuple[bool, float, str, str]:
    share = use.used / max(1, use.limit)
    return not use.full, share if use.floor else -share, use.cluster, use.key


def use_of(rule: CapRule, key: ScopeKey, fleet: selectors.Fleet, shown: set[int], now: datetime) -> Use | None:
    """None where the limit says nothing."""
    size = fleet.tally.sizes.get(key, 0)
    limit = rule.floor(size) if rule.kind == FLOOR else rule.limit(size)
    if limit is None:
        return None
    if rule.kind == RATE:
        since = now - timedelta(seconds=rule.window or 3600)
        return Use(
            rule.scope, key[1], key[2], sum(at > since for at in fleet.tally.begun.get(key, ())), limit, size, ()
        )
    out = fleet.tally.used(TAKE_OUT if rule.kind == FLOOR else rule.kind, key)
    names = tuple(sorted(name for node, name in out.items() if node in shown))
    used = size - len(out) if rule.kind == FLOOR else len(out)
    return Use(rule.scope, key[1], key[2], used, limit, size, names, rule.kind)


def _breakers(policy: Policy, clusters: Sequence[Cluster], fleet: selectors.Fleet, now: datetime) -> list[BreakerLine]:
    rows = {row.cluster_id: row for row in Breaker.objects.filter(cluster_id__in=[one.pk for one in clusters])}
    rules = {row.pk: policy.breaker(row.name) for row in clusters}
    longest = max((rule.window for rule in rules.values()), default=0)
    held: dict[int, set[int]] = defaultdict(set)
    claims = Claim.objects.filter(kind="hold", claimed_at__gt=now - timedelta(seconds=longest))
    for number, node, at in claims.values_list("cluster_id", "node_id", "claimed_at"):
        if number in rules and at > now - timedelta(seconds=rules[number].window):
            held[number].add(node)
    nodes = Counter(fleet.cluster_of.values())
    found = []
    for cluster in clusters:
        row, rule = rows.get(cluster.pk), rules[cluster.pk]
        cooled = row is not None and row.state == Breaker.COOLING and row.until is not None and row.until <= now
        closed = row is None or cooled
        found.append(
            BreakerLine(
                cluster.name, cluster.pk, Breaker.CLOSED if closed or row is None else row.state,
                row.since if row and not closed else None, row.until if row and not closed else None,
                row.by if row else "", row.text if row else "", rule, len(held[cluster.pk]),
                rule.holds_allowed(nodes[cluster.pk]), nodes[cluster.pk],
            )
        )  # fmt: skip
    return found


def _windows(policy: Policy, cluster: str, now: datetime) -> list[WindowLine]:
    found = []
    for window in policy.section(cluster).windows:
        until = window.until(now)
        at = until or window.next_start(now)
        there = _on_its_day(at.astimezone(ZoneInfo(window.zone))) if at else ""
        found.append(WindowLine(cluster, window, until is not None, at, there))
    return found


def _on_its_day(at: datetime) -> str:
    return f"{WEEKDAYS_ABBR[at.weekday()]} {at:%Y-%m-%d %H:%M}"


def version_lines() -> list[VersionLine]:
    """The latest versions, newest first, with what became of each."""
    rows = list(PolicyVersion.objects.order_by("-pk")[:VERSIONS])
    asked = Approval.objects.filter(subject__in=[row.subject for row in rows]).prefetch_related("votes").order_by("pk")
    approvals = {row.subject: row for row in asked}
    in_force = max((row for row in rows if row.applied_at), key=lambda row: (row.applied_at, row.pk), default=None)
    return [_version(row, approvals.get(row.subject), row is in_force) for row in rows]


def version(pk: int) -> VersionLine | None:
    row = PolicyVersion.objects.filter(pk=pk).first()
    if row is None:
        return None
    asked = Approval.objects.filter(subject=row.subject).prefetch_related("votes").order_by("pk").last()
    last = PolicyVersion.objects.filter(applied_at__isnull=False).order_by("-applied_at", "-pk").first()
    return _version(row, asked, row == last)


def _version(row: PolicyVersion, asked: Approval | None, in_force: bool) -> VersionLine:
    state = ("in_force" if in_force else "was") if row.applied_at else asked.state if asked else Approval.WITHDRAWN
    return VersionLine(row, state, asked, tuple(asked.votes.all()) if asked else ())


def editable(policy: Policy, cluster: str) -> dict[LimitKey, str]:
    """The caps of a section as a form's fields hold them: `2`, `5%`, `2, 5%`, `none`."""
    return {key: ", ".join(_field(rule)) for key, rule in policy.section(cluster).limits.items() if key[0] in LEVELS}


def _field(rule: CapRule) -> list[str]:
    found = amount(rule)
    return [str(found["nodes"]), f"{found['percent']}%"] if isinstance(found, dict) else [str(found)]
