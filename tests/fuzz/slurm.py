"""slurmrestd's answers in any version, host lists, tokens and the reasons of our holds.

Decides that whatever JSON comes is read, and that a mark of ours reads again as it was written. Refuses nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from fleet.adapters.slurm import jobs, marks, nodes, reservations, seen, submitting, tokens, values, work
from fleet.adapters.slurm.roots import with_roots
from fleet.ports.shapes import items, mapping
from tests.fuzz.texts import storable

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def slurm(data: bytes) -> None:
    said = data.decode("utf-8", "replace")
    assert len(values.hosts(said)) <= values.MOST_HOSTS and values.gpus(said) >= 0
    tokens.expired(said, 0.0), tokens.user_of(said)
    mark = marks.Mark("1/2", "muster-1", said[:200], said[200:300])
    again = marks.read(mark.text)
    assert again is not None and (again.value, again.by) == (mark.value, mark.by)
    if (there := marks.read(said)) is not None:
        assert marks.read(there.text) is not None
    try:
        answer = mapping(orjson.loads(data))
    except orjson.JSONDecodeError:
        return
    booked = reservations.those_beside_ours(items(answer.get("reservations")))
    for raw in items(answer.get("nodes")):
        node = seen.node(raw, NOW, booked)
        for text in (node.name, node.ready_reason, node.os_image, *node.annotations.values(), *node.labels):
            storable(text, len(data) + 200)
        nodes.offer(raw, {})
    found = with_roots(jobs.gang(raw) for raw in items(answer.get("jobs")))
    nodes.planned(found)
    for raw in items(answer.get("jobs")):
        assert len(jobs.members(raw)) >= len(work.running(raw)) and work.may_requeue(raw) in (True, False)
        work.waiting(raw), submitting.said(raw)
    for raw in items(answer.get("partitions")):
        nodes.partition(raw, found, ())
