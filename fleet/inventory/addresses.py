"""The address of something that a cluster is asked through: a scheduler's REST.

Decides the form of a plain web address. Refuses one that holds a user or a query: it would be stored, shown and logged.
Pure.
"""

from __future__ import annotations

from urllib.parse import urlsplit


def check(what: str, url: str) -> None:
    """ValueError says in one sentence what is wrong with the address of `what`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"The address of {what} {url!r} cannot be read: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"The address of {what} starts with http:// or https://, not {url!r}.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"The address of {what} holds neither a user nor a query.")
