"""One demo for the tests of a file; they take nodes of their own from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.labs.browser import Browser
from tests.labs.live import Live

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is a lab test."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.labs)


@dataclass(slots=True)
class Fleet:
    """A demo, a person logged in, and nodes that no test has touched."""

    live: Live
    web: Browser
    spare: list[str] = field(default_factory=list)

    def fresh(self, pool: str = "h100-train") -> str:
        """A node that is busy, so that its drain has something to do, and that nobody has used yet."""
        label = "topology.muster.dev/pool"
        pools = {node["metadata"]["name"]: node["metadata"]["labels"][label] for node in self.live.nodes()}
        for name in list(self.spare):
            if pools[name] == pool:
                self.spare.remove(name)
                return name
        raise LookupError(f"no node of {pool} is left")


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    """What a file's demo is started with; files override it."""
    return {}


@pytest.fixture(scope="module")
def fleet(settings_of_the_demo: dict[str, str | int | float]) -> Iterator[Fleet]:
    with Live(**settings_of_the_demo) as live:  # type: ignore[arg-type]
        racks = list(live.racks().values())
        spread = [rack[slot] for slot in range(max(map(len, racks))) for rack in racks if slot < len(rack)]
        yield Fleet(live, live.web(), spread)
