"""The Celery application of worker and beat.

Decides the schedule, and what a worker says: what a step came to, not that a message came. Late acknowledgement is not
needed because no message carries state, and a broken connection cancels no task: a step fences its own writes. Refuses
countdowns: time is in the rows, the tick looks.
"""

from __future__ import annotations

import logging
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
django.setup()

from fleet.bus.broker import app  # noqa: E402  (settings must be ready first)

for chatty in ("celery.worker.strategy", "celery.app.trace"):  # a line for each tick would hide all others
    logging.getLogger(chatty).setLevel(logging.WARNING)
app.conf.update(
    worker_prefetch_multiplier=4,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_schedule={
        "tick": {"task": "tasks.tick", "schedule": 1.0, "options": {"expires": 5}},
        "sweep": {"task": "tasks.sweep", "schedule": 10.0, "options": {"expires": 30}},
        "leases": {"task": "tasks.leases", "schedule": 15.0, "options": {"expires": 15}},
        "burn_in_watch": {"task": "tasks.burn_in_watch", "schedule": 2.0, "options": {"expires": 5}},
        "burn_in_start": {"task": "tasks.burn_in_start", "schedule": 30.0, "options": {"expires": 30}},
        "evidence": {"task": "tasks.evidence", "schedule": 15.0, "options": {"expires": 15}},
        "suspensions": {"task": "tasks.suspensions", "schedule": 5.0, "options": {"expires": 5}},
        "retain": {"task": "tasks.retain", "schedule": 600.0, "options": {"expires": 300}},
    },
    beat_max_loop_interval=1.0,
    imports=("tasks.engine", "tasks.burnin"),
)

__all__ = ["app"]
