"""Rounds of questions: when they are asked, what is said when the API is away, and what reaches the frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
import pytest

from fleet.inventory.models import MetricsSource
from fleet.observer.conditions import Conditions
from fleet.observer.push import Refusals
from fleet.observer.querying import Querier, rule_reads
from fleet.observer.session import Session
from fleet.ports.errors import PortError, TemporaryError
from fleet.ports.metrics import Curves, Vector
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.services import Refusal
from tests.builders import TestClock

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


class Store:
    """Shows one GPU of one node, sampled a second ago."""

    def __init__(self, clock: TestClock) -> None:
        self.clock = clock
        self.failure: PortError | None = None
        self.partial = False
        self.host = NODE

    def instant(self, expression: str, at: datetime | None = None) -> Vector:
        now = self.clock.now().timestamp()
        labels = {"Hostname": self.host, "UUID": "GPU-1", "gpu": "0"}
        value = now - 1 if "timestamp(" in expression else 61.0
        shown = names.GPU_TEMP in expression
        values = np.array([value] if shown else [])
        return Vector([labels] if shown else [], values, np.full(len(values), now), ("a store is away",), self.partial)

    def instants(self, expressions: Sequence[str]) -> list[Vector]:
        if self.failure:
            raise self.failure
        return [self.instant(expression) for expression in expressions]

    def over(self, expression: str, since: datetime, until: datetime, step: float) -> Curves:
        raise NotImplementedError

    def overs(self, expressions: Sequence[str], since: datetime, until: datetime, step: float) -> list[Curves]:
        raise NotImplementedError


@pytest.fixture
def store(clock: TestClock) -> Store:
    return Store(clock)


@pytest.fixture
def querier(session: Session, store: Store) -> Querier:
    session.cluster.prometheus_url = "http://prometheus"
    resolve: Callable[[str], str | None] = {NODE: NODE}.get
    gleaner = Gleaner(Frame(), resolve, session.interval)
    return Querier(session, gleaner, Conditions([]), Refusals(), lambda: store, lambda: False, rule_reads())


def said(querier: Querier) -> list[str]:
    return [told["text"] for told in querier.conditions.changed(1e9) or []]


def test_samples_enter_the_frame_and_every_rule_is_asked_for(querier: Querier) -> None:
    assert asyncio.run(querier.once()) == 0
    assert querier.gleaner.frame.value(names.GPU_TEMP, NODE, "GPU-1") == 61.0
    assert {names.XID, names.IB_STATE, names.MOUNT_ERROR, names.NODE_TIME} <= set(rule_reads())
    assert said(querier) == []


def test_an_api_that_is_away_is_a_stated_problem_until_it_is_back(querier: Querier, store: Store) -> None:
    store.failure = TemporaryError("The metrics API cannot be reached.", retry_after=40)
    assert asyncio.run(querier.once()) == 40
    listed = querier.conditions.changed(1e9) or []
    assert [told["text"] for told in listed] == ["The metrics API cannot be reached."]
    querier.conditions.wrote(listed, 1e9)
    store.failure = None
    asyncio.run(querier.once())
    assert querier.conditions.changed(2e9) == []


def test_a_partial_answer_is_said(querier: Querier, store: Store) -> None:
    store.partial = True
    asyncio.run(querier.once())
    assert said(querier) == ["The metrics API answers in part only: a store is away"]


def test_series_of_no_node_are_counted(querier: Querier, store: Store) -> None:
    store.host = "stranger"
    asyncio.run(querier.once())
    assert Refusal("query", "unknown_node", "stranger") in querier.refusals.take()


@pytest.mark.parametrize(
    ("source", "scraped", "asks"),
    [
        (MetricsSource.AUTO, False, True),
        (MetricsSource.AUTO, True, False),
        (MetricsSource.AUTO, None, False),
        (MetricsSource.QUERY, True, True),
        (MetricsSource.SCRAPE, False, False),
    ],
)
def test_it_is_asked_by_setting_or_where_nothing_is_scraped(
    querier: Querier, source: str, scraped: bool | None, asks: bool
) -> None:
    querier.session.cluster.metrics_source = source
    querier.scraped = lambda: scraped
    assert querier.wanted() is asks
    querier.session.cluster.prometheus_url = ""
    assert not querier.wanted()
