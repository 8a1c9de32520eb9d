"""The policy's history: what was asked for, by whom and why, what of it holds, and what waits for another person.

Decides that a change which loosens anything takes effect only once another person approved exactly this change of
exactly this policy, and every other change at once. The working tables are written in the transaction that records the
version and its audit row. Refuses a change without a reason, one that changes nothing, and an approval of a change
whose ground has changed meanwhile.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import asdict
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from fleet.access.models import Role
from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.inventory import selectors as inventory
from fleet.policy import approvals, asking, services
from fleet.policy.document import Policy, Section, limits_of, text_of
from fleet.policy.document_file import BadPolicy, parse
from fleet.policy.loosening import Change, compare
from fleet.policy.models import Approval, ApprovalRule, BreakerRule, Cap, PolicyVersion, RoleCap, Window
from fleet.policy.rules import CapRule, Decision
from fleet.policy.selectors import as_trip_rule, as_window

BEFORE = "muster"


class Refused(Exception):
    """The policy cannot be changed so; the text says why."""


def read(text: str, name: str) -> Policy:
    """A document against the clusters and roles that exist. Raises BadPolicy."""
    return parse(text, name, _clusters().values(), Role.values)


def _clusters() -> dict[int, str]:
    return dict(inventory.active_clusters().values_list("pk", "name"))


def current() -> Policy:
    """The policy in force, as the guards' own tables hold it."""
    names: dict[int | None, str] = dict([(None, ""), *_clusters().items()])
    caps: dict[str, list[CapRule]] = defaultdict(list)
    for cap in Cap.objects.all():
        if cap.cluster_id in names:
            caps[names[cap.cluster_id]].append(
                CapRule(cap.kind, cap.scope, cap.absolute, cap.percent, cap.window if cap.kind == "rate" else None)
            )
    rules = {names[row.cluster_id]: as_trip_rule(row) for row in BreakerRule.objects.all() if row.cluster_id in names}
    times = defaultdict(list)
    for row in Window.objects.order_by("pk"):
        if row.cluster_id in names:
            times[names[row.cluster_id]].append(as_window(row))
    sections = {
        name: Section(limits_of(caps[name]), rules.get(name), tuple(times[name]))
        for name in {*caps, *rules, *times, ""}
    }
    asked = ApprovalRule.objects.values_list("kind", "needed", "minutes")
    return Policy(
        sections.pop(""),
        sections,
        {**approvals.KINDS, **{kind: (needed, minutes) for kind, needed, minutes in asked}},
        dict(RoleCap.objects.values_list("role", "nodes")),
    )


@transaction.atomic
def propose(new: Policy, by: str, reason: str, now: datetime, only: frozenset[str] | None = None) -> PolicyVersion:
    """Record a change; it holds at once unless it loosens something. `only`: the clusters that `by` may change.

    Raises Refused.
    """
    if not reason.strip():
        raise Refused("Changing the policy takes a reason.")
    services.lock_fleet()
    old = current()
    changes = compare(old, new, now)
    if not changes:
        raise Refused("Nothing differs from the policy in force.")
    _within(changes, only)
    _adopt(old, now)
    row = PolicyVersion.objects.create(
        text=text_of(new),
        base=text_of(old),
        changes=[asdict(change) for change in changes],
        author=by,
        reason=reason.strip()[:300],
        created_at=now,
    )
    loose = [change for change in changes if change.loosens]
    if not loose:
        _apply(row, new, by, now)
        return row
    summary = {"version": row.label, "loosens": [asdict(change) for change in loose], "changes": len(changes)}
    asking.ask(
        [
            asking.Wanted(
                row.subject, approvals.LOOSEN, _hash(row.text, row.base), by, None, reason=row.reason, summary=summary
            )
        ],
        now,
    )
    _tell(row, "policy.propose", by, now)
    return row


def _within(changes: list[Change], only: frozenset[str] | None) -> None:
    other = sorted({change.cluster for change in changes} - only) if only is not None else []
    if other:
        named = ", ".join(name or "every cluster" for name in other)
        raise Refused(f"This changes the policy of {named}, for which your role does not hold.")


def _adopt(old: Policy, now: datetime) -> None:
    """The tables were filled before the first version, or by other hands since the last: that is a version too."""
    text = text_of(old)
    last = PolicyVersion.objects.filter(applied_at__isnull=False).order_by("-applied_at", "-pk").first()
    if last is None or last.text != text:
        said = "Found in force." if last is None else "Found in force; it was changed by other means than a version."
        PolicyVersion.objects.create(
            text=text, base=last.text if last else "", author=BEFORE, reason=said, created_at=now, applied_at=now
        )


