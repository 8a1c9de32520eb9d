"""Benchmark `queues`: what the pages and the API of gangs and queues cost the server.

Decides nothing about the load (see `_queuepages`): it gives it a database and a cache of its own and a process of its
own, so that nothing else is in that interpreter. Refuses the caller's database.
"""

from __future__ import annotations

from fleet.ops.bench._site import own_process, servers

NODES = 10_000


def run(nodes: int) -> dict[str, float]:
    with servers(nodes) as here:
        here.manage("prepare")
        found: dict[str, float] = own_process("_queuepages", here.env, str(nodes))
        return found
