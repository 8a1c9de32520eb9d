"""A broker that dies takes no worker with it."""

from __future__ import annotations

import pytest
import redis
from kombu import Connection

from fleet.bus import outbox
from fleet.bus.broker import QUEUE as MUSTER
from fleet.bus.broker import app

QUEUE = "half-read"


def _half_read() -> Connection:
    """Two messages sent, one of them taken and not yet acknowledged."""
    connection = app.connection_for_read()
    queue = connection.SimpleQueue(QUEUE)
    for word in ("one", "two"):
        queue.put(word)
    assert queue.get(timeout=5).payload == "one"
    return connection


def test_the_end_of_a_dead_connection_with_messages_in_hand_is_no_error(broker: redis.Redis) -> None:
    connection = _half_read()
    connection.transport.client = None  # what the library leaves of a link that broke
    connection.release()


def test_the_end_of_a_living_connection_gives_its_messages_back(broker: redis.Redis) -> None:
    _half_read().release()
    with app.connection_for_read() as connection:
        queue = connection.SimpleQueue(QUEUE)
        messages = [queue.get(timeout=5) for _ in range(2)]
        assert {message.payload for message in messages} == {"one", "two"}
        for message in messages:
            message.ack()


def test_a_channel_makes_the_client_for_its_own_commands_once_for_each_pool(broker: redis.Redis) -> None:
    """One for each acknowledged message is what the library would make."""
    with app.connection() as link:
        channel = link.default_channel
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second and first.ping()
        assert channel.client is not first
        channel._disconnect_pools()
        with channel.conn_or_acquire() as fresh:
            assert fresh is not first and fresh.ping()


def test_what_can_wait_is_taken_after_what_was_sent_later_and_cannot(broker: redis.Redis) -> None:
    for number, can_wait in enumerate((True, False, True, False)):
        outbox.send("tasks.advance", workflow_id=number, version=1, can_wait=can_wait)
    assert outbox.later_waits()
    with app.connection_for_read() as link:
        queue = link.SimpleQueue(MUSTER)
        taken = [queue.get(timeout=5) for _ in range(4)]
        assert [message.payload[1]["workflow_id"] for message in taken] == [1, 3, 0, 2]
        assert not outbox.later_waits()
        for message in taken:
            message.ack()


def test_a_broker_that_cannot_be_asked_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "connection", lambda: redis.Redis(port=1, socket_connect_timeout=0.2))
    assert not outbox.later_waits()
