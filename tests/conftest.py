"""What every test may ask for. The servers are started by `tests.settings`, before this file is read."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis


@pytest.fixture
def broker() -> Iterator[redis.Redis]:
    """The real Valkey, empty; each xdist worker has a database of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    client = redis.Redis.from_url(os.environ["REDIS_URL"], db=1 + int(worker) % 3)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def redis_url(broker: redis.Redis) -> str:
    """The address of that database."""
    number = broker.connection_pool.connection_kwargs["db"]
    return os.environ["REDIS_URL"].rpartition("/")[0] + f"/{number}"
