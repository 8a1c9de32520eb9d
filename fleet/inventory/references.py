"""Credentials by reference: `env:NAME` or `file:PATH`, read anew each time they are needed.

Decides what lies at a reference. Refuses to keep it, and to raise: what cannot be read is empty, and whoever needs it
says which credential that is.
"""

from __future__ import annotations

import os
from pathlib import Path


def secret(reference: str) -> str:
    """What lies at `env:NAME` or `file:PATH`; empty when nothing does."""
    kind, _, place = reference.partition(":")
    try:
        if kind == "env":
            return os.environ[place].strip()
        return Path(place).read_text(encoding="utf-8").strip() if kind == "file" else ""
    except (KeyError, OSError, UnicodeDecodeError):
        return ""
