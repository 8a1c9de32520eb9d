"""What an Ironic may answer, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.adapters import ironic
from fleet.adapters.ironic import client
from fleet.adapters.ironic.driver import IronicProvisioner
from fleet.ports.errors import (
    Conflict,
    IdentityMismatch,
    MissingRight,
    PermanentError,
    PortError,
    TemporaryError,
    UnknownOutcome,
)
from fleet.ports.provision import Phase, ProvisionTarget
from tests.adapters.kubernetes.scripted import Script, answer, cut, hang, serving, truncated

UUID, INSTANCE = "48d0e147-3847-4771-8a76-970a5a07dd4b", "7f0c1c5a-0000-4000-8000-000000000001"
NODE, STATES = "/v1/nodes/gpu-1", f"/v1/nodes/{UUID}/states/provision"
TARGET = ProvisionTarget("gpu-1", serial="SN-1", bmc_addresses=("https://10.0.0.1",))


def a_node(**fields: Any) -> dict[str, Any]:
    return {
        "uuid": UUID, "name": "gpu-1", "provision_state": "active", "provision_updated_at": "2026-11-30T07:56:22+00:00",
        "last_error": None, "instance_info": {"image_source": "http://images/gpu.qcow2"}, "maintenance": False,
        "driver_info": {"redfish_address": "https://10.0.0.1"}, "extra": {"serial": "SN-1"}, **fields,
    }  # fmt: skip


def fault(code: int, text: str) -> Any:
    """Ironic's errors are JSON within JSON."""
    return answer(code, {"error_message": json.dumps({"faultcode": "Client", "faultstring": text})})


@pytest.fixture
def script() -> Script:
    found = Script()
    found.on(f"GET {NODE}", answer(200, a_node()))
    found.on(f"PUT {STATES}", answer(202, b""))
    return found


@pytest.fixture
def address(script: Script) -> Iterator[str]:
    with serving(script) as found:
        yield found


def provisioner(address: str, behaviour: Any = None) -> IronicProvisioner:
    """With patience for a machine that is busy, and little for a server that never answers."""
    return ironic.provisioner(ironic.Connection(address, lambda: "", timeout=0.3 if behaviour is hang else 20.0))


@pytest.fixture
def port(address: str) -> IronicProvisioner:
    return provisioner(address)


def test_a_rebuild_is_sent_once_to_the_uuid(script: Script, port: IronicProvisioner) -> None:
    seen = port.observe(TARGET)
    assert (seen.phase, seen.host, seen.image) == (Phase.PROVISIONED, UUID, "http://images/gpu.qcow2")
    port.submit(TARGET, "op-1", seen)
    (sent,) = script.sent("PUT", STATES)
    assert sent.body == {"target": "rebuild"}
    assert sent.headers["X-OpenStack-Ironic-API-Version"] == "1.81"


@pytest.mark.parametrize(
    ("secret", "header", "value"),
    [("Basic YTpi", "Authorization", "Basic YTpi"), ("Bearer t0ken", "X-Auth-Token", "t0ken")],
)
def test_credentials(script: Script, address: str, secret: str, header: str, value: str) -> None:
    ironic.provisioner(ironic.Connection(f"{address}/v1/", lambda: secret)).observe(TARGET)
    assert script.asked[0].headers[header] == value
    assert len({"Authorization", "X-Auth-Token"} & set(script.asked[0].headers)) == 1


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("active", Phase.PROVISIONED), ("deploying", Phase.WORKING), ("wait call-back", Phase.WORKING),
        ("deploy failed", Phase.FAILED), ("error", Phase.FAILED), ("available", Phase.OTHER), ("rescue", Phase.OTHER),
        ("a state of tomorrow", Phase.OTHER), (None, Phase.OTHER),
    ],
)  # fmt: skip
def test_states(script: Script, port: IronicProvisioner, state: Any, phase: Phase) -> None:
    script.on(f"GET {NODE}", answer(200, a_node(provision_state=state, last_error="boom\n  at step x")))
    seen = port.observe(TARGET)
    assert (seen.phase, seen.error) == (phase, "boom at step x")


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        (fault(409, "Node is locked by host lab"), Conflict, "provider_locked"),
        (
            fault(400, "It cannot be performed in state deploying"),
            Conflict,
            "provision_state",
        ),
        (fault(401, "no"), PermanentError, "provider_credential"),
        (fault(403, "no"), MissingRight, "missing_right"),
        (fault(503, "No valid host"), TemporaryError, "provider_busy"),
        (fault(500, "cannot access local variable 'auto_lessee'"), UnknownOutcome, "unknown_outcome"),
        (answer(200, b"<html>a proxy</html>"), None, ""),
        (hang, UnknownOutcome, "unknown_outcome"),
        (cut, UnknownOutcome, "unknown_outcome"),
    ],
)
def test_a_request_that_fails_is_sent_once_and_named(
    script: Script, address: str, behaviour: Any, kind: type[PortError] | None, code: str
) -> None:
    script.on(f"PUT {STATES}", behaviour)
    seen = provisioner(address).observe(TARGET)
    port = provisioner(address, behaviour)
    if kind is None:
        port.submit(TARGET, "op-1", seen)
    else:
        with pytest.raises(kind) as caught:
            port.submit(TARGET, "op-1", seen)
        assert caught.value.code == code
    assert len(script.sent("PUT", STATES)) == 1


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (fault(404, "Node gpu-1 could not be found"), PermanentError),
        (fault(406, "Version 1.81 is not supported"), PermanentError),
        (fault(500, "boom"), TemporaryError),
        (answer(200, b"not json"), TemporaryError),
        (answer(200, [1]), TemporaryError),
        (answer(302, b"", Location="http://127.0.0.1:9/"), PermanentError),
        (truncated, TemporaryError),
        (hang, TemporaryError),
        (cut, TemporaryError),
    ],
)
def test_a_reading_that_fails_is_no_unknown_outcome(
    script: Script, address: str, behaviour: Any, kind: type[PortError]
) -> None:
    script.on(f"GET {NODE}", behaviour)
    with pytest.raises(kind):
        provisioner(address, behaviour).observe(TARGET)


