"""Series as exporters of many versions write them: each lands on the right part, and nothing else does."""

from __future__ import annotations

import pytest

from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake

UUID = "GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7"
OLD = (
    f'gpu="3",uuid="{UUID}",device="nvidia3",modelName="Tesla V100-SXM2-16GB",container_name="",pod_name="",'
    'pod_namespace=""'
)
USUAL = (
    f'gpu="3",UUID="{UUID}",pci_bus_id="00000000:1B:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",'
    'Hostname="n1",DCGM_FI_DRIVER_VERSION="570.172.08",container="main",namespace="train",pod="llm-7-worker-3"'
)
NEW = USUAL.replace("Hostname=", "hostname=")
LINK = f'gpu_uuid="{UUID}",model_name="NVIDIA GB200",nvlink="7",hostname="n1"'
# series, value, canonical metric, device, sub
SERIES = (
    (f"DCGM_FI_DEV_GPU_TEMP{{{OLD}}}", "61", names.GPU_TEMP, UUID, ""),
    (f"DCGM_FI_DEV_GPU_TEMP{{{USUAL}}}", "61", names.GPU_TEMP, UUID, ""),
    (f"DCGM_FI_DEV_GPU_TEMP_CELSIUS{{{NEW}}}", "61", names.GPU_TEMP, UUID, ""),
    (f'DCGM_FI_DEV_XID_ERRORS{{{USUAL},err_code="79",err_msg="GPU has fallen off the bus"}}', "79", names.XID, UUID,
     ""),
    (f'DCGM_FI_DEV_XID_ERROR{{{NEW},err_code="0",err_msg="No Error"}}', "0", names.XID, UUID, ""),
    (f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{NEW}}}", "128", names.CLOCK_REASONS, UUID, ""),
    (f"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{OLD}}}", "4", names.CLOCK_REASONS, UUID, ""),
    (f"DCGM_FI_DEV_ROW_REMAP_FAILED{{{NEW}}}", "1", names.ROW_REMAP_FAILURE, UUID, ""),
    (f"DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL{{{NEW}}}", "3", names.RETIRED_DBE, UUID, ""),
    (f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{USUAL}}}", "12", names.NVLINK_CRC, UUID, ""),
    (f"DCGM_FI_DEV_NVLINK_ERROR_DL_CRC{{{USUAL}}}", "7", names.NVLINK_DL_CRC, UUID, ""),
    (f"DCGM_FI_DEV_NVLINK_REPLAY_TOTAL{{{NEW}}}", "7", names.NVLINK_DL_REPLAY, UUID, ""),
    (f"DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL{{{NEW}}}", "7", names.NVLINK_DL_RECOVERY, UUID, ""),
    (f"DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO{{{LINK}}}", "1.5e-14", names.NVLINK_BER, UUID, "7"),
    (f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{USUAL},clock_event="hw_thermal",window_size_in_ms="300000"}}', "4",
     names.CLOCK_EVENTS, UUID, "hw_thermal"),
    (f'DCGM_EXP_XID_ERRORS_COUNT{{{USUAL},window_size_in_ms="300000",xid="79"}}', "1", names.XID_COUNT, UUID, "79"),
    (f'DCGM_EXP_XID_ERRORS_COUNT{{{USUAL},window_size_in_ms="300000"}}', "0", names.XID_COUNT, UUID, ""),
    (f'DCGM_EXP_XID_ERRORS_TOTAL{{{NEW},xid="94",GPU_I_PROFILE="1g.10gb",GPU_I_ID="9"}}', "2", names.XID_TOTAL, UUID,
     "94/9"),
    (f'DCGM_EXP_P2P_STATUS{{{USUAL},peer_gpu="5",link_status="OK"}}', "0", names.P2P_STATUS, UUID, "5"),
    (f'DCGM_EXP_GPU_HEALTH_STATUS{{{USUAL},health_watch="MEM",health_error_code="DCGM_FR_OK"}}', "0",
     names.HEALTH_STATUS, UUID, "MEM"),
    (f'DCGM_EXP_GPU_HEALTH_STATUS{{{USUAL},health_watch="MEM",health_error_code="DCGM_FR_FAULTY_MEMORY"}}', "20",
     names.HEALTH_STATUS, UUID, "MEM|DCGM_FR_FAULTY_MEMORY"),
    (f'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{USUAL},GPU_I_PROFILE="1g.10gb",GPU_I_ID="9"}}', "0", names.ECC_DBE, UUID, "9"),
    ('DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS{nvswitch="nvswitch0",Hostname="n1"}', "20034", names.SWITCH_FATAL,
     "switch:nvswitch0", ""),
    ('node_infiniband_state_id{device="mlx5_0",port="1"}', "4", names.IB_STATE, "mlx5_0/1", ""),
    ('node_infiniband_out_of_sequence_packets_received_total{device="mlx5_bond_0",port="1"}', "9",
     names.IB_OUT_OF_ORDER, "mlx5_bond_0/1", ""),
    ('node_ethtool_received_prio3_pause{device="ens1f0np0"}', "15234", names.NIC_PAUSED[3], "nic:ens1f0np0", ""),
    ('node_ethtool_transmitted_prio3_pause{device="ens1f0np0"}', "8921", names.NIC_PAUSES[3], "nic:ens1f0np0", ""),
    ('node_ethtool_received_prio5_discards{device="ens1f0np0"}', "1", names.NIC_PRIO_DISCARDS[5], "nic:ens1f0np0", ""),
    ('node_ethtool_received_discards_phy{device="ens1f0np0"}', "1", names.NIC_DISCARDS, "nic:ens1f0np0", ""),
    ('node_ethtool_received_pcs_symbol_err_phy{device="ens1f0np0"}', "7", names.NIC_SYMBOL, "nic:ens1f0np0", ""),
    ('node_ethtool_link_down_events_phy{device="ens1f0np0"}', "2", names.NIC_LINK_DOWN, "nic:ens1f0np0", ""),
    ('node_ethtool_transmitted_pause_storm_error_events{device="ens1f0np0"}', "1", names.NIC_STORM, "nic:ens1f0np0",
     ""),
    ('node_network_carrier_changes_total{device="eth0"}', "2", names.NIC_CARRIER, "nic:eth0", ""),
    ('node_filesystem_device_error{device="nfs-01:/data",device_error="mountpoint timeout",fstype="nfs4",'
     'mountpoint="/data"}', "1", names.MOUNT_ERROR, "mount:/data", ""),
    ('node_filesystem_device_error{device="fs:/x",device_error="stale NFS file handle",fstype="nfs",mountpoint="/x"}',
     "1", names.MOUNT_ERROR, "mount:/x", ""),
    ('node_mountstats_nfs_operations_major_timeouts_total{export="nfs-01:/data",protocol="tcp",mountaddr="10.0.0.5",'
     'operation="READ"}', "3", names.NFS_MAJOR, "export:nfs-01:/data", "READ"),
    ('node_mountstats_nfs_operations_major_timeouts_total{export="nfs-01:/data",protocol="rdma",mountaddr="10.0.0.5",'
     'operation="READ"}', "3", names.NFS_MAJOR, "export:nfs-01:/data (rdma)", "READ"),
    ('node_edac_uncorrectable_errors_total{controller="0"}', "0", names.EDAC_UE, "dimm:0", ""),
    ("node_boot_time_seconds", "1.7e9", names.BOOT_TIME, "", ""),
    ('smartctl_device_critical_warning{device="nvme0"}', "4", names.SMART_WARNING, "disk:nvme0", ""),
    ('smartctl_device_smart_status{device="sda"}', "0", names.SMART_STATUS, "disk:sda", ""),
    ('nvme_percentage_used_ratio{device="nvme1n1"}', "0.93", names.NVME_USED, "disk:nvme1n1", ""),
    ('ipmi_sensor_state{id="52",name="PSU1 Status",type="Power Supply"}', "2", names.IPMI_SENSOR, "psu:PSU1 Status",
     ""),
    ('ipmi_fan_speed_state{id="1",name="FAN1"}', "0", names.IPMI_FAN, "fan:FAN1", ""),
    ('redfish_chassis_power_powersupply_health{chassis_id="1",power_supply="PSU1",power_supply_id="0"}', "3",
     names.REDFISH_PSU, "psu:PSU1", ""),
    ('lustre_health_check{component="health",target="lustre"}', "1", names.LUSTRE_HEALTH, "", ""),
    ('gpfs_state{state="active"}', "1", names.GPFS_STATE, "", "active"),
    ('gpfs_mount_status{mount="/gpfs/fs1"}', "1", names.GPFS_MOUNT, "mount:/gpfs/fs1", ""),
    ('weka_alerts{cluster="c1",title="DriveDown",severity="MAJOR"}', "1", names.WEKA_ALERTS, "", "DriveDown"),
    ('agg_nodes_in_invalid_state', "1", names.SHARP_INVALID, "", ""),
)  # fmt: skip
BASE = NEW.replace("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
# series of DCGM 4.7 in base units, value, canonical metric, the value that it is known by
SCALED = (
    ("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.73", names.GPU_UTIL, 73.0),
    ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", "1", "DCGM_FI_DEV_MEM_COPY_UTIL", 100.0),
    ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "1980000000", names.SM_CLOCK, 1980.0),
    ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "2619000000", "DCGM_FI_DEV_MEM_CLOCK", 2619.0),
    ("DCGM_FI_DEV_FB_FREE_BYTES", "85899345920", "DCGM_FI_DEV_FB_FREE", 81920.0),
    ("DCGM_FI_DEV_FB_USED_BYTES", "1073741824", "DCGM_FI_DEV_FB_USED", 1024.0),
    ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "5e9", names.NVLINK_TOTAL, 5000.0),
)
ENDINGS = ("\n", "\r\n", " 1764500000000\n")


