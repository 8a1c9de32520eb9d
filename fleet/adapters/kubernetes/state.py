"""What a stream tells people about itself.

Decides when a state is worth telling (it changed) and since when it holds. Refuses to hide trouble: a stream that
cannot watch says why, in the words of the failure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fleet.ports.clock import Clock
from fleet.ports.cluster import WatchState
from fleet.ports.errors import PortError


class StreamState:
    """Tells `on_state` each change; `since` is when the connection was gained or lost, not when the text changed."""

    def __init__(self, resource: str, server: str, clock: Clock, on_state: Callable[[WatchState], None]) -> None:
        self._resource = resource
        self._server = server
        self._clock = clock
        self._on_state = on_state
        self._connected: bool | None = None
        self._since: datetime = clock.now()
        self._told: tuple[bool, str, str] | None = None

    def listing(self) -> None:
        if self._told is None:
            self._tell(False, f"Reading the list of {self._resource} from {self._server}.", "listing")

    def watching(self) -> None:
        self._tell(True, f"Watching {self._resource} at {self._server}.", "watching")

    def lost(self, error: PortError, wait: float) -> None:
        if error.code == "resync":
            text = f"The history of {self._resource} at {self._server} is gone; reading the list again."
            self._tell(False, text, error.code)
        else:
            self._tell(False, f"{error} Trying again in {wait:.1f} s.", error.code)

    def _tell(self, connected: bool, text: str, code: str) -> None:
        if connected != self._connected:
            self._connected, self._since = connected, self._clock.now()
        if (connected, text, code) != self._told:
            self._told = (connected, text, code)
            self._on_state(WatchState(self._resource, connected, self._since, text, code))
