"""What the readers of schedulers say of a gang where its system tells it by a field and not in words.

Decides nothing. Refuses schedulers' own words, which are shown as they are.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

GANGS: tuple[str, ...] = (
    noop("It was sent to the cluster %(cluster)s."),
    noop("It names no queue."),
    noop("Held by the scheduling gates %(gates)s."),
    noop("The check %(check)s is %(state)s."),
    noop("The queue is %(state)s."),
    noop("The partition is %(state)s."),
    noop("The service is suspended."),
    noop("Fewer members than its minimum run."),
    noop("Binding to %(node)s failed %(n)s times."),
    noop("Its queue runs as many applications as it may (maxRunningApps)."),
    noop("%(n)s of its allocations are being taken back for others (preempted)."),
    noop("The application is %(state)s and %(gpus)s GPUs are still allocated to it."),
    noop("%(used)s of %(most)s %(resource)s of the queue are in use, and %(more)s more are needed."),
    noop("%(found)s of %(wanted)s are down in Slurm."),
    noop("%(found)s of %(wanted)s are drained or about to be in Slurm."),
)
