"""Benchmark `overview`: what the fleet page costs the server.

Decides nothing about the load (see `_fleetpage`): it gives it a database and a cache of its own and a process of its
own, so that nothing else is in that interpreter. Refuses the caller's database.
"""

from __future__ import annotations

from fleet.ops.bench._site import own_process, servers

NODES = 10_000


def run(nodes: int) -> dict[str, float]:
    with servers(nodes) as here:
        here.manage("prepare")
        found: dict[str, float] = own_process("_fleetpage", here.env, str(nodes))
        return found
