"""Tags that write marks, badges and times the same way on every page.

Decides their markup. Refuses queries and rules: it gets values and writes HTML.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dashboard import clock, spans, words
from fleet.readmodels import phrases
from fleet.readmodels import words as told

register = template.Library()
NONE = "–"


@register.simple_tag
def icon(name: str) -> SafeString:
    """`{% icon "flow" %}`: decoration beside a word, never alone."""
    return format_html('<svg aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def mark(verdict: str) -> SafeString:
    """`{% mark node.verdict %}`: shape and letter only; put the word beside it."""
    kind = words.VERDICT_CLASS.get(verdict, "unk")
    return format_html('<svg class="mk {0}" aria-hidden="true"><use href="#m-{0}"/></svg>', kind)


@register.simple_tag
def verdict(value: str) -> SafeString:
    """`{% verdict v %}`: mark and word, for table cells."""
    return format_html('<span class="v">{}{}</span>', mark(value), words.VERDICT_WORD.get(value, value))


@register.simple_tag
def verdict_badge(value: str, text: Any = "") -> SafeString:
    """`{% verdict_badge v [text] %}`: mark and word on a quiet ground, for headers."""
    kind = words.VERDICT_CLASS.get(value, "unk")
    word = text or words.capital(words.VERDICT_WORD.get(value, value))
    return format_html('<span class="badge b-{}">{}{}</span>', kind, mark(value), word)


@register.simple_tag
def state_badge(value: str) -> SafeString:
    """`{% state_badge node.state %}`: a node's lifecycle state."""
    kind = words.STATE_CLASS.get(value, "b-line")
    return format_html('<span class="badge {}">{}</span>', kind, words.capital(words.STATE_WORD.get(value, value)))


@register.simple_tag
def workflow_badge(value: str) -> SafeString:
    """`{% workflow_badge workflow.state %}`."""
    kind = words.WORKFLOW_CLASS.get(value, "b-line")
    return format_html('<span class="badge {}">{}</span>', kind, words.capital(words.WORKFLOW_WORD.get(value, value)))


@register.simple_tag
def batch_badge(value: str) -> SafeString:
    """`{% batch_badge batch.state %}`."""
    kind = words.BATCH_CLASS.get(value, "b-line")
    return format_html('<span class="badge {}">{}</span>', kind, told.word(told.BATCH_STATES, value))


@register.simple_tag
def approval_badge(value: str) -> SafeString:
    """`{% approval_badge request.state %}`."""
    kind = words.APPROVAL_CLASS.get(value, "b-line")
    return format_html('<span class="badge {}">{}</span>', kind, told.word(told.APPROVAL_STATES, value))


@register.filter
def member_class(value: str) -> str:
    return words.MEMBER_CLASS.get(value, "b-line")


@register.filter
def state_word(value: str) -> Any:
    return words.STATE_WORD.get(value, value)


@register.filter
def verdict_word(value: str) -> Any:
    return words.VERDICT_WORD.get(value, value)


@register.filter
def workflow_word(value: str) -> Any:
    return words.WORKFLOW_WORD.get(value, value)


@register.filter
def verb_word(value: str) -> Any:
    return words.VERB_WORD.get(value, value)


@register.filter
def mode_word(value: str) -> Any:
    return words.MODE_WORD.get(value, value)


@register.filter
def intent_word(value: str) -> Any:
    return words.VERB_WORD.get(value) or words.INTENT_WORD.get(value, value)


@register.filter
def intent_outcome(value: str) -> Any:
    return words.INTENT_OUTCOME.get(value, value)


@register.filter
def role_word(value: str) -> Any:
    return words.ROLE_WORD.get(value, value)


@register.filter
def capital(value: Any) -> str:
    return words.capital(value)


def _now(context: template.Context) -> datetime:
    found = context.get("now")
    return found if isinstance(found, datetime) else clock.now()


@register.simple_tag(takes_context=True)
def since(context: template.Context, at: datetime | None) -> str | SafeString:
    """`{% since dt %}`: `21 min`, with the absolute time in its title; a script keeps it fresh."""
    if at is None:
        return NONE
    return format_html(
        '<time class="dotted" datetime="{}" title="{} UTC" data-age>{}</time>',
        spans.iso(at),
        spans.absolute(at),
        spans.age(at, _now(context)),
    )


@register.simple_tag(takes_context=True)
def ago(context: template.Context, at: datetime | None) -> str | SafeString:
    """`{% ago dt %}`: `21 min ago`, else like `since`."""
    if at is None:
        return NONE
    return format_html(
        '<time class="dotted" datetime="{}" title="{} UTC" data-age="ago">{}</time>',
        spans.iso(at),
        spans.absolute(at),
        _("%(span)s ago") % {"span": spans.age(at, _now(context))},
    )


@register.simple_tag(takes_context=True)
def countdown(context: template.Context, at: datetime | None) -> str | SafeString:
    """`{% countdown dt %}`: `0:24`, ticking once a second."""
    if at is None:
        return NONE
    left = spans.minutes_left((at - _now(context)).total_seconds())
    return format_html('<span role="timer" aria-live="off" data-until="{}">{}</span>', spans.iso(at), left)


@register.simple_tag
def at(value: datetime | None, form: str = "full") -> str | SafeString:
    """`{% at dt "hm" %}`: the absolute time (`hm`, `hms`, `full`, `day`); print `{% zone %}` beside it."""
    if value is None:
        return NONE
    return format_html(
        '<time datetime="{}" data-at="{}" title="{} UTC">{}</time>',
        spans.iso(value),
        form,
        spans.absolute(value),
        spans.absolute(value, form),
    )


@register.simple_tag
def zone() -> SafeString:
    """The zone that absolute times on this page are written in."""
    return SafeString("<span data-zone>UTC</span>")


@register.filter
def amount(value: float | None) -> str:
    """`{{ quota|amount }}`: `1,024`, parts of a device with two decimals."""
    return NONE if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


@register.filter
def duration(seconds: float | None) -> str:
    """`{{ seconds|duration }}`: `2 h 4 min`."""
    return NONE if seconds is None else spans.span(seconds)


@register.simple_tag
def between(start: datetime | None, end: datetime | None) -> str:
    """`{% between a b %}`: the span between two times."""
    return NONE if start is None or end is None else spans.span((end - start).total_seconds())


@register.filter("told")
def readers_words(stored: Any) -> str:
    """A stored sentence of a guard, a step or a rule in the reader's language."""
    return phrases.told(str(stored or ""))
