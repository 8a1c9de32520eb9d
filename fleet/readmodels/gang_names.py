"""The words for systems, states and guarantees of gangs.

Decides one name for every value of the normal form. Refuses colours: those belong to the templates.
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as lazy

Word = str | Promise

SYSTEMS: dict[str, Word] = {
    "ray": "KubeRay",
    "coscheduling": "scheduler-plugins",
    "volcano": "Volcano",
    "kai": "KAI",
    "kueue": "Kueue",
    "yunikorn": "YuniKorn",
    "native": "Kubernetes",
    "jobset": "JobSet",
    "lws": "LeaderWorkerSet",
    "trainjob": "TrainJob",
    "kubeflow": "Kubeflow",
    "slurm": "Slurm",
    "slinky": "Slinky",
    "pods": lazy("plain pods"),
}
STATES: dict[str, Word] = {
    "partial": lazy("partly placed"),
    "waiting": lazy("waiting"),
    "starting": lazy("starting"),
    "suspended": lazy("suspended"),
    "running": lazy("running"),
    "empty": lazy("without members"),
    "finished": lazy("finished"),
}
STATE_SENTENCES: dict[str, Word] = {
    "partial": lazy("some members are placed, fewer than it needs to start"),
    "waiting": lazy("no member is placed"),
    "starting": lazy("its minimum is placed and not all of it has started"),
    "suspended": lazy("it is not to start now"),
    "running": lazy("its minimum has started"),
    "empty": lazy("nothing of it is there, and nothing asks for any: it may have been left over"),
    "finished": lazy("it is over"),
}
GUARANTEES: dict[str, Word] = {
    "whole": lazy("all members or none"),
    "partial": lazy("for a part of its members"),
    "none": lazy("none: members are placed one by one"),
    "lost": lazy("lost: its scheduler gave it up"),
    "unknown": lazy("not told"),
}
MEMBER_STATES: dict[str, Word] = {
    "gated": lazy("held back by a gate"),
    "pending": lazy("waits for a node"),
    "placed": lazy("placed, not started"),
    "running": lazy("running"),
    "ready": lazy("ready"),
    "ending": lazy("ending"),
    "ended": lazy("ended"),
}


def word(table: dict[str, Word], value: str) -> str:
    return str(table.get(value, value))
