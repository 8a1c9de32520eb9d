"""Ray is told of a drain by one command in its head: how the head is found, the words sent, and every bad answer."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from fleet.adapters.kubernetes import execing
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.raydrain import SCRIPT, RayDrain
from fleet.ports.errors import MissingRight, NotFound, PermanentError, TemporaryError, UnknownOutcome
from tests.adapters.kubernetes.scripted import Behaviour, Script, answer, cut, page, status

PODS, EXEC = "/api/v1/namespaces/train/pods", "/api/v1/namespaces/train/pods/llm-head/exec"
OUT, ERR, VERDICT = b"\1", b"\2", b"\3"
GOOD = VERDICT + b'{"metadata":{},"status":"Success"}'
BAD = VERDICT + (
    b'{"status":"Failure","reason":"NonZeroExitCode","message":"exit code 1","details":{"causes":[{"message":"1"}]}}'
)


@pytest.fixture
def ray(api: ApiServer, script: Script) -> RayDrain:
    script.on(f"GET {PODS}", page([a_head()], "1"))
    return RayDrain(api, ["train"])


def a_head(*, ready: bool = True, **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "llm-head", "namespace": "train", **meta},
        "spec": {"containers": [{"name": "ray-head"}, {"name": "autoscaler"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


asked: list[str] = []


def talks(*frames: bytes, ends: bool = True) -> Behaviour:
    """Takes the upgrade and sends these frames, each with its channel first."""

    def behave(handler: Any) -> None:
        asked.append(handler.path)
        key = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        for frame in frames:
            size = struct.pack(">BH", 126, len(frame)) if len(frame) > 125 else bytes([len(frame)])
            handler.wfile.write(b"\x82" + size + frame)
        if ends:
            handler.wfile.write(b"\x88\x02\x03\xe8")
        else:
            handler.script.released.wait(20)
        handler.wfile.flush()
        handler.close_connection = True

    return behave


def said(told: dict[str, str]) -> bytes:
    return OUT + json.dumps({"muster": told}).encode() + b"\n"


def drain(ray: RayDrain, *ips: str, namespace: str = "train") -> dict[str, str]:
    return ray.drain(namespace, "llm", ips or ("10.0.0.7",), "Muster WF-3 drains gpu-7; $(reboot)", 60)


def test_the_words_are_arguments_and_no_shell_reads_them(script: Script, ray: RayDrain) -> None:
    asked.clear()
    script.on(f"GET {EXEC}", talks(OUT + b"a warning of Ray's\n", said({"10.0.0.7": ""}), GOOD))
    assert drain(ray) == {"10.0.0.7": ""}
    query = parse_qsl(urlsplit(asked[0]).query)
    assert [value for name, value in query if name == "command"] == [
        "python", "-c", SCRIPT, "60", "Muster WF-3 drains gpu-7; $(reboot)", "10.0.0.7",
    ]  # fmt: skip
    assert ("container", "ray-head") in query and not {"stdin", "tty"} & {name for name, _ in query}
    (listed,) = script.sent("GET", PODS)
    assert listed.query["labelSelector"] == "ray.io/cluster=llm,ray.io/node-type=head"


def test_what_ray_refused_or_did_not_mention_is_told_by_address(script: Script, ray: RayDrain) -> None:
    script.on(f"GET {EXEC}", talks(said({"10.0.0.7": "", "10.0.0.8": "no such node"}), GOOD))
    assert drain(ray, "10.0.0.7", "10.0.0.8", "10.0.0.9") == {
        "10.0.0.7": "", "10.0.0.8": "no such node", "10.0.0.9": "Ray did not say",
    }  # fmt: skip


def test_a_namespace_that_nobody_allowed_is_not_even_looked_at(script: Script, ray: RayDrain) -> None:
    with pytest.raises(PermanentError, match="not allowed in namespace other"):
        drain(ray, namespace="other")
    assert script.asked == []


@pytest.mark.parametrize("heads", [[], [a_head(ready=False)], [a_head(deletionTimestamp="2026-11-29T03:00:00Z")]])
def test_without_a_ready_head_there_is_nobody_to_tell(script: Script, ray: RayDrain, heads: list[Any]) -> None:
    script.on(f"GET {PODS}", page(heads, "1"))
    with pytest.raises(NotFound, match="no head that is ready"):
        drain(ray)


@pytest.mark.parametrize(
    ("behaviour", "error", "words"),
    [
        (status(403, "no"), MissingRight, "may not run a command"),
        (status(404, "no"), NotFound, "is gone"),
        (status(500, "no"), TemporaryError, "HTTP 500"),
        (cut, TemporaryError, "No command could be run"),
        (talks(ERR + b"Traceback\nModuleNotFoundError: No module named 'ray'\n", BAD), PermanentError, "named 'ray'"),
        (talks(BAD), PermanentError, "exit code 1"),
        (talks(OUT + b"something else\n", GOOD), UnknownOutcome, "did not say"),
        (talks(OUT + b'{"muster": 5}\n', VERDICT + b"{"), UnknownOutcome, "was not told"),
        (talks(said({"10.0.0.7": ""})), UnknownOutcome, "was not told"),
        (talks(OUT + b"[1]\nnull\n\xff\n", GOOD), UnknownOutcome, "did not say"),
    ],
)
def test_every_bad_answer_is_an_error_in_words(
    script: Script, ray: RayDrain, behaviour: Behaviour, error: type[Exception], words: str
) -> None:
    script.on(f"GET {EXEC}", behaviour)
    with pytest.raises(error, match=words):
        drain(ray)


def test_a_command_that_does_not_end_is_not_waited_for(api: ApiServer, script: Script) -> None:
    script.on(f"GET {EXEC}", talks(said({"10.0.0.7": ""}), ends=False))
    with pytest.raises(UnknownOutcome, match="did not end within"):
        execing.run(api, "train", "llm-head", "ray-head", ["true"], 0.3)


def test_each_right_that_lacks_is_named_with_its_namespace(script: Script, ray: RayDrain) -> None:
    review = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    yes, no = (answer(201, {"status": {"allowed": allowed}}) for allowed in (True, False))
    script.on(review, yes, no, yes)
    (sentence,) = ray.check()
    assert "get pods/exec in namespace train" in sentence and "Ray is told of no drain there" in sentence
