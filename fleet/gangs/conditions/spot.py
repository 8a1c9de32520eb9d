"""Elastic work on capacity that is taken back, and whether its smallest size can go on at all.

Decides by two sums. What the smallest size has against what the model needs, where somebody told that; and what firm
groups (not spot) can give against the smallest size, for the rest can be taken back at any time. Refuses to guess a
model's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.failures import live
from fleet.gangs.conditions.rayfacts import gpus_of, most_gpus, workers
from fleet.ports.ray import RayFacts, TrainRun


def spot(
    key: str, facts: RayFacts, runs: Sequence[TrainRun] = (), model_gpus: float | None = None
) -> Iterator[Condition]:
    """`model_gpus`: the fewest GPUs that hold the model, where another object of the gang tells it."""
    groups = workers(facts)
    if not any(group.spot and gpus_of(group) for group in groups):
        return
    elastic = [run for run in live(runs) if run.workers[0] < run.workers[1]]
    least = [(run.name, run.workers[0] * run.gpus_per_worker) for run in elastic]
    if not runs and facts.autoscaling:
        smallest = sum(gpus_of(group) * group.minimum * group.hosts for group in groups)
        wanted = sum(gpus_of(group) * group.replicas * group.hosts for group in groups)
        least = [("", smallest)] if smallest < wanted else []
    firm = most_gpus(group for group in groups if not group.spot)
    model_gpus = model_gpus if facts.model_gpus is None else facts.model_gpus
    for name, gpus in least:
        if model_gpus is not None and gpus < model_gpus:
            yield found("spot_too_small", key, "critical", name, least=gpus, model=model_gpus)
        elif firm is not None and firm < gpus:
            yield found("spot_minimum", key, "warning", name, least=gpus, firm=firm)
