"""The Celery application as a sender of messages.

Decides transport only: one default queue, no results, quick refusal when the broker is away. Every process that sends
uses this app; the worker and beat add their schedule in `tasks.celery`. Refuses an explicit exchange or routing key:
after a flushed broker only the default direct queue keeps working.
"""

from __future__ import annotations

from celery import Celery
from django.conf import settings

app = Celery("tasks")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    task_ignore_result=True,
    task_default_queue="muster",
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"visibility_timeout": 3600, "socket_timeout": 10, "socket_connect_timeout": 3},
)
