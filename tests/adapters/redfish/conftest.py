"""A fake BMC, and targets that point at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet.adapters import redfish
from fleet.ports.power import BmcTarget, PowerPort
from tests.adapters.redfish.fake_bmc import PASSWORD, USER, UUID, FakeBmc, running

Target = Callable[..., BmcTarget]


@pytest.fixture
def power() -> PowerPort:
    return redfish.power()


@pytest.fixture
def bmc() -> Iterator[FakeBmc]:
    with running(FakeBmc()) as fake:
        yield fake


@pytest.fixture
def target(bmc: FakeBmc) -> Target:
    def build(**changes: Any) -> BmcTarget:
        values = {
            "bmc_id": 1,
            "node": "gpu-1",
            "address": bmc.address,
            "username": USER,
            "password": PASSWORD,
            "verify": True,
            "pinned_uuid": UUID,
            "pinned_serial": "",
        }
        return BmcTarget(**{**values, **changes})

    return build
