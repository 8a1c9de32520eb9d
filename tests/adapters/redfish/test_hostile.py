"""A BMC that answers with too much, or with what is no resource, is a failure with a name and costs little."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from fleet.ports.errors import PortError, TemporaryError, UnknownOutcome
from fleet.ports.power import PowerPort, PowerVerb
from tests.adapters.redfish.conftest import Target
from tests.adapters.redfish.fake_bmc import Behaviour, FakeBmc, _Handler, answer

BIG = 64 << 20


def flood(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
    for _ in range(BIG >> 16):
        handler.wfile.write(b" " * (1 << 16))


def bomb(handler: _Handler) -> None:
    packed = gzip.compress(b" " * BIG)
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    )


def endless_header(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000)


def redirected(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: /redfish/v1/\r\n\r\n" + b" " * (16 << 20))


def deep(handler: _Handler) -> None:
    body = b'{"a":' * 100_000
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


@pytest.mark.parametrize("behaviour", [flood, bomb, endless_header, redirected, deep])
def test_an_answer_without_measure_is_a_failure_and_stays_small(
    power: PowerPort, target: Target, bmc: FakeBmc, behaviour: Behaviour
) -> None:
    bmc.on["/redfish/v1"] = behaviour
    power_target = target()
    tracemalloc.start()
    with pytest.raises(TemporaryError) as found:
        power.observe(power_target, 5.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(str(found.value)) < 500
    assert peak < 90 << 20  # the peer's own bomb is in it


def test_a_flood_after_the_reset_leaves_its_outcome_unknown(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.on["ComputerSystem.Reset"] = flood
    with pytest.raises(UnknownOutcome):
        power.reset(target(), PowerVerb.FORCE_RESTART, 5.0)
    assert len(bmc.resets) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"UUID": 7}, {"UUID": ["x"]}, {"SerialNumber": {}}, {"PowerState": 1}, {"Actions": []},
        {"Actions": {"#ComputerSystem.Reset": 7}}, {"BootProgress": "x"}, {"UUID": "\0"},
        {"UUID": None, "SerialNumber": "\ud800"},
    ],
)  # fmt: skip
def test_odd_values_match_nothing_and_fail_in_words(
    power: PowerPort, target: Target, bmc: FakeBmc, odd: dict[str, object]
) -> None:
    bmc.system.update(odd)
    try:
        seen = power.observe(target(), 3.0)
    except PortError as error:
        assert str(error)
    else:
        assert seen.uuid == target().pinned_uuid and "UUID" not in odd
    bmc.on["/1"] = answer(200, [1, 2])
    with pytest.raises(PortError):
        power.observe(target(), 3.0)
