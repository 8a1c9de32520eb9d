"""A dashboard that answers with the shapes of a real Ray, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any
GROUPS, NODES, ACTORS = "/api/v0/placement_groups", "/api/v0/nodes", "/api/v0/actors"
JOBS, STATUS, VERSION = "/api/jobs/", "/api/cluster_status", "/api/version"
HEALTH, TRAIN, LOGS = "/api/gcs_healthz", "/api/train/v2/runs/v1", "/api/v0/logs/file"
UNTRACKED = b"Train state data is not available. Please make sure Ray Train is running"


def listing(*entries: Json, **more: Any) -> Json:
    """An answer of the state API."""
    counts = dict.fromkeys(("total", "num_after_truncation", "num_filtered"), len(entries))
    inner = {**counts, "result": list(entries), "partial_failure_warning": "", "warnings": None, **more}
    return {"result": True, "msg": "", "data": {"result": inner}}


def a_group(name: str = "llm-4x8", state: str = "PENDING", bundles: int = 4, **more: Any) -> Json:
    """A placement group of bundles with eight GPUs each; where it stands, each lies on a node of its own."""
    id_ = more.pop("id", f"pg-{name}")
    placed = state == "CREATED"
    return {
        "placement_group_id": id_,
        "name": name,
        "creator_job_id": "01000000",
        "state": state,
        "bundles": [
            {
                "bundle_id": {"placement_group_id": id_, "bundle_index": n},
                "unit_resources": {"GPU": 8.0},
                "node_id": f"ray-{n}" if placed else "",
                "label_selector": {},
            }
            for n in range(bundles)
        ],
        "is_detached": True,
        "stats": {"scheduling_state": "FINISHED" if placed else "NO_RESOURCES", "scheduling_attempt": 1},
        **more,
    }


def a_node(id_: str = "ray-0", gpus: float = 8.0, **more: Any) -> Json:
    total = {"GPU": gpus, "CPU": 1.0, "memory": 24137866240.0} if gpus else {"CPU": 1.0}
    return {
        "node_id": id_, "node_ip": "192.0.2.2", "is_head_node": False, "state": "ALIVE", "node_name": f"pod-{id_}",
        "resources_total": total, "labels": {"ray.io/node-id": id_}, "start_time_ms": 1795969157891, "end_time_ms": 0,
        **more,
    }  # fmt: skip


def a_job(status: str = "RUNNING", **more: Any) -> Json:
    over = 0 if status in ("RUNNING", "PENDING") else 1795969174234
    return {
        "type": "DRIVER", "job_id": "01000000", "submission_id": None, "status": status, "message": None,
        "start_time": 1795969159622, "end_time": over, "metadata": {}, "runtime_env": {}, **more,
    }  # fmt: skip


def a_run(workers: Json = 4, **more: Any) -> Json:
    scaling = {"num_workers": workers, "use_gpu": True, "resources_per_worker": {"GPU": 8.0}}
    settings = {"scaling_config": scaling, "run_config": {"name": "llm", "failure_config": {"max_failures": 0}}}
    return {
        "id": "run-1", "name": "llm", "job_id": "01000000", "status": "RUNNING", "run_settings": settings,
        "attempts": [{"attempt_id": "a", "status": "ERRORED"}, {"attempt_id": "b", "status": "RUNNING"}], **more,
    }  # fmt: skip


def formatted(usage: str, *demands: str) -> Json:
    text = (
        "======== Autoscaler status: 2026-11-29 16:19:33.462492 ========\nNode status\nActive:\n 1 node_a\n"
        f"Resources\nTotal Usage:\n 0.0/3.0 CPU\n {usage}\n 0B/67.44GiB memory\n\nFrom request_resources:\n (none)\n"
        "Pending Demands:\n" + ("\n".join(f" {one}" for one in demands) or " (no resource demands)")
    )
    return {"result": True, "msg": "Got formatted cluster status.", "data": {"clusterStatus": text}}


@dataclass
class FakeDashboard:
    """`says`: path without query -> bytes, or JSON; a (status, body) pair for another status than 200."""

    says: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    late: float = 0.0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        told = {
            VERSION: {"version": "4", "ray_version": "2.60.0"}, HEALTH: b"success", GROUPS: listing(),
            NODES: listing(), ACTORS: listing(), JOBS: [], STATUS: formatted("0.0/0.0 GPU"), TRAIN: (500, UNTRACKED),
        }  # fmt: skip
        self.says = {**told, **self.says}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: else the other side's delayed answer costs 40 ms each
    fake: FakeDashboard

    def do_GET(self) -> None:
        fake = self.fake
        fake.asked.append((self.path, dict(self.headers)))
        time.sleep(fake.late)
        said = fake.says.get(self.path.partition("?")[0], (404, b"404: Not Found"))
        status, body = said if isinstance(said, tuple) else (200, said)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in fake.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def running(fake: FakeDashboard) -> Iterator[FakeDashboard]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
