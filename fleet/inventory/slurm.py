"""What may be registered of a cluster's Slurm.

Decides the form of its users and of the references to their tokens. Refuses a token or a password where a reference
belongs: it would be stored, shown and logged. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleet.inventory import addresses

_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_USER = re.compile(r"[A-Za-z_][\w.@-]{0,62}")


def check(given: Mapping[str, Any]) -> None:
    """ValueError says in one sentence what is wrong."""
    if given.get("slurm_url"):
        addresses.check("slurmrestd", str(given["slurm_url"]))
    for key, option in (("slurm_token", "--slurm-token"), ("slurm_act_token", "--slurm-act-token")):
        if given.get(key) and not _REFERENCE.fullmatch(str(given[key])):
            raise ValueError(f"{option} names a token by env:NAME or file:PATH; it is not written here.")
    for key, option in (("slurm_user", "--slurm-user"), ("slurm_act_user", "--slurm-act-user")):
        if given.get(key) and not _USER.fullmatch(str(given[key])):
            raise ValueError(f"{option} is one user's name.")
