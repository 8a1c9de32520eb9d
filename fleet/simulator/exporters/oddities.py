"""What each lasting oddity of a GPU or a port does to the series that tell of it, as data.

It decides which series grow and which say something else. It refuses to know healthy values: those are the exporters'.
"""

from collections.abc import Mapping, Sequence

# oddity -> series -> what it says
SAYS: dict[str, dict[str, float]] = {
    "row_remap": {"DCGM_FI_DEV_ROW_REMAP_FAILURE": 1, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 9},
    "row_pending": {"DCGM_FI_DEV_ROW_REMAP_PENDING": 1, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 1},
    "pcie_width": {"DCGM_FI_DEV_PCIE_LINK_WIDTH": 8},
    "fabric_manager": {"DCGM_FI_DEV_FABRIC_MANAGER_STATUS": 4},
    "grey_gpu": {"DCGM_FI_DEV_SM_CLOCK": 990},
    "ib_rate": {"rate_bytes_per_second": 25000000000},
}
# oddity -> series -> by how much it grows each second
GROWS: dict[str, dict[str, float]] = {
    "pcie_replay": {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 4.0},
    "nvlink_errors": {
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 6.0,
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 0.2,
    },
    "ib_symbol": {"symbol_error_total": 15.0, "port_errors_received_total": 0.5},
    "nic_slow": {"port_transmit_wait_total": 2e7},
}


def altered(
    names: Sequence[str], values: tuple[object, ...], odd: Mapping[str, float], now: float
) -> tuple[object, ...]:
    """The values of a part with oddities, each of which began at its moment."""
    shown = list(values)
    for oddity, since in odd.items():
        for name, value in SAYS.get(oddity, {}).items():
            shown[names.index(name)] = value
        for name, rate in GROWS.get(oddity, {}).items():
            place = names.index(name)
            shown[place] = int(float(str(shown[place])) + max(0.0, now - since) * rate)
    return tuple(shown)
