"""One name for one thing."""

from __future__ import annotations

import pytest

from fleet.telemetry import names


@pytest.mark.parametrize(
    "text", ["0000:1b:00", "00000000:1B:00.0", "PCI:0000:1b:00", "0000:1B:00.0", "1b:00.0", " 0000:1b:00 "]
)
def test_pci_addresses_have_one_form(text: str) -> None:
    assert names.pci(text) == "0000:1b:00"


def test_a_pci_domain_counts() -> None:
    assert names.pci("00000001:1B:00.0") == "0001:1b:00"
    assert names.pci("00010000:1B:00.0") == "10000:1b:00"


def test_what_is_no_address_stays_what_it_is() -> None:
    assert names.pci("Nonsense") == "nonsense"


def test_every_alias_leads_to_a_metric_we_keep() -> None:
    assert set(names.ALIASES.values()) <= set(names.METRICS)
    assert not set(names.ALIASES) & set(names.METRICS)
    assert {name for name, _ in names.SCALED.values()} <= set(names.METRICS)
    assert not set(names.SCALED) & {*names.ALIASES, *names.METRICS}
