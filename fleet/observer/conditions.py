"""The stated problems of a cluster's connection.

Decides which there are now, each with a code, a sentence and since when. Refuses to write an unchanged list: a sentence
whose numbers alone move is rewritten at most every half minute.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import datetime

from fleet.ports.cluster import WatchState

REWRITE_SECONDS = 30.0
_NUMBERS = re.compile(r"\d+")


class Conditions:
    """Any thread may state or mend; one thread asks for what changed."""

    def __init__(self, known: list[dict[str, str]] | None = None) -> None:
        self._lock = threading.Lock()
        self._since = {c["code"]: c["since"] for c in known or [] if "code" in c and "since" in c}
        self._now: dict[str, tuple[str, str]] = {}  # code -> (text, since)
        self._written: list[dict[str, str]] | None = known
        self._written_mono = float("-inf")

    def state(self, code: str, text: str, now: datetime) -> None:
        with self._lock:
            since = self._now[code][1] if code in self._now else self._since.pop(code, now.isoformat())
            self._now[code] = (text, since)

    def mend(self, code: str) -> None:
        with self._lock:
            self._now.pop(code, None)
            self._since.pop(code, None)

    def watch(self, state: WatchState, now: datetime) -> None:
        """A watch tells how it fares; the code carries the resource, so that two watches are two conditions."""
        code = f"watch_{state.resource}"
        if state.connected or state.code in ("listing", "resync"):  # a list under way is no problem
            self.mend(code)
        else:
            self.state(code, state.text or f"The watch of {state.resource} is not connected.", now)

    def changed(self, mono: float) -> list[dict[str, str]] | None:
        """The list to write, or None when what was written still holds. `wrote` confirms it."""
        with self._lock:
            listed = [{"code": c, "text": t, "since": s} for c, (t, s) in sorted(self._now.items())]
        if listed == self._written:
            return None
        only_numbers = self._written is not None and _shapes(listed) == _shapes(self._written)
        return None if only_numbers and mono - self._written_mono < REWRITE_SECONDS else listed

    def wrote(self, listed: list[dict[str, str]], mono: float) -> None:
        self._written, self._written_mono = listed, mono


def _shapes(listed: list[dict[str, str]]) -> list[Mapping[str, str]]:
    return [{**entry, "text": _NUMBERS.sub("#", entry["text"]), "since": ""} for entry in listed]
