"""The sentences that open the pages on the policy.

Decides what comes first: what waits for a person, what is open or full, else that there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.policy.loosening import Change
from fleet.policy.models import Breaker
from fleet.readmodels.policy_effects import Effects
from fleet.readmodels.policy_page import PolicyPage


def policy_said(page: PolicyPage) -> SafeString:
    return format_html("<b>{}</b> {} {}", _room(page), _breakers(page), _pending(page))


def _room(page: PolicyPage) -> str:
    if not page.limits:
        return _("No limit is set: nothing but the breaker bounds what may be disrupted.")
    if not page.full:
        return _("Every limit has room.")
    return ngettext(
        "One limit is full in one place: what asks for it waits.",
        "Limits are full in %(n)s places: what asks for them waits.",
        page.full,
    ) % {"n": page.full}


def _breakers(page: PolicyPage) -> str:
    shut = [line.cluster for line in page.breakers if line.state != Breaker.CLOSED]
    if not shut:
        return ""
    return _("The breaker is not closed in %(names)s: nothing new is disrupted there.") % {"names": ", ".join(shut)}


def _pending(page: PolicyPage) -> SafeString | str:
    if not page.pending:
        return ""
    labels = ", ".join(line.row.label for line in page.pending)
    return format_html("<b>{}</b> {}", _("Next:"), _("another person decides on %(labels)s.") % {"labels": labels})


def preview_said(changes: Sequence[Change], effects: Effects) -> SafeString:
    looser = sum(change.loosens for change in changes)
    if not changes:
        return format_html("<b>{}</b>", _("Nothing differs from the policy in force."))
    count = ngettext("One difference.", "%(n)s differences.", len(changes)) % {"n": len(changes)}
    if not looser:
        return format_html("<b>{}</b> {}", count, _("None loosens a limit: they hold as soon as you apply them."))
    text = ngettext(
        "One loosens a limit: all of it waits for another person's approval.",
        "%(n)s loosen limits: all of it waits for another person's approval.",
        looser,
    ) % {"n": looser}
    freed = len(effects.freed)
    goes = (
        ngettext("One that waits would go on.", "%(n)s that wait would go on.", freed) % {"n": freed} if freed else ""
    )
    return format_html("<b>{}</b> {} {}", count, text, goes)
