"""The real Slurm for the tests of other folders: import these fixtures by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.adapters.slurm import Connection
from tests.labs import slurm
from tests.labs.slurm import Slurm
from tests.patience import until


@pytest.fixture(scope="session")
def one_slurm() -> Iterator[Slurm]:
    with slurm.running(4) as found:
        yield found


@pytest.fixture
def real(one_slurm: Slurm) -> Iterator[Slurm]:
    """Given back empty and with every node in service."""
    yield one_slurm
    one_slurm.cancel()
    one_slurm.rest()
    for name in one_slurm.names:
        if any(word in one_slurm.state(name) for word in ("DRAIN", "DOWN")):
            one_slurm.scontrol("update", f"nodename={name}", "state=resume")
    try:
        until(one_slurm.in_service)
    except AssertionError as error:
        raise AssertionError(one_slurm.story()) from error


@pytest.fixture
def connection(real: Slurm) -> Connection:
    return Connection(real.url, "root", real.token)
