"""The Celery application as a sender of messages.

Decides transport only: one default queue of two priorities, no results, quick refusal when the broker is away. Every
process that sends uses this app; the worker and beat add their schedule in `tasks.celery`. Refuses an explicit exchange
or routing key: after a flushed broker only the default direct queue keeps working.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from django.conf import settings
from kombu.transport.redis import Channel, QoS, Transport

log = logging.getLogger(__name__)


class Courteous(QoS):
    """Gives unread messages back at the end where it can. Over a link that is dead the library's own way raises, which
    ends the worker that was about to connect again; and the rows know what is due without any message."""

    def restore_unacked_once(self, stderr: Any = None) -> None:
        try:
            super().restore_unacked_once(stderr)
        except Exception as error:
            log.warning("messages not given back, their rows come up again: %s", error)


class Frugal(Channel):
    """Makes the client for its own commands once for each pool of connections. The library makes one for each message
    that is acknowledged, which is a seventh of what a busy worker does."""

    _kept: tuple[Any, Any] | None = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)
        pool = self.pool
        kept = self._kept
        if kept is None or kept[0] is not pool:
            kept = self._kept = (pool, super()._create_client())
        return kept[1]


Channel.QoS = Courteous
Transport.Channel = Frugal
QUEUE = "muster"
AT_ONCE, LATER = 0, 3
"""Priorities of messages: lists of their own in the broker, of which the first is emptied first."""
LATER_LIST = f"{QUEUE}{Channel.sep}{LATER}"
app = Celery("tasks")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": 3600,
        "socket_timeout": 10,
        "socket_connect_timeout": 3,
        "priority_steps": [AT_ONCE, LATER],
    },
)
