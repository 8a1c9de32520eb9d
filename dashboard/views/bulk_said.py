"""The sentences that open the pages of bulk actions and planned maintenance.

Decides their order: state, cause, by whom, next. Refuses rules of its own. Every part from outside is escaped.
"""

from __future__ import annotations

from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import spans
from dashboard.views.said import fixed
from fleet.lifecycle import bulk
from fleet.lifecycle.models import Batch
from fleet.readmodels import phrases, words
from fleet.readmodels.batch_page import BatchPage
from fleet.readmodels.lists import Page


def batches_said(page: Page[Batch], windowed: bool) -> SafeString:
    count = page.counts.get
    running, waiting, paused = count("running", 0), count("waiting", 0), count("paused", 0)
    if not running + waiting + paused:
        lead = _("<b>No maintenance is open.</b>") if windowed else _("<b>No bulk action is open.</b>")
        return format_html("{} {}", fixed(lead), fixed(_("<b>Next:</b> nothing to do.")))
    text = _("<b>{running} running,</b> {waiting} waiting for approval, {paused} paused. <b>Next:</b> {following}.")
    following = _("they go on by themselves")
    if paused:
        following = _("a person looks at what is paused, and goes on or cancels")
    elif waiting:
        following = _("people approve or reject what waits")
    return format_html(text, running=running, waiting=waiting, paused=paused, following=following)


def batch_said(page: BatchPage, now: datetime) -> SafeString:
    batch = page.batch
    who = format_html(_("{who} wants it: {reason}."), who=batch.requested_by, reason=batch.reason.rstrip(". "))
    return format_html("<b>{}</b> {} <b>{}</b> {}.", _lead(page), who, _("Next:"), _following(page, now))


def _lead(page: BatchPage) -> str:
    state = words.word(words.BATCH_STATES, page.batch.state)
    if page.planning:
        number, waits, refused = (page.counts[state] for state in ("now", "waits", "refused"))
        parts = [ngettext("%(n)s node may begin now", "%(n)s nodes may begin now", number) % {"n": number}]
        if waits:
            parts.append(ngettext("%(n)s would wait", "%(n)s would wait", waits) % {"n": waits})
        if refused:
            parts.append(ngettext("%(n)s is refused", "%(n)s are refused", refused) % {"n": refused})
        return f"{state}: {', '.join(parts)}."
    over = page.counts["done"] + page.counts["failed"] + page.counts["refused"]
    told = _("%(state)s: %(over)s of %(all)s nodes over") % {"state": state, "over": over, "all": page.total}
    failed = page.counts["failed"]
    return f"{told}, {ngettext('%(n)s failed', '%(n)s failed', failed) % {'n': failed}}." if failed else f"{told}."


def _following(page: BatchPage, now: datetime) -> str | SafeString:
    batch = page.batch
    text = phrases.told(batch.text).rstrip(". ")
    if batch.state == Batch.DRAFT:
        return _("whoever drew it up starts it, or leaves it: it is dropped after an hour")
    if batch.state == Batch.WAITING:
        return _("people approve or reject it")
    if batch.state == Batch.PAUSED:
        return format_html(_("a person looks, and goes on or cancels ({text})"), text=text)
    if batch.state == Batch.RUNNING:
        if batch.until and batch.until > now:
            left = spans.span((batch.until - now).total_seconds())
            return format_html(_("{text}, in {left}"), text=text, left=left)
        return text or _("the next node begins as soon as the guards allow it")
    return text or _("nothing")


def window_said(batch: Batch) -> str:
    """`Mon, Tue 02:00, 120 min, Asia/Seoul`; "" for a bulk action."""
    window = bulk.window_of(batch)
    if window is None:
        return ""
    named = [_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun")]
    days = _("every day") if len(window.days) == 7 else ", ".join(named[day - 1] for day in sorted(window.days))
    text = _("%(days)s at %(start)s for %(minutes)s min, %(zone)s")
    return text % {"days": days, "start": f"{window.start:%H:%M}", "minutes": window.minutes, "zone": window.zone}
