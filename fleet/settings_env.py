"""Typed readers of environment variables.

Decides how a setting is read: from `NAME`, or for secrets from the file named by `NAME_FILE`. Refuses to guess: a value
that does not parse stops the start with the variable's name.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path


class BadSetting(Exception):
    """A variable has a value that cannot be used."""


def text(name: str, default: str = "") -> str:
    """The value of `NAME`, else the stripped content of the file in `NAME_FILE`, else `default`."""
    if name in os.environ:
        return os.environ[name]
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadSetting(f"{name}_FILE names {path}, which cannot be read: {error.strerror}") from error
    return default


def number(name: str, default: float, low: float | None = None) -> float:
    raw = text(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError as error:
        raise BadSetting(f"{name}={raw!r} is not a number") from error
    if low is not None and value < low:
        raise BadSetting(f"{name}={raw!r} is below {low:g}")
    return value


def whole(name: str, default: int, low: int | None = None) -> int:
    value = number(name, default, low)
    if value != int(value):
        raise BadSetting(f"{name}={value!r} is not a whole number")
    return int(value)


def switch(name: str, default: bool = False) -> bool:
    raw = text(name).lower()
    if raw in ("", "default"):
        return default
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off"):
        return False
    raise BadSetting(f"{name}={raw!r} is neither yes nor no")


def words(name: str, default: str = "") -> list[str]:
    return [word for word in text(name, default).replace(",", " ").split() if word]


def networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Networks as `10.0.0.0/8`, a single address too."""
    try:
        return [ipaddress.ip_network(word) for word in words(name)]
    except ValueError as error:
        raise BadSetting(f"{name}: {error}") from error
