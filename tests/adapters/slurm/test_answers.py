"""What slurmrestd of any version says when it cannot do what it was asked, and what its answers may be instead."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection
from fleet.adapters.slurm.client import Slurmrestd
from fleet.ports.errors import MissingRight, NotFound, PermanentError, PortError, TemporaryError, UnknownOutcome
from tests.adapters.slurm.fake_rest import FakeRest, running


@dataclass
class Says(FakeRest):
    """One that answers everything but a ping with the same."""

    status: int = 200
    body: bytes = b""
    pages: dict[str, bytes] = field(default_factory=dict)

    def get(self, what: str) -> tuple[int, Any]:
        if what == "ping":
            return super().get(what)
        return self.status, self.pages.get(what, self.body)

    def post(self, what: str, body: Any) -> tuple[int, Any]:
        return self.status, self.body

    def delete(self, what: str) -> tuple[int, Any]:
        return self.status, self.body


def ended_in(status: int, body: bytes, act: Callable[[Slurmrestd], Any]) -> PortError:
    with running(Says(45, status=status, body=body)) as fake:
        rest = Slurmrestd(Connection(fake.url, "muster", lambda: "a.b.c"))
        with pytest.raises(PortError) as caught:
            act(rest)
    return caught.value


def error(number: int | None, why: str, what: str = "Unable to query jobs", key: str = "error_number") -> bytes:
    entry = {"description": what, "error": why, "source": "slurm_load_jobs()"}
    return json.dumps({"jobs": [], "errors": [entry | ({} if number is None else {key: number})]}).encode()


def reads(rest: Slurmrestd) -> Any:
    return rest.get("jobs")


def acts(rest: Slurmrestd) -> Any:
    return rest.post("node/gpu-01", {"state": ["DRAIN"]})


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b"Authentication does not apply to request"),
        (403, b"<html>Forbidden</html>"),
        (511, error(1007, "Protocol authentication error")),  # 25.05 and later, of a token that has ended
        (500, error(1007, "Protocol authentication error")),
        (500, error(6001, "Authentication credential expired")),
        (500, error(9008, "Authentication failure")),
        (500, error(2002, "Access/permission denied")),
        (500, error(2010, "Invalid user id", key="errno")),
    ],
)
def test_a_token_that_is_not_accepted_is_told_as_such_by_all_versions(status: int, body: bytes) -> None:
    for act in (reads, acts):
        found = ended_in(status, body, act)
        assert isinstance(found, MissingRight) and "does not accept the token of muster" in str(found)


def test_what_a_version_does_not_tell_apart_is_not_guessed() -> None:
    said = str(ended_in(500, error(-1, "Unspecified error"), reads))
    assert "slurmctld did not answer, or refuses the token" in said
    accounts = error(7000, "Unable to connect to database", "openapi_get_db_conn() failed to open slurmdb connection")
    said = str(ended_in(500, accounts, reads))  # 23.11 asks slurmdbd first, with the same token
    assert "slurmdbd did not answer, or refuses the token" in said


@pytest.mark.parametrize("number", [1001, 1003, 1021, 1800, 1802, 2027, 5004, 5005])
def test_a_slurmctld_that_is_away_is_waited_for_and_what_it_was_told_is_looked_at_again(number: int) -> None:
    body = error(number, "Unable to contact slurm controller (connect failure)")
    found = ended_in(500, body, reads)
    assert isinstance(found, TemporaryError) and found.code == "slurm_unreachable"
    assert "Unable to contact slurm controller" in str(found)
    assert isinstance(ended_in(500, body, acts), UnknownOutcome)


@pytest.mark.parametrize(
    ("status", "number", "what"),
    [(404, 2017, "job/7"), (200, 2018, "node/gpu-99"), (200, 0, "node/gpu-99"), (200, None, "node/gpu-99"),
     (500, 9003, "job/7"), (500, 2053, "reservation/r")],
)  # fmt: skip
def test_what_is_not_there_is_not_found(status: int, number: int | None, what: str) -> None:
    body = error(number, "No error", "Failure to query")
    act = (lambda rest: rest.delete(what)) if "reservation" in what else (lambda rest: rest.get(what))
    assert isinstance(ended_in(status, body, act), NotFound)


@pytest.mark.parametrize("what", ["nodes", "jobs", "partitions", "reservations"])
def test_no_list_is_empty_because_an_error_has_no_number(what: str) -> None:
    found = ended_in(200, error(0, "No error", "Failure to query nodes"), lambda rest: rest.get(what))
    assert isinstance(found, TemporaryError)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, b"<!DOCTYPE html><title>Sign in</title>", "slurm_garbage"),
        (502, b"<html>502 Bad Gateway</html>", "slurm_unreachable"),
        (503, b"", "slurm_unreachable"),
        (200, b'{"nodes": [{"name": "gpu-01", "st', "slurm_garbage"),
        (200, b"[" * 5000, "slurm_garbage"),
        (200, b"", "slurm_garbage"),
    ],
)
def test_an_answer_that_is_none_is_a_stated_failure(status: int, body: bytes, code: str) -> None:
    found = ended_in(status, body, lambda rest: rest.get("nodes"))
    assert isinstance(found, TemporaryError) and found.code == code


@pytest.mark.parametrize(
    "odd",
    [
        b'"tres_weighted": NaN',
        b'"tres_weighted":-Infinity,"cpu_load":Infinity',
        b'"cpu_load": [NaN , Infinity]',
        b'"comment": "caf\xe9"',
        b'"comment": "caf\xe9 NaN, really", "cpu_load": NaN',
    ],
)
def test_one_odd_value_hides_no_node(odd: bytes) -> None:
    body = b'{"nodes": [{"name": "gpu-01", "state": ["IDLE"], "gres": "gpu:8", %s}], "errors": []}' % odd
    pages = {"nodes": body, "reservations": b'{"reservations": []}'}
    with running(Says(45, pages=pages)) as fake:
        (node,) = adapter.reader(Connection(fake.url, "muster", lambda: "a.b.c")).nodes()
    assert (node.name, node.gpu_capacity) == ("gpu-01", 8)


def test_an_answer_has_a_largest_size() -> None:
    with running(Says(45, body=b'{"jobs": [%s]}' % (b" " * (1 << 20)))) as fake:
        rest = Slurmrestd(Connection(fake.url, "muster", lambda: "a.b.c", max_bytes=1 << 20))
        with pytest.raises(PermanentError, match="sent more than 1 MiB") as caught:
            rest.get("jobs")
    assert caught.value.code == "too_large"


def signed(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


@pytest.mark.parametrize(
    ("token", "told", "seen"),
    [
        (signed(sun="kim"), "", "kim"),
        (signed(username="kim"), "", "kim"),  # of a site's own identity provider
        (signed(sub="kim@example"), "", None),  # Slurm's configuration says which claim it is
        (signed(sun="kim"), "muster", "muster"),
        ("opaque", "", None),
    ],
)
def test_who_asks_is_told_only_where_it_is_known(token: str, told: str, seen: str | None) -> None:
    with running(FakeRest(45)) as fake:
        assert adapter.reader(Connection(fake.url, told, lambda: token)).nodes()
        assert fake.users == {seen}
