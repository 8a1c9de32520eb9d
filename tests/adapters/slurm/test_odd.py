"""What no slurmrestd should answer, and some release will: every place of both recorded shapes is bent in turn.

A reading that raised would leave the whole cluster unseen for the sake of one node or job.
"""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.slurm import jobs, nodes, reservations, seen, work
from fleet.adapters.slurm.roots import with_roots
from fleet.adapters.slurm.values import MOST_HOSTS, hosts
from fleet.gangs.roster import Roster
from fleet.inventory.facts import NODE_ALIASES, Reading, aliases_of, values_of
from fleet.ports.gangs import Reading as Told
from fleet.ports.shapes import MOST
from tests.adapters.kubernetes.schedulers.test_odd import ODD, bent, places, without
from tests.adapters.slurm.fake_rest import NEW, NEWEST, OLD, recorded
from tests.builders import T0

SHAPES = [(release, kind) for release in (OLD, NEW, NEWEST) for kind in ("jobs", "nodes", "partitions")]
SHAPES.append((NEWEST, "reservations"))
HOW = Reading("*", {"pool": "partition"}, {})


def told(kind: str, raw: dict[str, Any]) -> None:
    """All that is made of one node, job or partition, up to the columns and gangs that it becomes."""
    if kind == "jobs":
        found = with_roots([jobs.gang(raw)])
        members = jobs.members(raw)
        ranks = [*work.running(raw), *filter(None, [work.waiting(raw)])]
        assert len(members) <= MOST_HOSTS and all(0 <= rank.gpus <= MOST * 64 for rank in ranks)
        roster = Roster()
        roster.reading(Told(T0, objects=found, members=tuple(members)), "slurm")
        roster.gangs()
        nodes.planned(found)
        return
    if kind == "nodes":
        node = seen.node(raw, T0)
        values = values_of(node, None, HOW, T0)
        assert len(values["boot_id"]) <= 64 and {kind for kind, _ in aliases_of(node)} <= NODE_ALIASES
        nodes.offer(raw, {})
        return
    if kind == "reservations":
        reservations.read(raw).weak("gpu-01", "muster", T0)
        return
    nodes.partition(raw, [], [])


@pytest.mark.parametrize(("release", "kind"), SHAPES)
def test_no_place_may_break_a_reading(release: str, kind: str) -> None:
    for raw in recorded(release)[kind][:3]:
        for path in places(raw):
            for odd in ODD:
                told(kind, bent(raw, path, odd))
            told(kind, without(raw, path))


@pytest.mark.parametrize("name", ["gpu-[00000-99999999]", "a[1-3][1-3]", "[", "]", "a[b", "gpu-[1-]", "x,,y", "[1-2"])
def test_lists_of_hosts_end(name: str) -> None:
    raw = recorded(OLD)["jobs"][0] | {"nodes": name, "scheduled_nodes": name, "excluded_nodes": name}
    assert len(hosts(name)) <= MOST_HOSTS and len(jobs.gang(raw).planned_nodes) <= MOST_HOSTS
