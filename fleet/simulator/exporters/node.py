"""What node-exporter says about a host: InfiniBand, file systems, NFS, pressure, clock, sensors.

It decides series and values; what never changes is written once for the whole fleet. It refuses series a node without
the hardware would not have.
"""

import math
from functools import lru_cache

from fleet.simulator.exporters.oddities import altered
from fleet.simulator.host import PORTS, Host, Port
from fleet.simulator.pace import waited
from fleet.simulator.storage import MOUNTS, Storage

IB = "node_infiniband_"
IB_STATES = ("state_id", "physical_state_id", "rate_bytes_per_second")
IB_COUNTERS = (
    "link_downed_total",
    "link_error_recovery_total",
    "symbol_error_total",
    "port_errors_received_total",
    "port_receive_remote_physical_errors_total",
    "local_link_integrity_errors_total",
    "excessive_buffer_overrun_errors_total",
    "port_discards_transmitted_total",
    "port_transmit_wait_total",
    "port_data_received_bytes_total",
    "port_data_transmitted_bytes_total",
    "vl15_dropped_total",
    "rnr_nak_retry_packets_received_total",
    "local_ack_timeout_errors_total",
    "out_of_sequence_packets_received_total",
)
SIZES = {"/": (1.9e12, 1.2e12), "/raid": (2.8e13, 1.9e13), "/data": (5e14, 1.4e14), "/home": (1e14, 6e13)}
DISKS = {"/": "/dev/nvme0n1p2", "/raid": "/dev/md0"}
IB_NAMES = (*IB_STATES, *IB_COUNTERS)
HEALTHY = Port()


@lru_cache(maxsize=4)
def _infiniband() -> str:
    lines = []
    for name in IB_STATES:
        lines.append(f"# TYPE {IB}{name} gauge")
        lines += [f'{IB}{name}{{device="mlx5_{i}",port="1"}} %s' for i in range(PORTS)]
    for name in IB_COUNTERS:
        lines.append(f"# TYPE {IB}{name} counter")
        lines += [f'{IB}{name}{{device="mlx5_{i}",port="1"}} %s' for i in range(PORTS)]
    info = 'board_id="MT_0000000838",firmware_version="28.43.2026",hca_type="MT4129"'
    lines.append(f"# TYPE {IB}info gauge")
    lines += [f'{IB}info{{{info},device="mlx5_{i}"}} 1' for i in range(PORTS)]
    return "\n".join(lines) + "\n"


def text(host: Host, storage: Storage, now: float, skew: float) -> str:
    ports = [host.ports.get(i, HEALTHY) for i in range(PORTS)]
    rows = [_port(host, i, port, now) for i, port in enumerate(ports)]
    filling = tuple(value for column in zip(*rows, strict=True) for value in column)
    hung = any(storage.hung_since(host, mount) for mount in MOUNTS)
    parts = (_filesystems(host, storage), _nfs(host, storage, now), _system(host, now, skew, hung), _sensors(host, now))
    return _infiniband() % filling + "".join(parts)


def _port(host: Host, index: int, port: Port, now: float) -> tuple[object, ...]:
    busy = bool(host.owners[index % len(host.owners)])
    since = max(0.0, now - host.booted_at)
    moved = int(max(0.0, since - waited(host, now)) * (2.2e10 if busy else 2e4) * (1 + 0.02 * math.sin(index)))
    if "nic_slow" in port.odd and busy:
        moved -= int((now - port.odd["nic_slow"]) * 0.9e10)
    state, physical = (4, 5) if port.up else (1, 2)
    values = (
        state,
        physical,
        50000000000,
        port.downed,
        port.recoveries,
        port.symbol_errors,
        0,
        0,
        0,
        0,
        0,
        int(since * 40) if busy else 0,
        moved,
        moved + 8192 * index,
        0,
        0,
        0,
        0,
    )
    return altered(IB_NAMES, values, port.odd, now) if port.odd else values


