"""Every way a BMC can fail has its own name, and none lets a second reset out or keeps the caller waiting."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from fleet.ports.errors import PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.power import BmcTarget, PowerPort, PowerVerb
from tests.adapters.redfish import fake_bmc
from tests.adapters.redfish.conftest import Target
from tests.adapters.redfish.fake_bmc import PASSWORD, PEM, Behaviour, FakeBmc, answer, refusal, running
from tests.patience import PATIENCE, left_in_time, until

RESET = "ComputerSystem.Reset"


def failure(power: PowerPort, target: BmcTarget, seconds: float = PATIENCE) -> PortError:
    with pytest.raises(PortError) as caught:
        power.reset(target, PowerVerb.FORCE_RESTART, seconds)
    assert PASSWORD not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        (refusal(401, "no"), PermanentError, "bmc_credential"),
        (refusal(403, "no"), PermanentError, "bmc_credential"),
        (refusal(404, "no"), PermanentError, "bmc_not_found"),
        (refusal(500, "InternalError"), TemporaryError, "bmc_error"),
        (refusal(503, "RAC0218: all sessions in use"), TemporaryError, "bmc_busy"),
        (refusal(429, "slow down"), TemporaryError, "bmc_busy"),
        (answer(200, ["not", "a", "service"]), TemporaryError, "bmc_error"),
        (fake_bmc.garbage, TemporaryError, "bmc_error"),
        (fake_bmc.cut, TemporaryError, "bmc_unreachable"),
        (answer(302, None, Location="/redfish/v1/"), PermanentError, "bmc_redirect"),
    ],
)
def test_before_a_reset_is_sent(
    power: PowerPort, target: Target, bmc: FakeBmc, behaviour: Behaviour, kind: type[PortError], code: str
) -> None:
    bmc.on["/redfish/v1"] = behaviour
    error = failure(power, target())
    assert (type(error), error.code) == (kind, code)
    assert bmc.resets == []


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        (refusal(500, "InternalError"), TemporaryError, "bmc_error"),
        (refusal(409, "ResourceInUse"), TemporaryError, "bmc_busy"),
        (refusal(503, "busy"), TemporaryError, "bmc_busy"),
        (refusal(400, "iDRAC SYS518 not ready"), TemporaryError, "bmc_busy"),
        (refusal(500, "iDRAC SYS518 not ready"), TemporaryError, "bmc_error"),
        (refusal(400, "ActionParameterNotSupported"), PermanentError, "bmc_refused"),
        (refusal(501, "not implemented"), PermanentError, "reset_unsupported"),
        (refusal(502, "bad gateway"), UnknownOutcome, "unknown_outcome"),
        (fake_bmc.cut, UnknownOutcome, "unknown_outcome"),
        (answer(307, None, Location="/elsewhere"), PermanentError, "bmc_redirect"),
    ],
)
def test_a_reset_that_fails_was_sent_once(
    power: PowerPort, target: Target, bmc: FakeBmc, behaviour: Behaviour, kind: type[PortError], code: str
) -> None:
    bmc.on[RESET] = behaviour
    error = failure(power, target())
    assert (type(error), error.code) == (kind, code)
    assert len(bmc.resets) == 1


@pytest.mark.parametrize("behaviour", [fake_bmc.hang, fake_bmc.drip, fake_bmc.drip_body])
def test_a_reset_without_an_answer_has_an_unknown_outcome(
    power: PowerPort, target: Target, bmc: FakeBmc, behaviour: Behaviour
) -> None:
    bmc.on[RESET] = behaviour
    with left_in_time():
        assert type(failure(power, target(), 1.0)) is UnknownOutcome
    assert len(bmc.resets) == 1


@pytest.mark.parametrize("behaviour", [fake_bmc.hang, fake_bmc.drip, fake_bmc.drip_body])
@pytest.mark.parametrize("where", ["/redfish/v1", "/Systems", "/Systems/1"])
def test_the_deadline_holds_for_the_whole_conversation(
    power: PowerPort, target: Target, bmc: FakeBmc, behaviour: Behaviour, where: str
) -> None:
    bmc.on[where] = behaviour
    with left_in_time():
        error = failure(power, target(), 0.3)
    assert (type(error), error.code) == (TemporaryError, "bmc_timeout")
    assert bmc.resets == []


def test_slow_answers_share_one_deadline(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    def slowly(handler: fake_bmc._Handler) -> None:
        time.sleep(0.25)
        answer(200, {"Id": "Root", "Systems": {"@odata.id": f"{bmc.root}/Systems"}})(handler)

    def slow_list(handler: fake_bmc._Handler) -> None:
        time.sleep(0.25)
        answer(200, {"Members": [{"@odata.id": path} for path in bmc.systems]})(handler)

    bmc.on.update({"/redfish/v1": slowly, "/Systems": slow_list})
    with left_in_time():
        assert failure(power, target(), 0.4).code == "bmc_timeout"


def test_a_dripping_bmc_keeps_no_thread(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.on["/redfish/v1"] = fake_bmc.drip
    failure(power, target(), 0.2)
    with left_in_time():
        until(lambda: not any(thread.name == "bmc-call" for thread in threading.enumerate()))


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://no-such-bmc.invalid"])
def test_a_bmc_that_is_not_there_is_unreachable(power: PowerPort, target: Target, address: str) -> None:
    error = failure(power, target(address=address))
    assert (type(error), error.code) == (TemporaryError, "bmc_unreachable")


@pytest.mark.parametrize("address", ["", "gpu-1-bmc", "ftp://bmc", "http://user:word@bmc", "http://bmc:port"])
def test_an_address_that_is_none_is_named(power: PowerPort, target: Target, address: str) -> None:
    error = failure(power, target(address=address))
    assert (type(error), error.code) == (PermanentError, "bmc_address")
    assert "word" not in str(error)


def test_a_certificate_is_checked_against_the_bundle_of_the_bmc(power: PowerPort, target: Target) -> None:
    with running(FakeBmc(), tls=True) as secure:
        error = failure(power, target(address=secure.address))
        assert (type(error), error.code) == (PermanentError, "bmc_certificate")
        assert "not trusted" in str(error) and "ca" in str(error)
        assert secure.resets == []
        power.reset(target(address=secure.address, verify=str(PEM)), PowerVerb.ON, PATIENCE)
        power.reset(target(address=secure.address, verify=False), PowerVerb.ON, PATIENCE)
        assert len(secure.resets) == 2


def test_a_missing_bundle_and_a_plain_port_are_certificate_trouble(
    power: PowerPort, target: Target, bmc: FakeBmc
) -> None:
    with running(FakeBmc(), tls=True) as secure:
        error = failure(power, target(address=secure.address, verify="/none/ca.pem"))
    assert error.code == "bmc_certificate" and "/none/ca.pem" in str(error)
    assert failure(power, target(address=bmc.address.replace("http:", "https:"))).code == "bmc_certificate"


def test_a_tls_bmc_that_hangs_is_left_in_time(power: PowerPort, target: Target) -> None:
    with running(FakeBmc(), tls=True) as secure:
        secure.on[RESET] = fake_bmc.drip
        with left_in_time():
            assert type(failure(power, target(address=secure.address, verify=False), 1.0)) is UnknownOutcome


def test_the_password_is_in_no_log(
    power: PowerPort, target: Target, bmc: FakeBmc, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    power.reset(target(), PowerVerb.ON, PATIENCE)
    bmc.on[RESET] = refusal(401, "no")
    failure(power, target())
    assert caplog.records
    assert PASSWORD not in caplog.text and PASSWORD not in repr(target())
