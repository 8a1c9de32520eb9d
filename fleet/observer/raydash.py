"""The Ray dashboards of a cluster's gangs, asked beside everything else.

Decides who is asked and how often: a few side by side, each with a short patience, and one that does not answer ever
more seldom. Refuses addresses that may not be asked and says so; holds up nobody, for readings are taken from memory.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from fleet.gangs.board import Board
from fleet.gangs.dashboards import Network, Place, is_worth_asking, place_of, refusal
from fleet.observer.conditions import Conditions
from fleet.observer.session import Session
from fleet.ports.errors import PortError
from fleet.ports.ray import RayDashboard, RayReading

log = logging.getLogger(__name__)
TURN_EVERY = 1.0
AT_ONCE = 4
ASK_EVERY, SHARE = 5.0, 0.05
"""Seconds between two looks at one dashboard; so many for each dashboard there is, where that is more."""
LONGEST_REST = 120.0  # seconds, for one that does not answer
OLD = timedelta(seconds=60)
NAMED = 3
Open = Callable[[Place, str], RayDashboard]  # a place and the address that was judged


@dataclass(slots=True)
class _Asked:
    due: float = 0.0
    failures: int = 0
    reading: RayReading | None = None
    trouble: str = ""
    refused: str = ""
    dashboard: RayDashboard | None = None  # kept, with its connection, while place and address stay
    at: tuple[Place, str] | None = None
    running: bool = False


def resolve(host: str, port: int) -> list[str]:
    """Every address that the name means now."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class RayAsker:
    def __init__(
        self,
        session: Session,
        conditions: Conditions,
        board: Callable[[], Board | None],
        opened: Open,
        allowed: Sequence[Network],
        resolved: Callable[[str, int], list[str]] = resolve,
    ) -> None:
        self._session, self._conditions, self._board = session, conditions, board
        self._open, self._allowed, self._resolve = opened, allowed, resolved
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}
        self._pool: ThreadPoolExecutor | None = None

    @property
    def enabled(self) -> bool:
        return bool(self._session.cluster.in_cluster or self._allowed)

    def readings(self) -> Mapping[str, RayReading]:
        """The last reading of each gang's dashboard, by the gang's key; old ones are none."""
        oldest = self._session.clock.now() - max(OLD, timedelta(seconds=3 * self._every()))
        with self._lock:
            return {
                key: asked.reading
                for key, asked in self._asked.items()
                if asked.reading is not None and asked.reading.at >= oldest
            }

    def dashboard_of(self, key: str) -> RayDashboard | None:
        """The one that was asked last for the gang, for whoever wants a log of it."""
        with self._lock:
            asked = self._asked.get(key)
            return asked.dashboard if asked is not None else None

    def turn(self) -> None:
        """Begin the looks that are due; wait for none."""
        board = self._board()
        if board is None or not self.enabled:
            return
        places = {key: place_of(gang) for key, gang in board.gangs.items() if is_worth_asking(gang)}
        now = self._session.clock.monotonic()
        with self._lock:
            for key in [key for key in self._asked if key not in board.gangs]:
                del self._asked[key]
            due = []
            for key, place in places.items():
                asked = self._asked.setdefault(key, _Asked())
                if asked.due <= now and not asked.running and isinstance(place, Place):
                    asked.running = True
                    due.append((key, place))
        for key, place in due:
            self._submit(key, place)
        self._tell(frozenset(places))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, key: str, place: Place) -> Future[None]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ray")
        return self._pool.submit(self.ask, key, place)

    def ask(self, key: str, place: Place) -> None:
        """One look. What goes wrong is kept as a sentence."""
        reading, trouble, refused = None, "", ""
        try:
            addresses = self._resolve(place.host, place.port)
            refused = refusal(
                place, addresses, inside=self._session.cluster.in_cluster, allowed=self._allowed
            )  # fmt: skip
            if not refused:
                reading = self._opened(key, place, addresses[0]).read()
        except PortError as error:
            trouble = str(error)
        except (OSError, UnicodeError):
            trouble = f"The name {place.host} cannot be resolved."
        except Exception:
            log.exception("the dashboard of %s", key)
            trouble = f"The dashboard at {place.host} was not understood; the observer's log tells more."
        self._keep(key, reading, trouble, refused)

    def _opened(self, key: str, place: Place, ip: str) -> RayDashboard:
        with self._lock:
            asked = self._asked.setdefault(key, _Asked())
            if asked.dashboard is None or asked.at != (place, ip):
                asked.dashboard, asked.at = self._open(place, ip), (place, ip)
            return asked.dashboard

    def _keep(self, key: str, reading: RayReading | None, trouble: str, refused: str) -> None:
        with self._lock:
            asked = self._asked.get(key)
            if asked is None:  # the gang went meanwhile
                return
            asked.running, asked.trouble, asked.refused = False, trouble, refused
            asked.failures = 0 if reading is not None else asked.failures + 1
            asked.reading = reading or asked.reading
            if refused:
                asked.dashboard = asked.at = asked.reading = None
            rest = min(LONGEST_REST, self._every() * 2 ** min(asked.failures, 10))
            asked.due = self._session.clock.monotonic() + (rest if asked.failures else self._every())

    def _every(self) -> float:
        return max(ASK_EVERY, SHARE * len(self._asked))

    def _tell(self, keys: frozenset[str]) -> None:
        with self._lock:
            now = [asked for key, asked in self._asked.items() if key in keys]
        self._state("ray_dashboards", [one.trouble for one in now if one.trouble and one.failures > 1], len(now))
        self._state("ray_addresses", [one.refused for one in now if one.refused], len(now))

    def _state(self, code: str, told: list[str], all_: int) -> None:
        if not told:
            self._conditions.mend(code)
            return
        words = " ".join(dict.fromkeys(sorted(told)[:NAMED]))
        text = f"{len(told)} of {all_} Ray dashboards are not read: {words}"
        self._conditions.state(code, text[:500], self._session.clock.now())