def taken(body: str) -> tuple[Frame, dict[str, int]]:
    frame = Frame()
    intake = Intake(frame)
    target = frame.target("n1", "exporter", 15.0)
    intake.scraped(target, body.encode(), 1000.0, 1_764_500_000.0)
    return frame, dict(target.counts)


@pytest.mark.parametrize(("series", "value", "metric", "device", "sub"), SERIES, ids=lambda value: str(value)[:48])
def test_a_series_lands_on_its_part(series: str, value: str, metric: str, device: str, sub: str) -> None:
    for ending in ENDINGS:
        frame, _ = taken(f"# HELP x y\n# TYPE x gauge\n{series} {value}{ending}")
        (row,) = frame.rows(metric).tolist()
        assert (frame.device_of(row).key, frame.row_sub[row], frame.r.value[row]) == (device, sub, float(value))
        others = [name for name in names.METRICS if name != metric and len(frame.rows(name))]
        assert others == []


@pytest.mark.parametrize(
    "series",
    [
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{USUAL}}} 9223372036854775794",
        f"DCGM_FI_DEV_GPU_TEMP{{{USUAL}}} 9223372036854775794",
        f"DCGM_FI_DEV_GPU_TEMP{{{USUAL}}} 2147483632",
        f"DCGM_FI_DEV_GPU_TEMP{{{USUAL}}} NaN",
        f"DCGM_FI_DEV_GPU_TEMP{{{USUAL}}} 100000",
        f"DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO{{{LINK}}} 140737488355328.0",
        'node_network_carrier_changes_total{device="veth1a2b"} 900',
        'node_filesystem_device_error{device="tmpfs",device_error="",fstype="tmpfs",mountpoint="/run"} 1',
        'node_filesystem_device_error{device="x",device_error="permission denied",fstype="ext4",mountpoint="/x"} 1',
        'ipmi_sensor_state{id="9",name="CPU Temp",type="Temperature"} 2',
        'node_ethtool_received_bytes_total{device="eth0"} 5',
    ],
    ids=lambda value: str(value)[:48],
)
def test_what_is_no_measurement_of_ours_leaves_no_value(series: str) -> None:
    frame, _ = taken(series + "\n")
    for metric in names.METRICS:
        rows = frame.rows(metric)
        assert not (frame.r.mono[rows] > 0).any(), metric


