"""No power call reaches a machine that is not the pinned one."""

from __future__ import annotations

import pytest

from fleet.ports.errors import IdentityMismatch, PermanentError, PortError
from fleet.ports.power import PowerPort, PowerState, PowerVerb
from tests.adapters.redfish.conftest import Target
from tests.adapters.redfish.fake_bmc import SERIAL, UUID, FakeBmc, answer, hang, refusal, running
from tests.patience import PATIENCE

OTHER = "c7a5fdbd-cdaf-9455-926a-d65c16db1810"
SWAPPED = "bdfda5c7-afcd-5594-926a-d65c16db1809"  # the same bytes, the first three fields in the other order


def test_a_reading_tells_state_identity_and_last_reset(power: PowerPort, target: Target) -> None:
    seen = power.observe(target(), PATIENCE)
    assert (seen.state, seen.uuid, seen.serial) == (PowerState.ON, UUID, SERIAL)
    assert (seen.last_reset, seen.boot_progress) == ("2026-11-29T10:00:00Z", "OSRunning")
    assert seen.resets == ("ForceOff", "ForceRestart", "GracefulRestart", "On")
    assert seen.observed_at.tzinfo is not None


def test_a_reset_is_exactly_one_post_after_the_match(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    before = power.reset(target(pinned_serial=SERIAL), PowerVerb.FORCE_RESTART, PATIENCE)
    assert bmc.resets == [{"ResetType": "ForceRestart"}]
    assert before.last_reset == "2026-11-29T10:00:00Z"
    assert bmc.asked[-1].startswith("POST") and sum(asked.startswith("POST") for asked in bmc.asked) == 1


@pytest.mark.parametrize(
    ("uuid", "serial"),
    [
        (f" {UUID.upper()} ", ""),
        (f"{{{UUID}}}", SERIAL),
        ("", f" {SERIAL}  "),
        ("", SERIAL.lower()),
        (UUID.replace("-", ""), SERIAL),
        (SWAPPED, ""),
        (SWAPPED.upper(), SERIAL),
    ],
)
def test_case_space_and_the_order_of_bytes_do_not_make_another_machine(
    power: PowerPort, target: Target, bmc: FakeBmc, uuid: str, serial: str
) -> None:
    bmc.system["SerialNumber"] = f"{SERIAL}   "
    power.reset(target(pinned_uuid=uuid, pinned_serial=serial), PowerVerb.ON, PATIENCE)
    assert len(bmc.resets) == 1


@pytest.mark.parametrize(("uuid", "serial"), [(OTHER, ""), ("", "SN-0002"), (UUID, "SN-0002"), (OTHER, SERIAL)])
def test_a_pin_that_differs_stops_every_call(
    power: PowerPort, target: Target, bmc: FakeBmc, uuid: str, serial: str
) -> None:
    wrong = target(pinned_uuid=uuid, pinned_serial=serial)
    for call in (lambda: power.observe(wrong, 3), lambda: power.reset(wrong, PowerVerb.FORCE_RESTART, PATIENCE)):
        with pytest.raises(IdentityMismatch) as caught:
            call()
        assert "gpu-1" in str(caught.value) and SERIAL in str(caught.value)
    assert bmc.resets == []


def test_a_machine_that_does_not_tell_who_it_is_is_no_match(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.system.update(UUID=None, SerialNumber="")
    with pytest.raises(IdentityMismatch):
        power.reset(target(pinned_serial=SERIAL), PowerVerb.ON, PATIENCE)
    assert bmc.resets == []


def test_nothing_pinned_is_readable_but_never_reset(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    unpinned = target(pinned_uuid="", pinned_serial=" ")
    assert power.observe(unpinned, 3).uuid == UUID
    with pytest.raises(PermanentError) as caught:
        power.reset(unpinned, PowerVerb.ON, PATIENCE)
    assert caught.value.code == "not_pinned" and bmc.resets == []


def test_among_several_systems_the_pinned_one_is_reset(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.add("2", "11111111-2222-3333-4444-555555555555", "SN-0002")
    assert power.observe(target(pinned_uuid="", pinned_serial="SN-0002"), PATIENCE).serial == "SN-0002"
    power.reset(target(pinned_uuid="11111111-2222-3333-4444-555555555555"), PowerVerb.ON, PATIENCE)
    assert "/Systems/2/" in bmc.asked[-1]
    with pytest.raises(IdentityMismatch):
        power.observe(target(pinned_uuid="", pinned_serial="SN-0003"), PATIENCE)
    with pytest.raises(PermanentError) as caught:
        power.observe(target(pinned_uuid=""), PATIENCE)
    assert caught.value.code == "bmc_ambiguous"


def test_the_path_of_the_address_is_where_the_service_lies(power: PowerPort, target: Target) -> None:
    with running(FakeBmc(prefix="/bmc/gpu-1")) as other:
        spellings = ("", "/", "/redfish/v1", "/redfish/v1/Systems/1")
        for spelled in spellings:
            power.reset(target(address=other.address + spelled), PowerVerb.ON, PATIENCE)
        assert other.asked[0] == "GET /bmc/gpu-1/redfish/v1/" and len(other.resets) == len(spellings)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("Off", "off"),
        ("PoweringOn", "transition"),
        ("PoweringOff", "transition"),
        ("Paused", "unknown"),
        (None, "unknown"),
    ],
)
def test_power_states(power: PowerPort, target: Target, bmc: FakeBmc, told: str | None, state: str) -> None:
    bmc.system.update(PowerState=told, LastResetTime=None)
    seen = power.observe(target(), PATIENCE)
    assert (seen.state, seen.last_reset) == (state, None)


def test_a_verb_that_is_not_offered_is_not_sent(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    with pytest.raises(PermanentError) as caught:
        power.reset(target(), PowerVerb.POWER_CYCLE, PATIENCE)
    assert caught.value.code == "reset_unsupported" and "ForceRestart" in str(caught.value)
    assert bmc.resets == []


def test_a_bmc_that_tells_no_reset_types_is_asked_anyway(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    action = bmc.system["Actions"]["#ComputerSystem.Reset"]
    del action["ResetType@Redfish.AllowableValues"]
    assert power.observe(target(), PATIENCE).resets == ()
    action["@Redfish.ActionInfo"] = f"{bmc.system['@odata.id']}/ResetActionInfo"
    assert power.observe(target(), PATIENCE).resets == ()
    power.reset(target(), PowerVerb.POWER_CYCLE, PATIENCE)
    assert bmc.resets == [{"ResetType": "PowerCycle"}]


def test_a_system_without_a_reset_action_cannot_be_reset(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.system["Actions"] = {}
    with pytest.raises(PermanentError) as caught:
        power.reset(target(), PowerVerb.ON, PATIENCE)
    assert caught.value.code == "reset_unsupported"


@pytest.mark.parametrize(
    ("uuid", "serial"),
    [
        ("", "To be filled by O.E.M."),
        ("", "Default string"),
        ("", "NOT SPECIFIED"),
        ("", "0000000000"),
        ("", "........"),
        ("00000000-0000-0000-0000-000000000000", ""),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "None"),
        ("03000200-0400-0500-0006-000700080009", "System Serial Number"),
    ],
)
def test_what_a_maker_left_unset_is_nobodys_identity(
    power: PowerPort, target: Target, bmc: FakeBmc, uuid: str, serial: str
) -> None:
    """Thousands of boards tell the same: it confirms nothing, and beside a true value it contradicts nothing."""
    bmc.system.update(UUID=uuid, SerialNumber=serial)
    with pytest.raises(PermanentError) as caught:
        power.reset(target(pinned_uuid=uuid, pinned_serial=serial), PowerVerb.ON, PATIENCE)
    assert caught.value.code == "not_pinned"
    for pins in ({"pinned_uuid": UUID, "pinned_serial": ""}, {"pinned_uuid": "", "pinned_serial": SERIAL}):
        with pytest.raises(IdentityMismatch):
            power.reset(target(**pins), PowerVerb.ON, PATIENCE)
    assert bmc.resets == []
    bmc.system.update(UUID=UUID)
    power.reset(target(pinned_serial=SERIAL), PowerVerb.ON, PATIENCE)
    assert len(bmc.resets) == 1


def test_a_system_that_cannot_be_read_hides_no_other(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    """A baseboard of GPUs answers only while its host is on, and its host must be switched on all the same."""
    bmc.systems = {path.replace("/1", "/0_Baseboard"): dict(one) for path, one in bmc.systems.items()} | bmc.systems
    bmc.on["/Systems/0_Baseboard"] = refusal(503, "Indicates that HOSTBMC fails to communicate with HMC")
    power.reset(target(pinned_uuid=UUID), PowerVerb.ON, PATIENCE)
    assert len(bmc.resets) == 1 and "/Systems/1/" in bmc.asked[-1]
    with pytest.raises(PortError) as caught:
        power.reset(target(pinned_uuid=OTHER, pinned_serial=""), PowerVerb.ON, PATIENCE)
    assert caught.value.code == "bmc_busy"  # it may have been the one
    bmc.on["/Systems/0_Baseboard"] = hang
    with pytest.raises(PortError):
        power.reset(target(pinned_uuid=OTHER), PowerVerb.ON, 1.0)
    assert len(bmc.resets) == 1


def test_a_serial_that_several_systems_share_is_not_enough(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.add("2", OTHER, SERIAL)
    with pytest.raises(PermanentError) as caught:
        power.reset(target(pinned_uuid="", pinned_serial=SERIAL), PowerVerb.ON, PATIENCE)
    assert caught.value.code == "bmc_ambiguous" and bmc.resets == []
    power.reset(target(pinned_uuid=OTHER, pinned_serial=SERIAL), PowerVerb.ON, PATIENCE)
    assert "/Systems/2/" in bmc.asked[-1]
    bmc.on["/Systems/2"] = refusal(503, "not ready")
    with pytest.raises(PermanentError) as caught:
        power.reset(target(pinned_uuid="", pinned_serial=SERIAL), PowerVerb.ON, PATIENCE)
    assert caught.value.code == "bmc_ambiguous" and len(bmc.resets) == 1


def test_systems_on_further_pages_are_found(power: PowerPort, target: Target, bmc: FakeBmc) -> None:
    bmc.add("2", OTHER, "SN-0002")
    first, second = ([{"@odata.id": path}] for path in bmc.systems)
    root = bmc.root
    page = {"@odata.id": f"{root}/Systems", "Name": "Systems", "Members": first, "Members@odata.count": 2}
    bmc.on["/Systems"] = answer(200, {**page, "Members@odata.nextLink": f"{root}/Systems?$skip=1"})
    bmc.on["/Systems?$skip=1"] = answer(200, {**page, "Members": second})
    assert power.observe(target(pinned_uuid=OTHER, pinned_serial=""), PATIENCE).serial == "SN-0002"
    with pytest.raises(PermanentError) as caught:
        power.observe(target(pinned_uuid="", pinned_serial=""), PATIENCE)  # the first page alone would look like one
    assert caught.value.code == "bmc_ambiguous"
    for elsewhere in ("https://elsewhere.example/redfish/v1/Systems", "//elsewhere.example/x", f"{root}/Systems"):
        bmc.on["/Systems"] = answer(200, {**page, "Members@odata.nextLink": elsewhere})
        with pytest.raises(PermanentError):
            power.observe(target(pinned_uuid=OTHER), PATIENCE)
