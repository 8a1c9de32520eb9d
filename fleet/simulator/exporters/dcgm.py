"""What dcgm-exporter says about the eight GPUs of a node.

It decides series, labels and values, as a cheap function of time and of what the GPU does. It refuses to keep a value
between scrapes: the text of one node costs well under a millisecond and no memory.
"""

import math
from functools import lru_cache

from fleet.simulator.exporters.oddities import altered
from fleet.simulator.host import GPUS, PCI, Gpu, Host, identity
from fleet.simulator.objects import DRIVER, GPU_MODEL

# (name, type, help); the order is the order of the values that _values() yields
FAMILIES = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since the driver was loaded (in mJ)."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Free framebuffer memory (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Used framebuffer memory (in MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Reserved framebuffer memory (in MiB)."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors."),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for correctable errors."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether a remapping waits for a reset."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Single-bit volatile ECC errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit volatile ECC errors."),
    ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "counter", "Double-bit persistent ECC errors."),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink bandwidth over all lanes."),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU license status."),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Bit mask of the reasons that hold the clocks down."),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Time throttled for thermal reasons (in ns)."),
    ("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Time throttled for power reasons (in ns)."),
    ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "gauge", "Recovery the driver asks for."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the memory interface is busy."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe bytes sent per second."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe bytes received per second."),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gauge", "PCIe lanes in use."),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "gauge", "PCIe lanes there are."),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", "NVLink flow-control CRC errors."),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "NVLink retries."),
    ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "gauge", "Status of the fabric manager."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of time a warp is resident, mean over the SMs."),
    ("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "NVLink bytes sent per second."),
    ("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "NVLink bytes received per second."),
)
NAMES = tuple(name for name, _, _ in FAMILIES)
XID = "DCGM_FI_DEV_XID_ERRORS"
XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
MESSAGES = {
    0: "No Error",
    31: "MMU Fault",
    48: "Double Bit ECC Error",
    63: "Row Remapper Event",
    79: "GPU has fallen off the bus",
    94: "Contained memory error",
    95: "Uncontained memory error",
}
HEALTHY = Gpu()


@lru_cache(maxsize=256)
def _template(gpus: int) -> str:
    """Every line with a slot for labels and one for the value, for that many visible GPUs."""
    lines = []
    for name, kind, text in FAMILIES:
        lines += [f"# HELP {name} {text.replace('%', '%%')}", f"# TYPE {name} {kind}"]
        lines += [name + "{%s} %s"] * gpus
    return "\n".join(lines) + "\n"


def text(host: Host, now: float) -> str:
    visible = [i for i in range(GPUS) if not (i in host.gpus and host.gpus[i].gone)]
    labels = _labels(host)
    full = [labels[i] + _workload(host.owners[i]) for i in visible]
    columns = [_values(host, i, now) for i in visible]
    filling: list[object] = []
    for row in zip(*columns, strict=True):
        for label, value in zip(full, row, strict=True):
            filling += (label, value)
    body = _template(len(visible)) % tuple(filling)
    return body + _xids(host, dict(zip(visible, full, strict=True)), now) + _switches(host)


def _labels(host: Host) -> tuple[str, ...]:
    if not host.labels:
        shown = host.claims_to_be or host.name
        host.labels = tuple(
            f'gpu="{i}",UUID="{gpu_uuid(host, i)}",pci_bus_id="00000000:{PCI[i].upper()}:00.0",device="nvidia{i}",'
            f'modelName="{GPU_MODEL}",Hostname="{shown}",DCGM_FI_DRIVER_VERSION="{DRIVER}"'
            for i in range(GPUS)
        )
    return host.labels


def gpu_uuid(host: Host, index: int) -> str:
    return f"GPU-{identity(host.uuid, 'gpu', index)}"


def _workload(owner: str) -> str:
    if not owner:
        return ',container="",namespace="",pod=""'
    namespace, _, pod = owner.partition("/")
    return f',container="main",namespace="{namespace}",pod="{pod}"'


def _values(host: Host, index: int, now: float) -> tuple[object, ...]:
    """In the order of FAMILIES. Slow waves with a phase of their own make neighbours differ and minutes agree."""
    gpu = host.gpus.get(index, HEALTHY)
    phase = host.index * 0.7 + index * 1.9
    wave, ripple = math.sin(now / 97 + phase), math.sin(now / 7 + phase * 3)
    busy = bool(host.owners[index])
    hot = 0.0 if not gpu.hot_since else min(30.0, 6.0 + (now - gpu.hot_since) * 4.0)
    tensor = 0.46 + 0.05 * wave + 0.02 * ripple if busy else 0.0
    draw = (615 + 45 * wave + 12 * ripple if busy else 72 + 2 * wave) * (0.62 if hot else 1.0)
    if host.pace < 1.0 and busy:
        slow = "grey_gpu" in gpu.odd  # the one that all wait for is busy all the time
        tensor *= 1.0 if slow else host.pace
        draw *= 0.72 if slow else 0.4 + 0.6 * host.pace
    share = host.pace if host.starved else 1.0  # of the time with kernels on it: who waits for a peer spins
    temperature = (62 if busy else 31) + 3 * wave + ripple + index % 4 + hot
    used = 71200 + 400 * wave if busy else 4.0
    clock = 945 if hot else 1980 - (15 if ripple > 0.9 else 0) if busy else 345
    throttled = int((now - gpu.hot_since) * 8e8) if hot else 0
    energy = int((now - host.booted_at) * (600e3 if busy else 72e3))
    values = (
        clock,
        2619,
        int(temperature + 9),
        int(temperature),
        f"{draw:.3f}",
        energy,
        int((now - host.booted_at) / 86400) if index == 5 else 0,
        min(100, int((97 + 3 * ripple) * share)) if busy else 0,
        int((48 + 6 * wave) * host.pace) if busy else 0,
        0,
        0,
        int(81559 - 551 - used),
        int(used),
        551,
        gpu.dbe,
        0,
        0,
        int(gpu.remap_pending),
        gpu.dbe * 3,
        gpu.dbe,
        gpu.dbe,
        int((340e3 + 20e3 * wave) * host.pace if busy else 0),
        0,
        0x48 if hot else 0x4 if busy and draw > 660 else 0x0 if busy else 0x1,
        throttled,
        0,
        gpu.recovery,
        f"{(0.94 + 0.04 * ripple) * share if busy else 0.0:.6f}",
        f"{tensor:.6f}",
        f"{tensor * 0.8:.6f}",
        int((2.1e9 + 3e8 * wave) * host.pace) if busy else 1200,
        int((3.4e9 + 4e8 * wave) * host.pace) if busy else 1800,
        16,
        16,
        0,
        0,
        3,
        *_with_peers(host, busy, wave, tensor),
    )
    return altered(NAMES, values, gpu.odd, now) if gpu.odd else values


def _with_peers(host: Host, busy: bool, wave: float, tensor: float) -> tuple[object, ...]:
    """Residency of warps, NVLink sent and received: who spins keeps a few SMs busy and sends nothing."""
    if not busy:
        return ("0.000000", 0, 0)
    sent = int((170e9 + 10e9 * wave) * host.pace)
    return (f"{tensor * 1.7 + 0.1 * (1 - host.pace):.6f}", sent, sent)


def _switches(host: Host) -> str:
    """The last fatal error of each NVSwitch."""
    name = "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS"
    code = 20034 if "sxid" in host.odd else 0
    shown = host.claims_to_be or host.name
    return f'# TYPE {name} gauge\n{name}{{nvswitch="nvswitch0",Hostname="{shown}"}} {code}\n'


def _xids(host: Host, labels: dict[int, str], now: float) -> str:
    """The latched code of each GPU; its labels carry the code too, so the series changes with it."""
    lines = [f"# HELP {XID} Value of the last XID error encountered.", f"# TYPE {XID} gauge"]
    counts: list[str] = []
    for index, label in labels.items():
        gpu = host.gpus.get(index, HEALTHY)
        message = MESSAGES.get(gpu.xid, "Unknown Error")
        lines.append(f'{XID}{{{label},err_code="{gpu.xid}",err_msg="{message}"}} {gpu.xid}')
        recent = sum(1 for moment in gpu.xid_times if now - moment <= 300)
        if recent:
            counts.append(f'{XID_COUNT}{{{label},window_size_in_ms="300000",xid="{gpu.xid}"}} {recent}')
        else:
            counts.append(f'{XID_COUNT}{{{label},window_size_in_ms="300000"}} 0')
    lines += [f"# HELP {XID_COUNT} XID errors in the last window.", f"# TYPE {XID_COUNT} counter", *counts]
    return "\n".join(lines) + "\n"
