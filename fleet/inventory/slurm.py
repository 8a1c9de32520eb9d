"""What may be registered of a cluster's Slurm.

Decides the form of slurmrestd's address, of its users and of the references to their tokens. Refuses a token or a
password where a reference belongs: it would be stored, shown and logged. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_USER = re.compile(r"[A-Za-z_][\w.@-]{0,62}")


def check(given: Mapping[str, Any]) -> None:
    """ValueError says in one sentence what is wrong."""
    if given.get("slurm_url"):
        _address(str(given["slurm_url"]))
    for key, option in (("slurm_token", "--slurm-token"), ("slurm_act_token", "--slurm-act-token")):
        if given.get(key) and not _REFERENCE.fullmatch(str(given[key])):
            raise ValueError(f"{option} names a token by env:NAME or file:PATH; it is not written here.")
    for key, option in (("slurm_user", "--slurm-user"), ("slurm_act_user", "--slurm-act-user")):
        if given.get(key) and not _USER.fullmatch(str(given[key])):
            raise ValueError(f"{option} is one user's name.")


def _address(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"The address of slurmrestd {url!r} cannot be read: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"The address of slurmrestd starts with http:// or https://, not {url!r}.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("The address of slurmrestd holds neither a user nor a query.")