def _filesystems(host: Host, storage: Storage) -> str:
    lines = []
    families: dict[str, list[str]] = {name: [] for name in ("size_bytes", "avail_bytes", "free_bytes", "readonly")}
    errors = []
    for mount, (size, free) in SIZES.items():
        network = mount in MOUNTS
        device = f"{storage.server(host, mount)}:/export{mount}" if network else DISKS[mount]
        labels = f'device="{device}",device_error="",fstype="{"nfs4" if network else "ext4"}",mountpoint="{mount}"'
        hung = network and bool(storage.hung_since(host, mount))
        if hung:
            labels = labels.replace('device_error=""', 'device_error="mountpoint timeout"')
        errors.append(f"node_filesystem_device_error{{{labels}}} {int(hung)}")
        readonly = int(mount == "/" and "fs_readonly" in host.odd)
        if mount == "/raid" and "fs_full" in host.odd:
            free = size * 0.004
        if not hung:
            for name, value in zip(families, (size, free, free, readonly), strict=True):
                families[name].append(f"node_filesystem_{name}{{{labels}}} {value:g}")
    lines += ["# TYPE node_filesystem_device_error gauge", *errors]
    for name, entries in families.items():
        lines += [f"# TYPE node_filesystem_{name} gauge", *entries]
    return "\n".join(lines) + "\n"


def _nfs(host: Host, storage: Storage, now: float) -> str:
    """Counters of a hung mount: sends go on, answers do not, major time-outs grow."""
    families: dict[str, list[str]] = {}

    def add(name: str, labels: str, value: float) -> None:
        families.setdefault(name, []).append(f"{name}{{{labels}}} {value:.10g}")

    for mount in MOUNTS:
        server = storage.server(host, mount)
        since = storage.hung_since(host, mount)
        export = f'export="{server}:/export{mount}",protocol="tcp"'
        start = host.booted_at
        answered = ((since or now) - start) * 85
        sent = answered + (min(now - since, 600) * 3 if since else 2)
        add("node_mountstats_nfs_age_seconds_total", export, now - start)
        add("node_mountstats_nfs_total_read_bytes_total", export, answered * 1048576)
        add("node_mountstats_nfs_total_write_bytes_total", export, answered * 131072)
        add("node_mountstats_nfs_transport_sends_total", export + ',transport="0"', int(sent))
        add("node_mountstats_nfs_transport_receives_total", export + ',transport="0"', int(answered))
        for operation, share in (("READ", 0.7), ("WRITE", 0.2), ("GETATTR", 0.1)):
            labels = f'{export},operation="{operation}"'
            add("node_mountstats_nfs_operations_requests_total", labels, int(answered * share))
            slow = _slow_seconds(host, now) if mount == "/data" else 0.0
            took = (answered * 0.004 + slow * 85) * share
            add("node_mountstats_nfs_operations_response_time_seconds_total", labels, took)
            timeouts = int((now - since) / 5) if since and operation == "GETATTR" else 0
            add("node_mountstats_nfs_operations_major_timeouts_total", labels, timeouts)
    return "".join(f"# TYPE {name} counter\n" + "\n".join(lines) + "\n" for name, lines in families.items())


def _slow_seconds(host: Host, now: float) -> float:
    """How much longer answers took in all, for one operation a second: 2 s each if slow, 0.3 s if all read at once."""
    slow = (now - host.odd["nfs_slow"]) * 2.0 if "nfs_slow" in host.odd else 0.0
    return slow + ((now - host.odd["data_bound"]) * 0.3 if "data_bound" in host.odd else 0.0)


