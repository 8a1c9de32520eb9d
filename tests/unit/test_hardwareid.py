"""Serials and UUIDs: which say something, and which say the same."""

from __future__ import annotations

import pytest

from fleet.ports import hardwareid

UUID = "bdc26000-8930-11eb-8000-7cc255106b08"


@pytest.mark.parametrize(
    "value",
    [
        None, "", "  ", "None", "N/A", "NULL", "Not Specified", "NOT AVAILABLE", "Default string",
        "System Serial Number",
        "To be filled by O.E.M.", "To Be Filled By O.E.M", "Chassis Serial Number", "0", "00000000", "0000-0000",
        "XXXXXXXX", "........", "----", "0123456789", "123456789", "Unknown", "Enter  Serial",
    ],
)  # fmt: skip
def test_what_is_left_unset_is_no_serial(value: str | None) -> None:
    assert hardwareid.serial(value) == ""
    assert not hardwareid.same_serial(value or "", value or "")


@pytest.mark.parametrize(
    "value", ["S1", "J3012345", "CZ2 0123", "MXQ00000AB", "E262335X2A00152C", "1234567891", "AB00"]
)
def test_a_serial_is_kept_as_it_is_told(value: str) -> None:
    assert hardwareid.serial(f" {value}\t") == value
    assert hardwareid.same_serial(value, value.lower()) and not hardwareid.same_serial(value, value + "1")


@pytest.mark.parametrize(
    "value",
    [
        None, "", "0" * 32, "ffffffff-ffff-ffff-ffff-ffffffffffff", "FFFFFFFFFF-FFFFFFFF-FFFFFF-FFFFFFFF",
        "03000200-0400-0500-0006-000700080009", "{00020003-0004-0005-0006-000700080009}", "Not Specified",
    ],
)  # fmt: skip
def test_what_many_machines_tell_is_no_uuid(value: str | None) -> None:
    assert hardwareid.uuid(value) == ""
    assert not hardwareid.same_uuid(value or "", value or "")


@pytest.mark.parametrize(
    "other", [UUID.upper(), f"{{{UUID}}}", UUID.replace("-", ""), "0060c2bd-3089-eb11-8000-7cc255106b08"]
)
def test_one_uuid_in_every_spelling(other: str) -> None:
    assert hardwareid.same_uuid(UUID, other) and hardwareid.same_uuid(other, UUID)


@pytest.mark.parametrize(
    "other",
    ["0060c2bd-8930-11eb-8000-7cc255106b08", "bdc26000-8930-11eb-0080-7cc255106b08", UUID[:-1] + "9", "", "nonsense"],
)
def test_another_uuid_is_another(other: str) -> None:
    assert not hardwareid.same_uuid(UUID, other)
