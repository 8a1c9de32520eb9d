"""Benchmarks, one module each, found by name.

A module has `run(nodes: int) -> dict[str, Any]`, the metrics of its line in the contract, and may have `NODES`, the
size it runs at when none is given, and `quick(nodes)`, the part of it that is enough among all others. One that is
`PATIENT` waits more than it works, or counts in virtual time: what runs beside it does not change its result. Refuses
to keep results: they are printed.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEFAULT_NODES = 10_000
ROOT = Path(__file__).resolve().parents[3]


class UnknownBench(LookupError):
    """No benchmark of that name; the text lists those that there are."""


def names() -> list[str]:
    """Every benchmark; modules with a leading underscore are their parts."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def run(name: str, nodes: int | None, quick: bool = False) -> dict[str, Any]:
    """One benchmark's result in the form that scripts read."""
    if name not in names():
        raise UnknownBench(f"no benchmark {name}; there are: {', '.join(names()) or 'none'}")
    module = importlib.import_module(f"{__name__}.{name}")
    size = nodes or getattr(module, "NODES", DEFAULT_NODES)
    work = getattr(module, "quick", module.run) if quick else module.run
    return {"name": name, "nodes": size, "metrics": work(size)}


def run_all(nodes: int | None) -> Iterator[dict[str, Any]]:
    """Every one, in its quick form: those that measure speed one after another, then the patient ones side by side."""
    patient = [name for name in names() if getattr(importlib.import_module(f"{__name__}.{name}"), "PATIENT", False)]
    for name in names():
        if name not in patient:
            yield run(name, nodes, quick=True)
    beside = [subprocess.Popen(argv_of(name, nodes), cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in patient]
    try:
        for name, process in zip(patient, beside, strict=True):
            told, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"benchmark {name} failed")
            yield json.loads(told)
    finally:
        for process in beside:
            process.terminate()


def argv_of(name: str, nodes: int | None) -> list[str]:
    """How one of them is run by itself."""
    argv = [sys.executable, "manage.py", "bench", name, "--quick", "--json", "-"]
    return [*argv, "--nodes", str(nodes)] if nodes else argv
