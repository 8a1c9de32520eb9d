"""Benchmarks, one module each, found by name.

A module has `run(nodes: int) -> dict[str, float]`, the metrics of its line in the contract, and may have `NODES`, the
size it runs at when none is given. Refuses to keep results: they are printed.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

DEFAULT_NODES = 10_000


class UnknownBench(LookupError):
    """No benchmark of that name; the text lists those that there are."""


def names() -> list[str]:
    """Every benchmark; modules with a leading underscore are their parts."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def run(name: str, nodes: int | None) -> dict[str, Any]:
    """One benchmark's result in the form that scripts read."""
    if name not in names():
        raise UnknownBench(f"no benchmark {name}; there are: {', '.join(names()) or 'none'}")
    module = importlib.import_module(f"{__name__}.{name}")
    size = nodes or getattr(module, "NODES", DEFAULT_NODES)
    return {"name": name, "nodes": size, "metrics": module.run(size)}
