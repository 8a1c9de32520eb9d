"""The file behind a cluster's list of targets.

Decides by its time and size whether to read it again. Refuses to forget: whoever holds an older list keeps it while the
file cannot be used, and says so.
"""

from __future__ import annotations

from pathlib import Path

from fleet.inventory.targets import MAX_CHARS, BadTargets, Targets, parse

Stamp = tuple[int, int, int]


class TargetsFile:
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: Stamp | None = None

    def changed(self) -> Targets | None:
        """The list when it is new or has changed, else None. BadTargets as long as it cannot be used."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._seen:
                return None
            if found.st_size > MAX_CHARS:
                raise BadTargets([f"The list of targets is larger than {MAX_CHARS >> 20} MiB."])
            listed = parse(self._path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadTargets([f"The list of targets {self._path} cannot be read: {error.strerror}."]) from error
        except UnicodeDecodeError as error:
            raise BadTargets([f"The list of targets {self._path} is not UTF-8."]) from error
        self._seen = stamp
        return listed
