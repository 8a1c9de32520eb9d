"""What a BareMetalHost may say, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.adapters.metal3 import host
from fleet.ports.provision import Phase, ProvisionTarget, bmc_place

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(["metadata", "spec", "status", "annotations", "provisioning", "image", "state", "consumerRef"])


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, JSON, max_size=4) | JSON, max_size=4))
def test_no_object_breaks_the_reading(raw: dict[str, Any]) -> None:
    seen = host.seen(raw)
    assert seen.phase in (Phase.OTHER, Phase.FAILED, Phase.WORKING, Phase.HALFWAY, Phase.PROVISIONED)
    host.matches(raw, ProvisionTarget("a", serial="b", bmc_addresses=("https://c",)))


@pytest.mark.parametrize(
    ("state", "image", "kept", "operational", "phase"),
    [
        ("provisioned", True, False, "OK", Phase.PROVISIONED),
        ("provisioned", False, True, "OK", Phase.WORKING),
        ("deprovisioning", False, True, "OK", Phase.WORKING),
        ("available", False, True, "OK", Phase.HALFWAY),
        ("available", False, False, "OK", Phase.OTHER),
        ("available", True, False, "OK", Phase.WORKING),
        ("provisioning", True, False, "OK", Phase.WORKING),
        ("provisioning", True, False, "error", Phase.FAILED),
        ("externally provisioned", True, False, "OK", Phase.OTHER),
        ("a state of tomorrow", True, False, "OK", Phase.OTHER),
    ],
)
def test_states(state: str, image: bool, kept: bool, operational: str, phase: Phase) -> None:
    raw = {
        "metadata": {"name": "h", "annotations": {host.IMAGE: "{}"} if kept else {}},
        "spec": {"image": {"url": "u"}} if image else {},
        "status": {"provisioning": {"state": state}, "operationalStatus": operational},
    }
    assert host.seen(raw).phase == phase


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redfish-virtualmedia+https://10.0.0.1/redfish/v1/Systems/1", "https://10.0.0.1"),
        ("redfish://10.0.0.1:8000/bmc/a/redfish/v1/Systems/1", "http://10.0.0.1:8000/bmc/a/"),
        ("ipmi://BMC-1.example.com", "bmc-1.example.com"),
    ],
)
def test_two_spellings_of_one_bmc(one: str, other: str) -> None:
    assert bmc_place(one) == bmc_place(other)


@pytest.mark.parametrize(
    ("provider_id", "named"),
    [
        ("metal3://metal3/host-1/machine-1", "host-1"),
        ("metal3://other/host-1/machine-1", ""),
        ("metal3://5b7b1b1e", ""),
        ("baremetal://dc1/x", ""),
        ("", ""),
    ],
)
def test_provider_ids(provider_id: str, named: str) -> None:
    assert host.named_by(provider_id, "metal3") == named


@pytest.mark.parametrize("unset", ["Not Specified", "To be filled by O.E.M.", "0000000", " "])
def test_a_serial_that_was_left_unset_proves_and_contradicts_nothing(unset: str) -> None:
    raw = {
        "metadata": {"name": "h"},
        "spec": {"bmc": {"address": "redfish+https://10.0.0.1/redfish/v1/Systems/1"}},
        "status": {"hardware": {"systemVendor": {"serialNumber": unset}}},
    }
    assert not host.matches(raw, ProvisionTarget("h", serial=unset))
    assert host.contradiction(raw, ProvisionTarget("h", serial="SN-1")) == ""
    assert host.matches(raw, ProvisionTarget("h", serial="SN-1", bmc_addresses=("https://10.0.0.1",)))
    raw["status"] = {"hardware": {"systemVendor": {"serialNumber": "sn-1"}}}
    assert host.matches(raw, ProvisionTarget("h", serial="SN-1"))
    assert host.contradiction(raw, ProvisionTarget("h", serial=unset)) == ""
