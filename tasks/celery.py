"""The Celery application.

Decides transport only: one default queue, no results, messages acknowledged late are not needed because no message
carries state. Refuses countdowns: time is in the rows, the tick looks.
"""

from __future__ import annotations

import os

import django
from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
django.setup()

app = Celery("tasks")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    task_ignore_result=True,
    task_default_queue="muster",
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"visibility_timeout": 3600, "socket_timeout": 10, "socket_connect_timeout": 3},
    worker_prefetch_multiplier=4,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_schedule={
        "tick": {"task": "tasks.tick", "schedule": 1.0, "options": {"expires": 5}},
        "sweep": {"task": "tasks.sweep", "schedule": 10.0, "options": {"expires": 30}},
        "retain": {"task": "tasks.retain", "schedule": 600.0, "options": {"expires": 300}},
    },
    beat_max_loop_interval=1.0,
    imports=("tasks.engine",),
)
