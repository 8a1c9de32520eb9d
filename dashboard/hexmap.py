"""Draws the fleet as hexes: one link per node, or zoomed out one link per rack.

Decides geometry, marks and accessible names; strings are joined here because a template loop over 10,000 nodes costs
seven times as much. Refuses to choose which nodes are shown. Every word that came from outside is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import NamedTuple

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.words import STATE_WORD, VERDICT_CLASS, VERDICT_LETTER, VERDICT_ORDER, VERDICT_WORD
from fleet.readmodels import phrases
from fleet.readmodels.fleet_map import NodeRow

STATE_LETTERS = {
    "suspect": "S?",
    "held": "He",
    "draining": "Dg",
    "drained": "Dd",
    "remediating": "Re",
    "validating": "Va",
    "soaking": "So",
    "awaiting_repair": "Aw",
    "released": "Rl",
    "unmanaged": "Um",
    "retired": "Rt",
}
LETTERS = ("D", "U", "?", "L", *STATE_LETTERS.values())
DEFS = (
    '<svg class="vh" aria-hidden="true" focusable="false"><defs>'
    '<path id="hx" d="M0-15.2 13.2-7.6V7.6L0 15.2-13.2 7.6V-7.6z"/>'
    '<path id="hr" d="M0-18.5 16-9.25V9.25L0 18.5-16 9.25V-9.25z"/>'
    + "".join(f'<text id="l-{index}" class="lt">{letter}</text>' for index, letter in enumerate(LETTERS))
    + "</defs></svg>"
)
LETTER_ID = {letter: f"l-{index}" for index, letter in enumerate(LETTERS)}
Link = Callable[[NodeRow], str]


@dataclass(frozen=True, slots=True)
class Group:
    """One rack, leaf or pool with its nodes. `note` is its cap in words, shown only when something is out."""

    title: str
    label: str
    href: str
    nodes: Sequence[NodeRow]
    note: str = ""
    full: bool = False


def _words() -> tuple[dict[str, str], dict[str, str]]:
    """The translated words, once per map instead of once per node."""
    return {k: str(v) for k, v in VERDICT_WORD.items()}, {k: str(v) for k, v in STATE_WORD.items()}


def hexes(groups: Sequence[Group], fill: str, link: Link, label: str) -> SafeString:
    """The map with a hex per node: four columns to a rack, more to larger groups."""
    largest = max((len(group.nodes) for group in groups), default=0)
    columns, wide = (4, "") if largest <= 16 else (8, " m4") if largest <= 72 else (32, " m1")
    rows = max(1, -(-min(largest, 16) // 4)) if columns == 4 else 0
    draw = _Hexes(fill, link)
    out = [DEFS, f'<ol class="map{wide}" aria-label="{escape(label)}" data-map>']
    for group in groups:
        weight = ' class="full"' if group.full else ""
        note = f"<span{weight}>{escape(group.note)}</span>" if group.note else ""
        out.append(f'<li class="rack"><h3><a href="{escape(group.href)}">{escape(group.title)}</a>{note}</h3>')
        height = (rows or -(-len(group.nodes) // columns)) * 24.25 + 11
        out.append(
            f'<svg viewBox="0 0 {columns * 28 + 16} {height:g}" role="group" aria-label="{escape(group.label)}">'
        )
        out.extend(map(draw, group.nodes, _spots(len(group.nodes), columns)))
        out.append("</svg></li>")
    out.append("</ol>")
    return SafeString("".join(out).replace('tabindex="-1"', 'tabindex="0"', 1))


class Spot(NamedTuple):
    """Attributes of a hex, of its letter and of its pip."""

    hex: str
    letter: str
    pip: str


@lru_cache(maxsize=64)
def _spots(size: int, columns: int) -> tuple[Spot, ...]:
    """Where the hexes of a group lie."""
    found = []
    for position in range(size):
        line, column = divmod(position, columns)
        x, y = 15 + column * 28 + (14 if line % 2 else 0), 17 + line * 24.25
        found.append(Spot(f'x="{x}" y="{y:g}"', f'x="{x}" y="{y + 4:g}"', f'cx="{x + 9}" cy="{y - 9:g}"'))
    return tuple(found)


class _Hexes:
    """Draws nodes; the words are translated once per map instead of once per node."""

    def __init__(self, fill: str, link: Link) -> None:
        self._by_state, self._link = fill == "state", link
        self._verdicts, self._states = _words()

    def __call__(self, row: NodeRow, spot: Spot) -> str:
        kind = VERDICT_CLASS.get(row.verdict, "unk")
        letter = "" if kind == "ok" else VERDICT_LETTER.get(row.verdict, "?")
        if self._by_state and kind != "unk":
            kind = "idle" if row.state in ("in_service", "unmanaged", "retired") else "go"
            letter = STATE_LETTERS.get(row.state, "")
        told = f"{row.name}, {self._verdicts.get(row.verdict, row.verdict)}, {self._states.get(row.state, row.state)}"
        if why := row.blocked_text or ("" if row.plain else row.why):
            told += f": {phrases.told(why)}"
        mark = f'<use href="#{LETTER_ID[letter]}" {spot.letter}/>' if letter else ""
        pip = f'<circle class="pip" {spot.pip} r="3.2"/>' if row.held else ""
        return (
            f'<a class="n {kind}" href="{self._link(row)}" aria-label="{escape(told)}" tabindex="-1">'
            f'<use class="h" href="#hx" {spot.hex}/>{mark}{pip}<use class="sel" href="#hr" {spot.hex}/></a>'
        )


@dataclass(frozen=True, slots=True)
class Zone:
    """A cluster (or a pool of one) of the zoomed-out map."""

    title: str
    href: str
    mode: str
    racks: Sequence[Group]


GLYPH = {"unhealthy": "zb", "degraded": "zw", "unknown": "zu", "lost": "zl"}
PER_ROW = 12


def _cell(position: int, columns: int) -> tuple[float, float]:
    line, column = divmod(position, columns)
    return 4.4 + column * 6 + (3 if line % 2 else 0), 4.6 + line * 5.3


def _dots(positions: Sequence[int], columns: int) -> str:
    return "".join(
        f"M{x:g} {y - 3:g}l2.6 1.5v3l-2.6 1.5-2.6-1.5v-3z"
        for x, y in (_cell(position, columns) for position in positions)
    )


def racks(zones: Sequence[Zone]) -> SafeString:
    """The zoomed-out map: one link per rack, its nodes as dots; trouble is larger and has a shape."""
    largest = max((len(rack.nodes) for zone in zones for rack in zone.racks), default=16)
    columns = 4 if largest <= 16 else 8
    lines = -(-largest // columns)
    width, height = columns * 6 + 4.4, lines * 5.3 + 4
    full = range(largest)
    out = [
        '<svg class="vh" aria-hidden="true" focusable="false"><defs>'
        f'<path id="zr" class="z-ok" d="{_dots(full, columns)}"/><path id="zx" d="M-.4-.4h{width:g}v{height:g}H-.4z"/>'
        '<path id="zo" class="z-ok" d="M0-3l2.6 1.5v3L0 3l-2.6-1.5v-3z"/>'
        '<path id="zb" class="z-bad" d="M-1.6-3.8h3.2L3.8-1.6v3.2L1.6 3.8h-3.2L-3.8 1.6v-3.2z"/>'
        '<path id="zw" class="z-warn" d="M0-3.2 3.2 2.7h-6.4z"/>'
        '<path id="zu" class="z-unk" d="M-2.2-2.2h4.4v4.4h-4.4zM-2.2 2.2l4.4-4.4M-2.2 0l2.2-2.2M0 2.2l2.2-2.2"/>'
        '<path id="zl" class="z-lost" d="M-2.6-2.6l5.2 5.2M2.6-2.6l-5.2 5.2"/></defs></svg><div data-map>'
    ]
    words = _words()[0]
    first = True
    for zone in zones:
        out.append(_zone_header(zone, words))
        for start in range(0, len(zone.racks), PER_ROW):
            part = zone.racks[start : start + PER_ROW]
            label = f"{zone.title}: {part[0].title} – {part[-1].title}"
            box = f"0 0 {PER_ROW * (width + 1.6):g} {height + 1:g}"
            out.append(f'<svg viewBox="{box}" role="group" aria-label="{escape(label)}">')
            for index, rack in enumerate(part):
                out.append(_rack(rack, index * (width + 1.6) + 1, columns, largest, first, words))
                first = False
            out.append("</svg>")
        out.append("</div></section>")
    out.append("</div>")
    return SafeString("".join(out))


def _zone_header(zone: Zone, words: dict[str, str]) -> str:
    tally = Counter(row.verdict for rack in zone.racks for row in rack.nodes)
    nodes = sum(tally.values())
    size = ngettext("%(nodes)s nodes in %(racks)s rack", "%(nodes)s nodes in %(racks)s racks", len(zone.racks)) % {
        "nodes": f"{nodes:,}",
        "racks": len(zone.racks),
    }
    marks = "".join(
        f'<span class="badge b-{(kind := VERDICT_CLASS[verdict])}"><svg class="mk {kind}" aria-hidden="true">'
        f'<use href="#m-{kind}"/></svg>{tally[verdict]:,} {words[verdict]}</span>'
        for verdict in VERDICT_ORDER
        if tally[verdict] and verdict != "healthy"
    )
    mode = _("mode: %(mode)s") % {"mode": zone.mode} if zone.mode else ""
    return (
        f'<section class="zone" aria-label="{escape(zone.title)}"><header>'
        f'<h2><a class="name" href="{escape(zone.href)}">{escape(zone.title)}</a></h2>'
        f'<span class="dim">{size}</span>{marks}<span class="end">{escape(mode)}</span></header><div class="rows">'
    )


def _rack(rack: Group, shift: float, columns: int, full: int, first: bool, words: dict[str, str]) -> str:
    tally = Counter(row.verdict for row in rack.nodes)
    trouble = [f"{tally[v]} {words[v]}" for v in VERDICT_ORDER if tally[v] and v != "healthy"]
    told = f"{rack.label}: {', '.join(trouble) or _('all healthy')}"
    if not trouble and len(rack.nodes) == full:
        cells = '<use href="#zr"/>'
    else:
        well = [position for position, row in enumerate(rack.nodes) if row.verdict == "healthy"]
        cells = f'<path class="z-ok" d="{_dots(well, columns)}"/>' if well else ""
        for position, row in enumerate(rack.nodes):
            if row.verdict != "healthy":
                x, y = _cell(position, columns)
                cells += f'<use href="#{GLYPH.get(row.verdict, "zu")}" x="{x:g}" y="{y:g}"/>'
    return (
        f'<a class="r" href="{escape(rack.href)}" tabindex="{0 if first else -1}" aria-label="{escape(told)}" '
        f'transform="translate({shift:g} 1)"><use class="bx" href="#zx"/>{cells}</a>'
    )
