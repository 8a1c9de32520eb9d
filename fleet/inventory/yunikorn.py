"""What may be registered of a cluster's YuniKorn.

Decides the form of its address. Refuses one that holds a user: it would be stored, shown and logged. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


def check(given: Mapping[str, Any]) -> None:
    """ValueError says in one sentence what is wrong."""
    url = str(given.get("yunikorn_url") or "")
    if not url:
        return
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"The address of YuniKorn {url!r} cannot be read: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"The address of YuniKorn starts with http:// or https://, not {url!r}.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("The address of YuniKorn holds neither a user nor a query.")
