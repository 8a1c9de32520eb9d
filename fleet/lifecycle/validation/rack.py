"""The suites in force: the site's own file, and ours behind them.

Decides by the file's time and size whether to read it again, at most once a second. Refuses to test by a broken file:
what was read last stays, and `problem` says what is wrong; until a site's file was read once there is no suite, and a
node without a suite does not return.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

import yaml
from django.conf import settings

from fleet.inventory.models import Node
from fleet.lifecycle.validation.reading import NCCL, STORAGE
from fleet.lifecycle.validation.suite import Suite, Suites
from fleet.lifecycle.validation.suite_file import BadSuites, parse
from fleet.ports import plainyaml

log = logging.getLogger(__name__)
BUILT_IN = Path(__file__).with_name("suites.yaml")
LOOK_EVERY = 1.0
_known: dict[str, tuple[float, tuple[int, int], Suites]] = {}


def suites() -> Suites:
    """The suites of this installation (setting SUITES_FILE)."""
    path = str(settings.SUITES_FILE)
    looked, stamp, before = _known.get(path, (float("-inf"), (0, 0), Suites()))
    if time.monotonic() - looked < LOOK_EVERY:
        return before
    fresh_stamp, found = _read(path, stamp, before)
    _known[path] = (time.monotonic(), fresh_stamp, found)
    return found


def _read(path: str, stamp: tuple[int, int], before: Suites) -> tuple[tuple[int, int], Suites]:
    file = Path(path) if path else BUILT_IN
    try:
        seen = file.stat()
        fresh = (seen.st_mtime_ns, seen.st_size)
        if fresh == stamp:
            return stamp, before
        found = parse(file.read_text(encoding="utf-8"), str(file), "") if path else built_in()
        if path:
            ours = built_in().suites
            own = {suite.name for suite in found.suites}
            found = replace(found, suites=(*found.suites, *(suite for suite in ours if suite.name not in own)))
            log.info("suites of tests read from %s", file)
        return fresh, found
    except (OSError, UnicodeDecodeError, BadSuites) as error:
        problem = f"The suites file {file} cannot be used; what was read before stays. {error}"[:600]
        if problem != before.problem:
            log.warning("%s", problem)
        return stamp, replace(before, problem=problem)


def built_in() -> Suites:
    """Muster's own suite: DCGM, and what the installation gave an image or mounts for. Raises BadSuites."""
    told = plainyaml.load(BUILT_IN.read_text(encoding="utf-8"))
    tests = told["suites"][0]["tests"]
    if settings.NCCL_IMAGE:
        least = {"at_least": settings.NCCL_AT_LEAST} if settings.NCCL_AT_LEAST else {}
        tests.append({NCCL: {"image": settings.NCCL_IMAGE, **least}})
    if settings.STORAGE_MOUNTS:
        tests.append({STORAGE: {"image": settings.STORAGE_IMAGE, "mounts": list(settings.STORAGE_MOUNTS)}})
    return parse(yaml.safe_dump(told), BUILT_IN.name, "built in")


def suite_of(node: Node) -> Suite | None:
    """The suite of one node. A node without a pool counts as bare metal, as everywhere."""
    pool = node.pool
    return suites().answer(pool.name if pool else "", pool.kind if pool else "bare_metal", node.gpu_model)
