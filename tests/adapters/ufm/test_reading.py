"""What is read of a UFM, and what it means when it answers anything else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.adapters import ufm
from fleet.adapters.ufm import decode
from fleet.ports.errors import PermanentError, PortError, TemporaryError
from fleet.ports.fabric import EndSeen, FabricReader
from tests.adapters.prometheus.fake_api import FakeApi, running

SECRET = "Basic " + base64.b64encode(b"admin:hunter2").decode()
LINK = {
    "source_guid": "0c42a103001b7ab6", "source_port": "1", "destination_guid": "0c42a103009d7af6",
    "destination_port": "19", "source_port_dname": "HCA-2/1", "destination_port_dname": "19", "width": "4x",
    "severity": "Info", "source_port_node_description": "luna-0395 mlx5_10",
    "destination_port_node_description": "SLG03-10:19", "name": "0c42a103001b7bf6_1:0c42a103009d7af6_19",
}  # fmt: skip
ENDS = (EndSeen("0c42a103001b7ab6", "1", "luna-0395 mlx5_10"), EndSeen("0c42a103009d7af6", "19", "SLG03-10:19"))
ALARM = {
    "event_type": 110, "event_count": 3, "timestamp": "2026-05-08 11:48:09.351", "name": "Symbol error",
    "related_object_name": "0c42a103009d7af6_19", "severity": "Warning", "id": 1,
}  # fmt: skip
LINKS, ALARMS, PORTS = "/ufmRest/resources/links", "/ufmRest/app/alarms", "/ufmRest/resources/ports"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running(FakeApi(at={LINKS: json.dumps([LINK]).encode(), ALARMS: json.dumps([ALARM]).encode()})) as fake:
        yield fake


def reader(api: FakeApi, **more: Any) -> FabricReader:
    texts: dict[str, Any] = {"telemetry": f"{api.url}/metrics", "sharp": f"{api.url}/sharp"}
    return ufm.reader(ufm.Connection(api.url, lambda: SECRET, timeout=2.0, **texts, **more))


def test_links_and_alarms_are_read(api: FakeApi) -> None:
    found = reader(api)
    assert found.links().links == [ENDS]
    (alarm,) = found.alarms().alarms
    assert (alarm.guid, alarm.port, alarm.code, alarm.name) == ("0c42a103009d7af6", "19", "110", "Symbol error")
    assert [asked[0] for asked in api.asked] == [LINKS, ALARMS]
    assert {asked[2]["Authorization"] for asked in api.asked} == {SECRET}


def test_the_credential_goes_to_the_manager_alone(api: FakeApi) -> None:
    api.body = b"SymbolErrorCounterExtended 1\n"
    found = reader(api)
    assert found.telemetry() == api.body == found.sharp()
    assert not any("Authorization" in asked[2] for asked in api.asked)


def test_versions_that_name_no_ends_are_asked_for_their_ports(api: FakeApi) -> None:
    bare = {key: value for key, value in LINK.items() if "description" not in key}
    api.at[LINKS] = json.dumps([bare]).encode()
    ports = [
        {"name": "0c42a103001b7ab6_1", "node_description": "luna-0395 mlx5_10", "number": 1},
        {"guid": "0x0c42a103009d7af6", "number": 19, "system_name": "SLG03-10"},
        "rubbish",
    ]
    api.at[PORTS] = json.dumps(ports).encode()
    assert reader(api).links().links == [(ENDS[0], EndSeen("0c42a103009d7af6", "19", "SLG03-10"))]


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, PermanentError, "fabric_credential"),
        (302, PermanentError, "fabric_credential"),
        (403, PermanentError, "missing_right"),
        (404, PermanentError, "no_fabric_api"),
        (429, TemporaryError, "fabric_unavailable"),
        (500, TemporaryError, "fabric_unavailable"),
        (503, TemporaryError, "fabric_unavailable"),
        (418, PermanentError, "fabric_refused"),
    ],
)
def test_refusals_say_who_must_do_something(api: FakeApi, status: int, kind: type[PortError], code: str) -> None:
    api.status = status
    api.at[LINKS] = f"<html>{SECRET}</html>".encode()
    api.headers = {"Location": f"{api.url}/elsewhere"}
    with pytest.raises(kind) as caught:
        reader(api).links()
    assert (caught.value.code == code or code == "missing_right") and SECRET not in str(caught.value)
    assert len(api.asked) == 1, "a redirect is not followed"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>log in</html>", b"{}", b'{"error": "busy"}', b"null", json.dumps([LINK]).encode()[:-20], b"\xff"],
)
def test_what_is_no_list_is_no_answer(api: FakeApi, body: bytes) -> None:
    api.at[LINKS] = api.at[ALARMS] = body
    for ask in (reader(api).links, reader(api).alarms):
        with pytest.raises(TemporaryError) as caught:
            ask()
        assert caught.value.code == "bad_answer"


def test_an_entry_that_cannot_be_read_costs_itself_alone(api: FakeApi) -> None:
    broken = [7, {}, {**LINK, "source_guid": "leaf"}, {**LINK, "destination_port": None}, {**LINK, "source_port": True}]
    api.at[LINKS] = json.dumps([*broken, LINK]).encode()
    found = reader(api).links()
    assert (found.links, found.refused) == ([ENDS], {"bad_link": 5})
    whole = {**ALARM, "related_object_name": "e41d2d0300167ee0"}
    api.at[ALARMS] = json.dumps([None, whole, {**ALARM, "event_type": "x"}, ALARM]).encode()
    seen = reader(api).alarms()
    assert (len(seen.alarms), seen.refused) == (1, {"bad_alarm": 2, "alarm_of_no_port": 1})


def test_time_and_size_have_an_end(api: FakeApi) -> None:
    with pytest.raises(PermanentError) as too_much:
        reader(api, max_bytes=10).links()
    assert too_much.value.code == "too_large"
    api.promised = 10_000
    with pytest.raises(TemporaryError) as cut:
        reader(api).links()
    assert cut.value.code == "cut_answer"
    api.promised, api.slowly = None, 0.02
    with pytest.raises(TemporaryError) as slow:
        reader(api).links()
    assert slow.value.code == "fabric_timeout"


def test_who_cannot_be_reached_or_trusted_is_said() -> None:
    with pytest.raises(TemporaryError) as away:
        ufm.reader(ufm.Connection("http://127.0.0.1:9")).links()
    assert away.value.code == "fabric_unreachable"
    with pytest.raises(PortError):
        ufm.reader(ufm.Connection("http://[::")).links()


def test_a_credential_that_cannot_be_read_asks_nobody(api: FakeApi) -> None:
    def unreadable() -> str:
        raise PermanentError("The fabric credential env:X cannot be read.", code="fabric_credential")

    with pytest.raises(PermanentError):
        ufm.reader(ufm.Connection(api.url, unreadable)).links()
    assert not api.asked


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*LINK, *ALARM, "guid", "number"]), inner, max_size=6)
    ),
)


@settings(deadline=None)
@given(st.lists(JSON, max_size=5) | JSON)
def test_any_json_is_links_and_alarms_or_refused(document: object) -> None:
    body = json.dumps(document).encode()
    for read in (decode.links, decode.alarms):
        try:
            found = read(body)
        except TemporaryError:
            assert not isinstance(document, list)
            continue
        seen = getattr(found, "links", None) or getattr(found, "alarms", [])
        assert isinstance(document, list) and len(seen) + found.refused.total() == len(document)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(body: bytes) -> None:
    for read in (decode.links, decode.alarms, decode.names_of_ports):
        try:
            read(body)
        except TemporaryError as error:
            assert error.code == "bad_answer"
