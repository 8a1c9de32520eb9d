"""Writes of counted trouble with sources.

Decides that refused input is counted by source, reason and subject, in one statement however much there was. Refuses to
drop anything in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from fleet.telemetry.logrecords import plain

MAX_SUBJECTS = 500
"""Subjects kept apart in one call; whoever invents names by the thousand is counted together."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`source` is scrape or push; `subject` the target or the claimed name."""

    source: str
    reason: str
    subject: str = ""


def count_rejections(cluster_id: int, refused: Mapping[Refusal, tuple[int, str]], now: datetime) -> None:
    """Add to the counters; the value is (how many more, the sentence)."""
    merged: dict[tuple[str, str, str], tuple[int, str]] = {}
    for index, (what, (count, text)) in enumerate(refused.items()):
        subject = what.subject[:253] if index < MAX_SUBJECTS else OTHERS
        key = (what.source[:32], what.reason[:48], plain(subject))
        merged[key] = (merged.get(key, (0, ""))[0] + count, plain(text)[:500])
    if not merged:
        return
    keys = sorted(merged)  # one lock order for all writers
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO telemetry_rejection
                 (cluster_id, source, reason, subject, text, count, first_at, last_at)
               SELECT %s, v.source, v.reason, v.subject, v.text, v.count, %s, %s
               FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
                 AS v(source, reason, subject, text, count)
               ON CONFLICT (cluster_id, source, reason, subject) DO UPDATE
               SET count = telemetry_rejection.count + excluded.count, text = excluded.text,
                   last_at = excluded.last_at""",
            [
                cluster_id, now, now,
                [k[0] for k in keys], [k[1] for k in keys], [k[2] for k in keys],
                [merged[k][1] for k in keys], [merged[k][0] for k in keys],
            ],
        )  # fmt: skip
