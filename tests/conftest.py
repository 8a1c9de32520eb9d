"""What every test may ask for. The servers are started by `tests.settings`, before this file is read."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.utils import translation
from hypothesis import HealthCheck, settings

BROWSER = Path(__file__).resolve().parent / "browser"
LONGEST = ("test_story.py", "test_pages.py", "test_acts.py", "test_policy.py")

# How fast this machine is while others use it is no property of the code.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright leaves an event loop running in its process, in which `asyncio.run` then fails.

    The longest of them first, so that the other workers do not wait for it at the end. pyproject.toml hands tests out
    a few at a time for the same reason.
    """
    items.sort(key=lambda item: (item.path.is_relative_to(BROWSER), _turn(item.path.name)))


def pytest_collection_finish() -> None:
    """What was imported and collected lasts as long as the process; no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _turn(name: str) -> int:
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """What a test asked for in Korean, the next one does not."""
    yield
    translation.deactivate()


@pytest.fixture
def broker() -> Iterator[redis.Redis]:
    """The real Valkey of this worker, empty."""
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture
def redis_url(broker: redis.Redis) -> str:
    """The address of that Valkey."""
    return os.environ["REDIS_URL"]
