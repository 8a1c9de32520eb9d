"""One command in a container, by the API server's exec.

Decides how long it may take, how much of its answer is read, and what a broken conversation means: not known. Refuses
a shell, a terminal and input; and to run anything twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import websocket
import yaml
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL, WSClient, get_websocket_url

from fleet.adapters.kubernetes.client import CONNECT_SECONDS, ApiServer
from fleet.ports.errors import MissingRight, NotFound, PermanentError, TemporaryError, UnknownOutcome
from fleet.ports.shapes import mapping, text

MOST = 64 << 10  # characters of its answer
WORDS = 300


def run(api: ApiServer, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
    """What it printed. UnknownOutcome when its end was not seen, PermanentError with its last words when it failed."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec"
    asked = [("container", container), ("stdout", "true"), ("stderr", "true")]
    configuration, url, headers = api.websocket(path, [*asked, *(("command", word) for word in command)])
    until = time.monotonic() + seconds
    talk = _open(configuration, url, headers, f"{namespace}/{pod}")
    try:
        out = err = ""
        while talk.is_open() and time.monotonic() < until and len(out) + len(err) < MOST:
            talk.update(timeout=min(1.0, max(0.0, until - time.monotonic())))
            out, err = out + talk.read_channel(STDOUT_CHANNEL), err + talk.read_channel(STDERR_CHANNEL)
        if talk.is_open():
            raise UnknownOutcome(f"A command in {namespace}/{pod} did not end within {seconds:.0f} s.")
        verdict = talk.read_channel(ERROR_CHANNEL)
    except (websocket.WebSocketException, OSError, ValueError) as error:
        raise UnknownOutcome(f"The conversation with {namespace}/{pod} broke: {error}"[:WORDS]) from error
    finally:
        talk.close()
    return _judged(out, err, verdict, f"{namespace}/{pod}")


def _open(configuration: Any, url: str, headers: dict[str, str], pod: str) -> Any:
    websocket.setdefaulttimeout(CONNECT_SECONDS)  # of this process: nothing else in it speaks WebSocket
    try:
        return WSClient(configuration, get_websocket_url(url), headers, False)
    except websocket.WebSocketBadStatusException as error:
        match error.status_code:
            case 401 | 403:
                words = f"The credential may not run a command in {pod} (HTTP {error.status_code})."
                raise MissingRight("create", "pods/exec", words) from error
            case 404:
                raise NotFound(f"{pod} is gone, or the API server runs no commands.") from error
        raise TemporaryError(
            f"The API server did not let a command run in {pod} (HTTP {error.status_code})."
        ) from error
    except (websocket.WebSocketException, OSError, ValueError) as error:
        raise TemporaryError(f"No command could be run in {pod}: {error}"[:WORDS]) from error


def _judged(out: str, err: str, verdict: str, pod: str) -> str:
    try:
        told = mapping(yaml.safe_load(verdict))
    except yaml.YAMLError:
        told = {}
    if not told:
        raise UnknownOutcome(f"How a command in {pod} ended was not told.")
    if told.get("status") != "Success":
        last = (err or out).strip().splitlines()
        words = last[-1] if last else text(told.get("message"))
        raise PermanentError(f"A command in {pod} failed: {words}"[:WORDS])
    return out
