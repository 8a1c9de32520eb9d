"""The rows of the fleet's table as one piece of HTML.

Decides the cells of a node; strings are joined here because a template loop over a hundred rows costs ten times as
much. Refuses to choose or to order nodes. Every word that came from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dashboard import spans
from dashboard.nodelist import actor, next_act
from dashboard.words import STATE_WORD, VERDICT_CLASS, VERDICT_WORD
from fleet.readmodels import phrases
from fleet.readmodels.fleet_map import NodeRow

Link = Callable[[NodeRow], str]


def body(rows: Sequence[NodeRow], link: Link, workflow: Callable[[int], str], many: bool, now: datetime) -> SafeString:
    """One `<tr>` for each of `rows`; with the column of clusters where there are `many`."""
    labels = {key: escape(word) for key, word in _labels().items()}
    verdicts = {key: escape(str(word)) for key, word in VERDICT_WORD.items()}
    states = {key: escape(str(word)) for key, word in STATE_WORD.items()}
    held = f", {escape(_('held'))}"
    out = []
    for row in rows:
        kind = VERDICT_CLASS.get(row.verdict, "unk")
        cluster = f'<td data-l="{labels["cluster"]}" class="nb">{escape(row.cluster)}</td>' if many else ""
        state = states.get(row.state) or escape(row.state)
        also = held if row.held and row.state == "in_service" else ""
        why = "" if row.plain else f"<b>{escape(phrases.told(row.why))}</b>"
        coming = escape(next_act(row))
        if address := workflow(row.workflow) if row.workflow else "":
            coming = f'<a href="{escape(address)}">{coming}</a>'
        out.append(
            f'<tr data-key="{escape(row.cluster)}/{escape(row.name)}">'
            f'<td data-l="{labels["node"]}" class="nb"><a class="name mono" href="{escape(link(row))}">'
            f"{escape(row.name)}</a></td>{cluster}"
            f'<td data-l="{labels["verdict"]}"><span class="v"><svg class="mk {kind}" aria-hidden="true">'
            f'<use href="#m-{kind}"/></svg>{verdicts.get(row.verdict) or escape(row.verdict)}</span></td>'
            f'<td data-l="{labels["state"]}" class="nb tell">{state}{also}</td>'
            f'<td data-l="{labels["why"]}" class="why">{why}</td>'
            f'<td data-l="{labels["since"]}" class="nb tell">{_since(row.since, now)}</td>'
            f'<td data-l="{labels["use"]}" class="sp" data-spark></td>'
            f'<td data-l="{labels["by"]}" class="nb tell">{escape(actor(row))}</td>'
            f'<td data-l="{labels["next"]}" class="why">{coming}</td></tr>\n'
        )
    return SafeString("".join(out))


def _labels() -> dict[str, str]:
    """What a cell is called where there is no room for a head."""
    return {
        "node": _("Node"),
        "cluster": _("Cluster"),
        "verdict": _("Verdict"),
        "state": _("State"),
        "why": _("Why"),
        "since": _("Since"),
        "use": _("GPU use, 2 h"),
        "by": _("By"),
        "next": _("Next"),
    }


def _since(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "–"
    absolute = spans.absolute(at)
    return (
        f'<time class="dotted" datetime="{spans.iso(at)}" title="{absolute} UTC" data-age>'
        f"{escape(spans.age(at, now))}</time>"
    )
