"""One exporter of one node: what is remembered of its scrapes besides values.

Decides what can be said of an exporter that fails: since when, how often, in which words, and what of its text was
rejected and why. Refuses to retry or to judge freshness.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fleet.telemetry.seriescache import SeriesCache

MAX_CLAIMS = 64  # host names of one exporter; more is somebody inventing them
_NO_CODE = 1  # what no name is ever judged as


@dataclass(slots=True)
class Target:
    """Mutable, owned by the writing thread. Times that rules need lie in the frame's arrays under `index`."""

    index: int
    node: str
    job: str
    since_mono: float = 0.0
    cache: SeriesCache = field(default_factory=SeriesCache)
    claims: dict[str, int] = field(default_factory=dict)  # other host names it spoke for -> 0, or why not
    rows: int = 0
    pod: str = ""  # that it runs in: a host of that name is the exporter's own, and no claim
    scaled: bool = False  # it told a metric in another unit than ours
    failures: int = 0  # in a row
    last_error: str = ""
    last_reject: str = ""
    last_samples: int = 0
    last_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)

    def claim(self, said: str, code: int) -> None:
        """Remember how a host name was first judged; of too many none, so that every change of names counts."""
        if said in self.claims or len(self.claims) < MAX_CLAIMS:
            self.claims.setdefault(said, code)  # what is cached since may stand on the first verdict
        else:
            self.claims[""] = _NO_CODE

    def runs_in(self, pod: str) -> None:
        """What was judged while it ran in another is judged anew."""
        if pod != self.pod:
            self.pod = pod
            self.claims.clear()
            self.cache.clear()

    def failed(self, sentence: str) -> None:
        self.failures += 1
        self.last_error = sentence
        self.counts["failed_scrapes"] += 1
