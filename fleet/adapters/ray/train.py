"""Runs of Ray Train (v2), as the dashboard tells them.

Decides how many workers a run is started with: a number, or the range of an elastic one. Refuses runs of Train v1,
which tell none of it, and workers' own facts.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.ray.decode import count, name, quantity
from fleet.ports.ray import TrainRun
from fleet.ports.shapes import items, mapping

UNTRACKED = b"Train state data is not available"
"""What a dashboard answers (with a failure's status) while no run of Train v2 has been there."""


def runs(answer: Any) -> tuple[TrainRun, ...]:
    return tuple(found for raw in items(mapping(answer).get("train_runs")) if (found := run(raw)) is not None)


def run(raw: dict[str, Any]) -> TrainRun | None:
    id_ = name(raw.get("id"))
    settings = mapping(raw.get("run_settings"))
    scaling = mapping(settings.get("scaling_config"))
    workers = _workers(scaling.get("num_workers"))
    if not id_ or workers is None:
        return None
    failure = mapping(mapping(settings.get("run_config")).get("failure_config"))
    return TrainRun(
        id=id_,
        name=name(raw.get("name")),
        job=name(raw.get("job_id")),
        status=name(raw.get("status")),
        workers=workers,
        gpus_per_worker=_gpus(scaling),
        max_failures=_failures(failure.get("max_failures")),
        attempts=len(items(raw.get("attempts"))),
    )


def _workers(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list):
        told = [number for entry in value if (number := count(entry)) is not None]
        return (min(told), max(told)) if len(told) == 2 and len(value) == 2 else None
    number = count(value)
    return None if number is None else (number, number)


def _gpus(scaling: dict[str, Any]) -> float:
    """Per worker: as it asks, or one where it only says that it uses GPUs."""
    told = quantity(mapping(scaling.get("resources_per_worker")).get("GPU"))
    return told if told is not None else 1.0 if scaling.get("use_gpu") is True else 0.0


def _failures(value: Any) -> int | None:
    """-1 is "no bound"."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return max(-1, min(value, 10**9))
