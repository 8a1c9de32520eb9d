"""One quick fleet per test: small, a hundred times faster than the demo, in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.unit.simulator.client import Client


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(nodes=48, var=tmp_path, speed=50, history=200, bookmark_seconds=0.2, bmc_latency=0.2)


@pytest.fixture
def fleet(options: Options) -> Iterator[Client]:
    with running(options) as simulator:
        yield Client(simulator)
