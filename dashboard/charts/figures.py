"""Plotly figures as JSON, their text and their table.

Decides traces, the shared time axis and the words of the text alternative. A colour is the name of a token, resolved in
the browser. Refuses templates, legends and buttons: the page has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from dashboard import spans
from dashboard.charts.series import KINDS, Kind, Lines, Points, lines, spread
from fleet.readmodels.measures import Band
from fleet.readmodels.node_page import NodePage

TABLE_ROWS = 9
DAY = timedelta(hours=20)
SILENT = timedelta(seconds=15)  # more than one sample of ours is missing
OWN, FAULTY, PEERS = "var(--c-1)", "var(--c-2)", "var(--c-peer)"
__all__ = ["KINDS", "Card", "cards", "figure"]


@dataclass(frozen=True, slots=True)
class Card:
    """One chart of the page: `rows` are (time, faulty GPU, the others) for the table, newest first."""

    kind: str
    title: str
    unit: str
    text: str
    faulty: int | None
    rows: list[tuple[datetime, str, str]]
    empty: bool


def cards(page: NodePage) -> list[Card]:
    """One card per kind that this node can have."""
    found = []
    for name, kind in KINDS.items():
        drawn = lines(kind, page)
        if kind.of_ports and drawn.empty and not page.ports:
            continue
        found.append(
            Card(name, str(kind.title), kind.unit, said(kind, drawn), drawn.faulty, _table(drawn), drawn.empty)
        )
    return found


def said(kind: Kind, drawn: Lines) -> str:
    """The chart in one sentence."""
    title = str(kind.title)
    if drawn.empty:
        return _("%(title)s: no data in this range.") % {"title": title}
    parts = []
    if drawn.faulty is not None:
        name = _("GPU %(n)d") % {"n": drawn.faulty}
        parts.append(_end(name, kind.unit, drawn.own))
    others = _("the other GPUs") if drawn.faulty is not None else _("mean of the GPUs")
    parts.append(_end(_("all ports") if kind.of_ports else others, kind.unit, drawn.rest))
    return f"{title}: {'; '.join(parts)}."


def _end(name: str, unit: str, points: Points) -> str:
    known = [(at, value) for at, value in points if value is not None]
    if not known:
        return _("%(name)s: no data") % {"name": name}
    at, value = known[-1]
    words = _("%(name)s from %(first)s to %(last)s %(unit)s, between %(low)s and %(high)s") % {
        "name": name, "first": _number(known[0][1]), "last": _number(value), "unit": unit,
        "low": _number(min(v for _t, v in known)), "high": _number(max(v for _t, v in known)),
    }  # fmt: skip
    if points[-1][1] is None or at < points[-1][0]:
        words += ", " + _("no data since %(time)s") % {"time": _when(at, points[0][0])}
    return words


def _when(at: datetime, since: datetime) -> str:
    """With its day where the range has more than one."""
    return spans.absolute(at, "hms" if at - since < DAY else "full")


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"


def _table(drawn: Lines) -> list[tuple[datetime, str, str]]:
    own = dict(drawn.own)
    rows = [(at, _number(own.get(at)), _number(value)) for at, value in drawn.rest]
    step = max(1, len(rows) // TABLE_ROWS)
    return rows[::-1][::step][: TABLE_ROWS + 1]


def figure(name: str, page: NodePage, peers: Band, since: datetime, until: datetime) -> dict[str, Any]:
    """One figure: `data`, `layout` and `text`."""
    kind = KINDS[name]
    drawn = lines(kind, page)
    data = _spread(kind, spread(kind, page)) or _band(kind, peers)
    rest = _("other GPUs, mean") if drawn.faulty is not None else _("mean")
    data.append(_line(_("received") if kind.of_ports else rest, drawn.rest, OWN, kind.unit))
    if kind.of_ports:
        sent = lines(replace(kind, key="ib_tx"), page)
        line = _line(_("sent"), sent.rest, "var(--text-3)", kind.unit)
        data.append({**line, "line": {**line["line"], "dash": "dot"}})
    if drawn.faulty is not None:
        title = _("GPU %(n)d") % {"n": drawn.faulty}
        data.append(_line(title, drawn.own, FAULTY, kind.unit))
        data += _ends(title, drawn.own, FAULTY, since, until)
    else:
        data += _ends(rest, drawn.rest, OWN, since, until)
    layout: dict[str, Any] = {
        "xaxis": {"type": "date", "range": [_iso(since), _iso(until)], "tickformat": _ticks(until - since)},
        "yaxis": {"nticks": 4, "fixedrange": True},
        "shapes": _marks(page, since),
    }
    if drawn.empty:
        note = {"text": _("no data in this range"), "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
        layout["annotations"] = [{**note, "showarrow": False}]
        layout["yaxis"]["range"] = [0, 1]
        layout["yaxis"]["showticklabels"] = False
    return {"data": data, "layout": layout, "text": said(kind, drawn)}


def _line(name: str, points: Points, colour: str, unit: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "connectgaps": False,
        "x": [_iso(at) for at, _value in points],
        "y": [None if value is None else round(value, 2) for _at, value in points],
        "line": {"color": colour, "width": 1.75},
        "hovertemplate": "%{y:.4~g} " + unit,
    }  # fmt: skip


def _ends(name: str, points: Points, colour: str, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """A dot where a line ended before the range did, and since when; the words lie where the plot has room for them."""
    known = [(at, value) for at, value in points if value is not None]
    if not known or points[-1][0] - known[-1][0] < SILENT:
        return []
    at, value = known[-1]
    top = max(value for _at, value in known)
    side = "left" if at - since > (until - since) / 2 else "right"
    base = {"type": "scatter", "name": name, "x": [_iso(at)], "cliponaxis": False, "hoverinfo": "skip"}
    dot = {"color": colour, "size": 9, "line": {"color": "var(--surface)", "width": 2}}
    text = _("no data since %(time)s") % {"time": _when(at, since)}
    low = value < top / 2
    return [
        {**base, "mode": "markers", "y": [round(value, 2)], "marker": dot},
        {**base, "mode": "text", "y": [round(top, 2) if low else 0], "text": [text],
         "textposition": f"{'bottom' if low else 'top'} {side}"},
    ]  # fmt: skip


def _ticks(span: timedelta) -> str:
    return "%H:%M" if span <= timedelta(hours=24) else "%d %b"


def _spread(kind: Kind, found: Band) -> list[dict[str, Any]]:
    """This node's own lowest and highest, where a point stands for minutes or hours."""
    band = _band(kind, found)
    for trace in band:
        trace["name"] = _("lowest to highest")
    return band


def _band(kind: Kind, found: Band) -> list[dict[str, Any]]:
    if not found:
        return []
    times = [_iso(at) for at, _low, _high in found]
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "x": times, "hoverinfo": "skip"}
    low = {**edge, "name": _("peers"), "y": [round(low * kind.scale, 2) for _at, low, _high in found]}
    high = {**edge, "name": _("peers"), "y": [round(high * kind.scale, 2) for _at, _low, high in found]}
    return [low, {**high, "fill": "tonexty", "fillcolor": PEERS}]


def _marks(page: NodePage, since: datetime) -> list[dict[str, Any]]:
    """Dashed where the incident began, so that all charts of the page share the mark."""
    incident = page.incident
    if incident is None or incident.first_bad_at < since:
        return []
    at = _iso(incident.first_bad_at)
    line = {"color": FAULTY, "width": 1, "dash": "dot"}
    return [{"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}]


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
