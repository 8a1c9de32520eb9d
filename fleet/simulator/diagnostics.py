"""What test programs print on a node: DCGM's diagnostics, a bandwidth test of nccl-tests, a storage probe.

It decides the words of each program from the state of the hardware. It refuses to judge: whether a bandwidth is low is
for whoever reads it.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fleet.simulator.host import GPUS, Host, identity
from fleet.simulator.storage import Storage

Json = dict[str, Any]
BUS_BANDWIDTH = 471.0  # GB/s of eight H100 over NVLink
SLOW_GPU, SLOW_PORT = 0.52, 0.9
WRITE, READ = 1150.0, 2300.0  # MiB/s of a mount that few use at the moment
SIZES = tuple(1 << power for power in range(20, 34))
_TESTS: dict[int, tuple[tuple[str, str], ...]] = {
    1: (("Deployment", "software"),),
    2: (("Deployment", "software"), ("Hardware", "memory"), ("Integration", "pcie")),
    3: (
        ("Deployment", "software"),
        ("Hardware", "memory"),
        ("Hardware", "diagnostic"),
        ("Integration", "pcie"),
        ("Stress", "targeted_stress"),
        ("Stress", "targeted_power"),
        ("Stress", "memory_bandwidth"),
    ),
}


def dcgm(host: Host, level: int, complaint: str | None) -> str:
    """As `dcgmi diag -r LEVEL -j` of DCGM 4 prints it."""
    present = [index for index in range(GPUS) if not (index in host.gpus and host.gpus[index].gone)]
    accused = _gpu_in(complaint)
    tests: dict[str, list[Json]] = {}
    for category, name in _TESTS.get(level, _TESTS[3]):
        blamed = complaint is not None and name == ("memory" if accused is not None and level > 1 else "software")
        results = [
            _result(name, host, gpu, complaint if blamed and accused in (None, gpu) else None) for gpu in present
        ]
        if blamed and accused is not None and accused not in present:
            results.append({"status": "Fail", "warnings": [{"error_id": 21, "warning": complaint}]})
        failed = any(result["status"] == "Fail" for result in results)
        summary = {"status": "Fail" if failed else "Pass"}
        tests.setdefault(category, []).append({"name": name, "results": results, "test_summary": summary})
    document = {
        "DCGM Diagnostic": {"test_categories": [{"category": key, "tests": value} for key, value in tests.items()]},
        "entity_groups": [
            {
                "entity_group": "GPU",
                "entity_group_id": 1,
                "entities": [
                    {"device_id": "2330", "entity_id": gpu, "serial_num": str(identity(host.uuid, gpu).int)[:13]}
                    for gpu in present
                ],
            }
        ],
        "metadata": {"DCGM Version": "4.2.3", "Driver Version Detected": "570.172.08"},
    }
    return json.dumps(document, indent=2) + "\n"


def _result(test: str, host: Host, gpu: int, complaint: str | None) -> Json:
    result: Json = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
    if complaint is not None:
        return result | {"status": "Fail", "warnings": [{"error_id": 39, "error_severity": 2, "warning": complaint}]}
    if test == "memory":
        return result | {"info": ["Allocated 83742408704 bytes (98.3%)"]}
    if test == "pcie":
        return result | {"info": [f"GPU {gpu} GPU to Host bandwidth:\t\t{54.1 * _about(host, test, gpu):.2f} GB/s"]}
    return result


def _gpu_in(complaint: str | None) -> int | None:
    words = (complaint or "").split()
    return int(words[1]) if len(words) > 1 and words[0] == "GPU" and words[1].isdecimal() else None


def nccl(host: Host) -> tuple[str, bool]:
    """As `all_reduce_perf -g 8` prints it; False when it could not run."""
    gone = [index for index, gpu in host.gpus.items() if gpu.gone or gpu.recovery]
    head = (
        f"# nThread 1 nGpus {GPUS} minBytes {SIZES[0]} maxBytes {SIZES[-1]} step: 2(factor) warmup iters: 5 iters: 20\n"
    )
    if gone:
        failure = "Test CUDA failure all_reduce.cu:101 'no CUDA-capable device is detected'"
        return f"{head}{host.name}: {failure}\n", False
    pace = SLOW_GPU if any(gpu.odd or gpu.hot_since for gpu in host.gpus.values()) else 1.0
    pace *= SLOW_PORT if any(port.odd for port in host.ports.values()) else 1.0
    peak = BUS_BANDWIDTH * pace * _about(host, "nccl", 0)
    lines = [head + "#\n# Using devices"]
    lines += [
        f"#  Rank {gpu:2d} Group  0 Pid {4000 + gpu} on {host.name} device {gpu:2d} NVIDIA H100" for gpu in range(GPUS)
    ]
    half = "     time   algbw   busbw #wrong"
    lines.append(f"#\n#       size         count      type   redop    root{half}{half}")
    speeds = []
    for size in SIZES:
        speed = peak * size / (size + (24 << 20))
        speeds.append(speed)
        half = f"{size / speed * 1.75 / 1e3:9.2f} {speed / 1.75:7.2f} {speed:7.2f}      0"
        lines.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {half} {half}")
    lines.append("# Out of bounds values : 0 OK")
    lines.append(f"# Avg bus bandwidth    : {sum(speeds) / len(speeds):.3f}\n#")
    return "\n".join(lines) + "\n", True


def storage(host: Host, servers: Storage, mounts: Sequence[str]) -> str:
    """As the probe prints it that clients send along."""
    lines = []
    for entry in mounts:
        path = entry.removesuffix(":ro")
        lines.append(f"muster-storage begin path={path}")
        if servers.hung_since(host, path) or (path == "/" and "fs_readonly" in host.odd):
            lines.append(f"muster-storage fail path={path} reason={'write' if path == '/' else 'stat'}")
        elif entry != path:
            lines.append(f"muster-storage end path={path}")
        else:
            write, read = (rate * _about(host, path, index) for index, rate in enumerate((WRITE, READ)))
            lines.append(f"muster-storage end path={path} write_mib_s={write:.1f} read_mib_s={read:.1f}")
    return "\n".join([*lines, "muster-storage done"]) + "\n"


def _about(host: Host, what: str, index: int) -> float:
    """No two nodes are quite alike: within two percent, the same each time."""
    digest = hashlib.md5(f"{host.uuid}/{what}/{index}".encode(), usedforsecurity=False).digest()
    return 0.98 + digest[0] / 255 * 0.04
