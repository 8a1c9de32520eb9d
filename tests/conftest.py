"""What every test may ask for. The servers are started by `tests.settings`, before this file is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

BROWSER = Path(__file__).resolve().parent / "browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright leaves an event loop running in its process, in which `asyncio.run` then fails."""
    items.sort(key=lambda item: item.path.is_relative_to(BROWSER))


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
