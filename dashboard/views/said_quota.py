"""The sentence that opens the page on quotas.

Decides that full queues with waiting gangs come first. Refuses rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.views.said import fixed
from fleet.readmodels.queue_quota import QueueLine

NAMED = 3


def quota_said(lines: Sequence[QueueLine]) -> SafeString:
    if not lines:
        return fixed(_("<b>No queue is known.</b> <b>Next:</b> queues appear as soon as a scheduler tells of them."))
    stopped = [line for line in lines if line.stopped]
    full = [line for line in lines if line.full]
    if stopped:
        text = ngettext(
            "<b>{n} queue is stopped:</b> {names}. <b>Next:</b> whoever stopped it starts it again.",
            "<b>{n} queues are stopped:</b> {names}. <b>Next:</b> whoever stopped them starts them again.",
            len(stopped),
        )
        return format_html(text, n=len(stopped), names=_names(stopped))
    if full:
        text = ngettext(
            "<b>{n} queue is full:</b> {names}. <b>Next:</b> work of it ends, or it may have more.",
            "<b>{n} queues are full:</b> {names}. <b>Next:</b> work of them ends, or they may have more.",
            len(full),
        )
        return format_html(text, n=len(full), names=_names(full))
    text = ngettext("<b>{n} queue, not full.</b>", "<b>{n} queues, none of them full.</b>", len(lines))
    return format_html("{} {}", format_html(text, n=len(lines)), _("What waits here waits for something else."))


def _names(lines: Sequence[QueueLine]) -> str:
    shown = ", ".join(line.name for line in lines[:NAMED])
    if len(lines) <= NAMED:
        return shown
    return _("%(names)s and %(n)d more") % {"names": shown, "n": len(lines) - NAMED}
