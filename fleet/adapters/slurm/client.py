"""One slurmrestd: requests with a token, in the version that both sides know.

Decides the newest version of the API that is served and known here, asked anew when it is gone after an upgrade. A
token that has expired is not sent, for some versions answer it as if slurmctld were away. Refuses redirects, retries
and to quote a token.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import orjson
import urllib3

from fleet.adapters.slurm import Connection, answers
from fleet.adapters.slurm.tokens import expired, user_of
from fleet.ports import httpread
from fleet.ports.errors import MissingRight, NotFound, PermanentError, TemporaryError, UnknownOutcome
from fleet.ports.shapes import items

VERSIONS = tuple(f"v0.0.{n}" for n in range(45, 37, -1))
"""From 26.05 (45) down to 22.05 (38). A server serves three or four of them at a time."""
AT_ONCE = 2


class Slurmrestd:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._base = connection.url.rstrip("/")
        self._pool = httpread.connections(connection.verify, AT_ONCE, connection.timeout)
        self._version = ""

    @property
    def version(self) -> str:
        """Such as `v0.0.42`; found by asking for a ping from the newest down."""
        if not self._version:
            for version in VERSIONS:
                status, body = self._send("GET", f"/slurm/{version}/ping", None)
                if status == 404:
                    continue
                self._judged(status, body, f"/slurm/{version}/ping")
                self._version = version
                break
            else:
                text = f"{self._base} serves none of {VERSIONS[-1]} to {VERSIONS[0]}."
                raise PermanentError(text, code="slurm_version")
        return self._version

    def get(self, what: str) -> dict[str, Any]:
        """One resource (`jobs`, `nodes`, `partitions`, `node/NAME`), its errors raised."""
        path = f"/slurm/{self.version}/{quote(what, safe='/?=&')}"
        return self._judged(*self._send("GET", path, None), path)

    def rows(self, what: str) -> list[dict[str, Any]]:
        """The whole of `jobs`, `nodes`, `partitions` or `reservations`. An answer without the list is no empty one."""
        found = self.get(what).get(what)
        if not isinstance(found, list):
            raise TemporaryError(f"slurmrestd answered {what} without the list of them.", code="slurm_garbage")
        return items(found)

    def act(self, what: str) -> dict[str, Any]:
        """What Slurm does when it is asked with GET (a requeue): an answer that does not come leaves its end open."""
        path = f"/slurm/{self.version}/{quote(what, safe='/?=&')}"
        status, body = self._send("GET", path, None, acts=True)
        return self._judged(status, body, path, acts=True)

    def post(self, what: str, payload: dict[str, Any]) -> dict[str, Any]:
        path = f"/slurm/{self.version}/{quote(what, safe='/')}"
        status, body = self._send("POST", path, orjson.dumps(payload))
        if status == 405:
            raise PermanentError("This Slurm takes no changes by REST (before 23.02).", code="slurm_read_only")
        return self._judged(status, body, path, acts=True)

    def delete(self, what: str) -> dict[str, Any]:
        path = f"/slurm/{self.version}/{quote(what, safe='/')}"
        status, body = self._send("DELETE", path, None)
        return self._judged(status, body, path, acts=True) if body.strip() or status >= 400 else {}

    def at_least(self, version: int) -> bool:
        return int(self.version.rsplit(".", 1)[1]) >= version

    @property
    def user(self) -> str:
        """Whose token it is."""
        return self._connection.user or user_of(self._connection.token())

    def _send(self, method: str, path: str, payload: bytes | None, *, acts: bool = False) -> tuple[int, bytes]:
        connection = self._connection
        token = connection.token()
        if past := expired(token, time.time()):
            raise self._denied(past)
        headers = {
            "User-Agent": "muster",
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "X-SLURM-USER-TOKEN": token,
        }
        if user := connection.user or user_of(token):  # else Slurm reads it out of the token, by its own configuration
            headers["X-SLURM-USER-NAME"] = user
        if payload is not None:
            headers["Content-Type"] = "application/json"
        deadline = time.monotonic() + connection.timeout
        try:
            response = self._pool.request(
                method, self._base + path, body=payload, headers=headers, preload_content=False, redirect=False
            )
            return response.status, httpread.whole(response, connection.max_bytes, deadline)
        except urllib3.exceptions.NewConnectionError as error:
            raise TemporaryError(f"slurmrestd at {self._base} cannot be reached.", code="slurm_unreachable") from error
        except urllib3.exceptions.SSLError as error:
            words = f"The certificate of {self._base} is not accepted: {httpread.first_line(error)}."
            raise PermanentError(words, code="slurm_tls") from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, httpread.NotWhole) as error:
            if acts or method != "GET":
                words = f"slurmrestd at {self._base} broke off while it was told something: {type(error).__name__}."
                raise UnknownOutcome(words) from error
            if isinstance(error, httpread.NotWhole) and error.why is httpread.Why.TOO_LARGE:
                most = connection.max_bytes >> 20
                raise PermanentError(
                    f"slurmrestd at {self._base} sent more than {most} MiB.", code="too_large"
                ) from error
            words = f"slurmrestd at {self._base} did not answer whole within {connection.timeout:g} s."
            raise TemporaryError(words, code="slurm_timeout") from error

    def _judged(self, status: int, body: bytes, path: str, *, acts: bool = False) -> dict[str, Any]:
        answer = answers.read(body)
        if answer is None:
            if status == 404:
                self._version = ""  # an upgrade took the version away: the next call asks again
            if status in answers.DENIES:
                raise self._denied(f"HTTP {status}")
            sentence = f"slurmrestd answered {path} with no JSON (HTTP {status})."
            away = status in answers.OF_A_PROXY
            raise TemporaryError(sentence, code="slurm_unreachable" if away else "slurm_garbage")
        found, words = answers.judged(status, answer, path)
        match found:
            case "":
                return answer
            case answers.DENIED:
                raise self._denied(words)
            case answers.NOT_FOUND:
                raise NotFound(f"Slurm knows no {path}: {words}.")
            case answers.UNTOLD:
                said = f"slurmctld did not answer, or refuses the token{self._whose()}; slurmrestd does not say which."
                raise TemporaryError(said, code="slurm_error")
            case answers.ACCOUNTING:
                said = f"slurmdbd did not answer, or refuses the token{self._whose()}; slurmrestd does not say which."
                raise TemporaryError(said, code="slurm_error")
            case answers.AWAY if acts:
                raise UnknownOutcome(f"slurmctld did not answer slurmrestd, which had told it something: {words}.")
            case answers.AWAY:
                raise TemporaryError(f"slurmctld does not answer slurmrestd: {words}.", code="slurm_unreachable")
        raise TemporaryError(f"Slurm refused {path}: {words}.", code="slurm_error")

    def _whose(self) -> str:
        return f" of {self._connection.user}" if self._connection.user else ""

    def _denied(self, words: str) -> MissingRight:
        return MissingRight("use", "slurmrestd", f"slurmrestd does not accept the token{self._whose()}: {words}.")