@pytest.mark.parametrize(("name", "value", "metric", "known"), SCALED)
def test_a_value_is_known_in_one_unit_however_it_came(name: str, value: str, metric: str, known: float) -> None:
    assert {spelled for spelled, *_ in SCALED} == set(names.SCALED)
    frame = Frame()
    intake = Intake(frame)
    target = frame.target("n1", "dcgm", 15.0)
    before = f"{metric}{{{USUAL}}} {known}\n"
    after = f"DCGM_FI_DEV_GPU_TEMP{{{BASE}}} 61\n{name}{{{BASE}}} {value}\nother{{{BASE}}} 5\n"
    for turn, body in enumerate((before, after, after, f"{after}{name}{{{BASE}}} {value}\n", before, after)):
        assert intake.scraped(target, body.encode(), 1000.0 + turn, 1_764_500_000.0 + turn)
        (row,) = frame.rows(metric).tolist()
        assert frame.r.value[row] == pytest.approx(known)
        assert frame.r.mono[row] == 1000.0 + turn
    assert not set(target.rejects) - {"duplicate"}
    gpu = frame.device("n1", UUID)
    assert gpu is not None and gpu.attrs["driver"] == "570.172.08"


def test_a_percentage_under_the_name_of_a_ratio_is_not_believed() -> None:
    frame, _ = taken(f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{BASE}}} 97\n")
    assert not (frame.r.mono[frame.rows(names.GPU_UTIL)] > 0).any()