@transaction.atomic
def vote(version_id: int, by: str, yes: bool, reason: str, now: datetime) -> Decision:
    """One person's word on a change that waits. Raises asking.VoteRefused, or Refused where it cannot hold any more."""
    services.lock_fleet()
    row = PolicyVersion.objects.select_for_update().get(pk=version_id)
    asked = Approval.objects.filter(subject=row.subject, state=Approval.PENDING).first()
    if asked is None:
        raise asking.VoteRefused(f"{row.label} does not wait for approval.")
    if not yes and not reason.strip():
        raise Refused("Rejecting a change of the policy takes a reason.")
    decision = asking.vote(asked.pk, by, yes, reason, _hash(row.text, text_of(current())), now)
    if decision.allowed:
        try:
            _apply(row, read(row.text, row.label), by, now)
        except BadPolicy as error:
            raise Refused(f"It does not fit any more: {error}") from error
    return decision


@transaction.atomic
def withdraw(version_id: int, by: str, reason: str, now: datetime) -> None:
    """What was asked for is not wanted any more."""
    row = PolicyVersion.objects.select_for_update().get(pk=version_id)
    if not Approval.objects.filter(subject=row.subject, state=Approval.PENDING).exists():
        raise Refused(f"{row.label} does not wait for approval.")
    asking.withdraw([row.subject], now)
    _tell(row, "policy.withdraw", by, now, reason=reason[:300])


def _hash(text: str, base: str) -> str:
    return approvals.plan_hash({"policy": text, "instead of": base})


def _apply(row: PolicyVersion, policy: Policy, by: str, now: datetime) -> None:
    """Write the working tables. What else waited was compared with the policy that ends now: it is withdrawn."""
    ids = {"": None, **{name: pk for pk, name in _clusters().items()}}
    known = {pk for pk in ids.values() if pk is not None}
    sections = [(ids[name], policy.section(name)) for name in ("", *policy.clusters)]
    mine = Q(cluster_id__isnull=True) | Q(cluster_id__in=known)
    Cap.objects.filter(mine).delete()
    BreakerRule.objects.filter(mine).delete()
    Cap.objects.bulk_create(
        Cap(
            cluster_id=pk,
            kind=cap.kind,
            scope=cap.scope,
            absolute=cap.absolute,
            percent=cap.percent,
            window=cap.window,
        )
        for pk, section in sections
        for cap in section.limits.values()
    )
    BreakerRule.objects.bulk_create(
        BreakerRule(cluster_id=pk, **asdict(section.breaker)) for pk, section in sections if section.breaker
    )
    _write_windows(sections, known, by, now)
    ApprovalRule.objects.all().delete()
    ApprovalRule.objects.bulk_create(
        ApprovalRule(kind=kind, needed=needed, minutes=minutes)
        for kind, (needed, minutes) in policy.approvals.items()
        if (needed, minutes) != approvals.KINDS.get(kind)
    )
    RoleCap.objects.all().delete()
    RoleCap.objects.bulk_create(RoleCap(role=role, nodes=nodes) for role, nodes in policy.roles.items())
    waiting = Approval.objects.filter(subject__startswith="policy:", state=Approval.PENDING)
    asking.withdraw(waiting.exclude(subject=row.subject).values_list("subject", flat=True), now)
    row.applied_at = now
    row.save(update_fields=["applied_at"])
    _tell(row, "policy.apply", by, now)


def _write_windows(sections: list[tuple[int | None, Section]], known: set[int], by: str, now: datetime) -> None:
    """Those that stay keep their rows: who made them, and when."""
    wanted = {(pk, window) for pk, section in sections for window in section.windows}
    for row in Window.objects.filter(Q(cluster_id__isnull=True) | Q(cluster_id__in=known)):
        if (row.cluster_id, as_window(row)) in wanted:
            wanted.discard((row.cluster_id, as_window(row)))
        else:
            row.delete()
    Window.objects.bulk_create(
        Window(
            cluster_id=pk,
            pool=window.pool,
            kind=window.kind,
            name=window.name,
            zone=window.zone,
            days="".join(str(day) for day in sorted(window.days)),
            start=window.start,
            minutes=window.minutes,
            begins=window.begins,
            ends=window.ends,
            urgent_passes=window.urgent_passes,
            created_by=by,
            created_at=now,
        )
        for pk, window in sorted(wanted, key=lambda item: (item[0] or 0, item[1].name))
    )


def _tell(row: PolicyVersion, action: str, by: str, now: datetime, **more: str) -> None:
    publish(None, [Notice("policy", row.label)], now)
    detail = {"version": row.label, "author": row.author, "reason": row.reason, "changes": row.changes, **more}
    audit.record("site", [audit.Entry(actor=by, action=action, object=row.subject, detail=detail)], now)


def diff_of(old: str, new: str, names: tuple[str, str] = ("in force", "new")) -> str:
    """Two texts of policies line by line, as `diff -u` tells it."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="", n=2)
    return "\n".join(lines)