def test_an_answer_without_end_is_not_kept(
    script: Script, port: IronicProvisioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = port.observe(TARGET)
    monkeypatch.setattr(client, "MAX_BODY", 1000)
    script.on(f"GET {NODE}", answer(200, a_node(description="x" * 2000)))
    with pytest.raises(TemporaryError, match="too_large"):
        port.observe(TARGET)
    script.on(f"PUT {STATES}", answer(202, b"x" * 2000))
    script.on(f"GET {NODE}", answer(200, a_node()))
    with pytest.raises(UnknownOutcome):
        port.submit(TARGET, "op-1", seen)


def test_a_node_that_changed_since_it_was_read_is_not_rebuilt(script: Script, port: IronicProvisioner) -> None:
    seen = port.observe(TARGET)
    script.on(f"GET {NODE}", answer(200, a_node(provision_updated_at="2026-11-30T08:00:00+00:00")))
    with pytest.raises(Conflict):
        port.submit(TARGET, "op-1", seen)
    assert script.sent("PUT", STATES) == []


def test_an_ironic_that_is_not_there_is_temporary() -> None:
    port = ironic.provisioner(ironic.Connection("http://127.0.0.1:9", lambda: ""))
    with pytest.raises(TemporaryError) as caught:
        port.observe(TARGET)
    assert caught.value.code == "provider_unreachable"


@pytest.mark.parametrize(
    ("fields", "target", "kind"),
    [
        ({"extra": {"serial": "SN-2"}}, {}, IdentityMismatch),
        ({"extra": {}, "driver_info": {}}, {}, PermanentError),
        ({"extra": {}, "driver_info": {"redfish_address": "https://10.0.0.2"}}, {}, PermanentError),
        ({"extra": {"serial": "sn-1 "}, "driver_info": {}}, {}, None),
        ({"extra": {"serial": "Default string"}, "driver_info": {}}, {}, PermanentError),
        ({"extra": {"serial": "Not Specified"}}, {}, None),
        ({"extra": {}}, {}, None),
        ({"extra": {}, "driver_info": {"ipmi_address": "10.0.0.1"}}, {}, None),
    ],
)
def test_identity(
    script: Script, port: IronicProvisioner, fields: Any, target: Any, kind: type[PortError] | None
) -> None:
    script.on(f"GET {NODE}", answer(200, a_node(**fields)))
    if kind is None:
        assert port.observe(TARGET).host == UUID
        return
    with pytest.raises(kind):
        port.observe(TARGET)


def test_the_serial_that_an_inspection_found_counts(script: Script, port: IronicProvisioner) -> None:
    script.on(f"GET {NODE}", answer(200, a_node(extra={}, driver_info={})))
    vendor = {"inventory": {"system_vendor": {"serial_number": "SN-1"}}}
    script.on(f"GET /v1/nodes/{UUID}/inventory", answer(200, vendor))
    assert port.observe(TARGET).host == UUID


def test_the_instance_of_the_provider_id_finds_and_proves(script: Script, port: IronicProvisioner) -> None:
    row = a_node(name="rack-7-slot-3", extra={}, driver_info={}, instance_uuid=INSTANCE)
    script.on("GET /v1/nodes/detail", answer(200, {"nodes": [row]}), answer(200, {"nodes": []}))
    about = ProvisionTarget("gpu-1", provider_id=f"openstack:///{INSTANCE}")
    assert port.observe(about).host == UUID
    assert script.asked[0].query == {"instance_uuid": INSTANCE}
    with pytest.raises(PermanentError, match="0 nodes"):
        port.observe(about)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"maintenance": True, "maintenance_reason": "fan"}, "maintenance (fan)"),
        ({"protected": True}, "protected"),
        ({"instance_info": {}}, "no image"),
    ],
)
def test_what_may_not_be_rebuilt_is_said(
    script: Script, port: IronicProvisioner, fields: dict[str, Any], word: str
) -> None:
    script.on(f"GET {NODE}", answer(200, a_node(**fields)))
    assert word in port.observe(TARGET).refusals[0]
