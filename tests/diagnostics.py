"""What test programs print, for tests: the shapes of DCGM 3 and 4, of nccl-tests and of the storage probe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dcgm4(gpus: int = 8, failing: Mapping[int, str] | None = None, noise: str = "", status: str = "Fail") -> str:
    """The memory test of DCGM 4; `failing` maps a GPU to its warning."""
    bad = failing or {}
    results: list[dict[str, Any]] = []
    for gpu in range(gpus):
        entity = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu}
        if gpu in bad:
            results.append({**entity, "status": status, "warnings": [{"error_id": 39, "warning": bad[gpu]}]})
        else:
            results.append({**entity, "status": "Pass", "info": ["Allocated 84000 MB (98.4%)"]})
    document = {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": "Deployment", "tests": [{"name": "software", "results": _all(gpus), "test_summary": {}}]},
                {"category": "Hardware", "tests": [{"name": "memory", "results": results}, None]},
            ]
        },
        "entity_groups": [
            {
                "entity_group": "GPU",
                "entity_group_id": 1,
                "entities": [{"entity_id": gpu, "serial_num": f"16500{gpu}"} for gpu in range(gpus)],
            }
        ],
        "metadata": {"DCGM Version": "4.2.3"},
    }
    return noise + json.dumps(document, indent=2) + "\n"


def _all(gpus: int) -> list[dict[str, Any]]:
    return [{"entity_group": "GPU", "entity_id": gpu, "status": "Pass"} for gpu in range(gpus)]


def dcgm3(gpus: int = 8, failing: Mapping[int, str] | None = None) -> str:
    bad = failing or {}
    ids = ",".join(str(gpu) for gpu in range(gpus))
    memory = [
        {"gpu_ids": str(gpu), "status": "FAIL" if gpu in bad else "PASS", "warnings": [bad[gpu]] if gpu in bad else []}
        for gpu in range(gpus)
    ]
    document = {
        "DCGM GPU Diagnostic": {
            "test_categories": [
                {
                    "category": "Deployment",
                    "tests": [{"name": "Denylist", "results": [{"gpu_ids": ids, "status": "PASS"}]}, None],
                },
                {"category": "Hardware", "tests": [{"name": "GPU Memory", "results": memory}]},
            ]
        },
        "GPU Device Serials": {str(gpu): f"16500{gpu}" for gpu in range(gpus)},
    }
    return json.dumps(document, indent="\t")


def nccl(busbw: float = 470.0, wrong: str = "0", complete: bool = True) -> str:
    rows = "\n".join(
        f"{size:>12} {size // 4:>14}     float     sum      -1"
        f" {size / 1e6:>9.2f} {bw / 1.75:>7.2f} {bw:>7.2f} {wrong:>6}"
        f" {size / 1e6:>9.2f} {bw / 1.75:>7.2f} {bw - 0.4:>7.2f} {wrong:>6}"
        for size, bw in ((1 << 20, busbw * 0.2), (1 << 30, busbw * 0.9), (1 << 33, busbw))
    )
    head = (
        "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 8589934592 step: 2(factor) warmup iters: 5\n#\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    )
    bad = wrong not in ("0", "N/A")
    tail = f"# Out of bounds values : {1 if bad else 0} {'FAILED' if bad else 'OK'}\n"
    tail += f"# Avg bus bandwidth    : {busbw * 0.7:.3f}\n#\n"
    return head + rows + "\n" + (tail if complete else "")


def storage(mounts: Mapping[str, tuple[float, float] | str]) -> str:
    """`mounts` maps a path to (write, read) in MiB/s, or to stat, write or read that failed, or to hangs."""
    lines = []
    for path, came in mounts.items():
        lines.append(f"muster-storage begin path={path}")
        if came == "hangs":
            return "\n".join(lines) + "\n"
        if isinstance(came, str):
            lines.append(f"muster-storage fail path={path} reason={came}")
        else:
            lines.append(f"muster-storage end path={path} write_mib_s={came[0]} read_mib_s={came[1]}")
    return "\n".join([*lines, "muster-storage done"]) + "\n"