def _system(host: Host, now: float, skew: float, hung: bool) -> str:
    busy = 8 - host.free_gpus()
    wave = math.sin(now / 131 + host.index)
    up = now - host.booted_at
    blocked = 6 if hung else 4 if host.starved else 0
    values = (
        ("node_boot_time_seconds", "gauge", f"{host.booted_at + skew:.0f}"),
        ("node_time_seconds", "gauge", f"{now + skew:.6f}"),
        ("node_procs_blocked", "gauge", blocked),
        ("node_procs_running", "gauge", 3 + busy * 6),
        ("node_load1", "gauge", f"{2 + busy * 5.5 + wave + blocked:.2f}"),
        ("node_pressure_cpu_waiting_seconds_total", "counter", f"{up * 0.002:.6f}"),
        ("node_pressure_io_waiting_seconds_total", "counter", f"{up * (0.01 + blocked / 10):.6f}"),
        ("node_pressure_memory_waiting_seconds_total", "counter", f"{up * 0.0001:.6f}"),
        ("node_timex_sync_status", "gauge", 0 if skew else 1),
        ("node_timex_offset_seconds", "gauge", f"{skew or 1e-6 * wave:.9f}"),
        ("node_timex_maxerror_seconds", "gauge", "16" if skew else "0.003"),
        ("node_memory_MemTotal_bytes", "gauge", 2267742732288),
        ("node_memory_MemAvailable_bytes", "gauge", int(2.1e12 - busy * 6e10 + 1e9 * wave)),
        ("node_memory_HardwareCorrupted_bytes", "gauge", 0),
        ("node_vmstat_oom_kill", "untyped", 0),
    )
    shown = host.claims_to_be or host.name
    uname = f'domainname="(none)",machine="x86_64",nodename="{shown}",release="6.8.0-79-generic",sysname="Linux"'
    edac = "node_edac_uncorrectable_errors_total"
    corrected = int((now - host.odd["edac"]) * 0.2) if "edac" in host.odd else 0
    labelled = (
        ("node_uname_info", "gauge", f"{{{uname}}} 1"),
        (edac, "counter", f'{{controller="0"}} {int("edac_ue" in host.odd)}'),
        ("node_edac_correctable_errors_total", "counter", f'{{controller="0"}} {corrected}'),
    )
    return "".join(f"# TYPE {name} {kind}\n{name} {value}\n" for name, kind, value in values) + "".join(
        f"# TYPE {name} {kind}\n{name}{value}\n" for name, kind, value in labelled
    )


def _sensors(host: Host, now: float) -> str:
    wave = math.sin(now / 61 + host.index)
    lines = ["# TYPE node_hwmon_temp_celsius gauge"]
    for package in range(2):
        chip = f"platform_coretemp_{package}"
        lines.append(f'node_hwmon_temp_celsius{{chip="{chip}",sensor="temp1"}} {54 + 4 * wave + package:.0f}')
    for name in ("ipmi_power_state", "ipmi_sensor_state"):
        lines.append(f"# TYPE {name} gauge")
        for supply in range(4):
            state = 2 if supply == host.psu_failed else 0
            lines.append(f'{name}{{id="{supply + 1}",name="PSU{supply + 1}",type="Power Supply"}} {state}')
    return "\n".join(lines) + "\n" + _disks(host, now)


def _disks(host: Host, now: float) -> str:
    """NVMe health as the usual collector beside node-exporter writes it; the second disk is the one that suffers."""
    worn, since = "nvme_wear" in host.odd, host.odd.get("nvme_media")
    families = {
        "nvme_percentage_used_ratio": (0.07, 0.97 if worn else 0.07),
        "nvme_available_spare_ratio": (1, 0.06 if worn else 1),
        "nvme_available_spare_threshold_ratio": (0.1, 0.1),
        "nvme_critical_warning": (0, int(worn)),
        "nvme_media_errors_total": (0, 0 if since is None else 3 + int((now - since) / 60)),
    }
    return "".join(
        f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
        + "".join(f'{name}{{device="/dev/nvme{i}n1"}} {value}\n' for i, value in enumerate(values))
        for name, values in families.items()
    )
