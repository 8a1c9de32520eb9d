"""Small files by which other processes find the observer.

Decides that a reader sees a whole file or none. Refuses to hold secrets.
"""

from __future__ import annotations

import os
from pathlib import Path


def publish(path: Path, content: str) -> None:
    """Replace the file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(content + "\n", encoding="utf-8")
    fresh.replace(path)


def withdraw(path: Path) -> None:
    path.unlink(missing_ok=True)
