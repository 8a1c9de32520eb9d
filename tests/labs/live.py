"""A real `manage.py up --demo` in a folder of its own, and the questions a stranger may ask of it.

Decides ports and folder, what counts as having started, and that nothing is left running. It looks only from outside:
the Kubernetes API of the simulator, its statistics, the pages, the REST API and the database. Refuses to know Muster's
code, so what it finds is what people would find.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
import yaml

from fleet.ops.listeners import first_free
from tests.labs import browser

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES = ("worker", "beat", "observer-demo", "web", "valkey", "postgres")
ENDED = ("succeeded", "failed", "cancelled")
RACK = "topology.muster.dev/rack"
Json = dict[str, Any]


def until(test: Callable[[], Any], seconds: float, every: float = 0.05) -> float | None:
    """How long it took until `test()` was true; None when it never was. A refused connection counts as not yet."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        with contextlib.suppress(OSError, ValueError, psycopg.OperationalError):
            if test():
                return time.monotonic() - began
        time.sleep(min(every, max(0.0, seconds - passed)))
    return None


class Live:
    """One start, life and stop of the demo. Use as a context manager."""

    def __init__(
        self,
        nodes: int = 64,
        speed: float = 4.0,
        scenario: str = "calm",
        root: Path = ROOT,
        python: str = sys.executable,
        user: int | None = None,
        **settings: str,
    ) -> None:
        self.root, self.python, self.user = root, python, user
        self.folder = Path(tempfile.mkdtemp(prefix="muster-lab-"))
        self.folder.chmod(0o755)
        if user is not None:
            os.chown(self.folder, user, user)
        self.var = self.folder / "var"
        self.port = first_free(21000 + os.getpid() % 500 * 4)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "DJANGO_"))},
            "MUSTER_VAR": str(self.var),
            "MUSTER_PORT": str(self.port),
            "MUSTER_PUSH_PORT": str(first_free(24000 + os.getpid() % 500 * 4)),
            "MUSTER_DEMO_NODES": str(nodes),
            "MUSTER_DEMO_SPEED": f"{speed:g}",
            "MUSTER_DEMO_SCENARIO": scenario,
            **settings,
        }
        for url in ("DATABASE_URL", "REDIS_URL"):  # the test run's own servers are not the demo's
            self.environment.pop(url, None)
        self.process: subprocess.Popen[bytes] | None = None
        self._head: dict[str, str] = {}
        self._server = ""

    # Life

    def __enter__(self) -> Live:
        try:
            self.start()
        except BaseException:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        left = self.stop()
        if kind is None:
            assert not left, f"processes left: {left}"
            self._remove()
        else:
            print(f"kept for a look: {self.folder}", file=sys.stderr)

    def _remove(self) -> None:
        for base in self._database_folder():
            if base.startswith(("/var/lib/muster/", tempfile.gettempdir())):
                shutil.rmtree(base, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def spawn(self, *command: str) -> subprocess.Popen[bytes]:
        """Start without waiting; what it says goes to `said()`."""
        other: dict[str, Any] = {}
        if self.user is not None:
            other = {"user": self.user, "group": self.user, "extra_groups": []}
        with (self.folder / "up.log").open("ab") as log:
            return subprocess.Popen(
                command or (self.python, "manage.py", "up", "--demo"),
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **other,
            )

    def start(self, *command: str, within: float = 300.0) -> float:
        """Until it says ready; how long that took."""
        began = time.monotonic()
        before = len(self.said())
        self.process = self.spawn(*command)
        done = until(lambda: "ready http" in self.said()[before:] or self.process.poll() is not None, within, 0.1)  # type: ignore[union-attr]
        if done is None or self.process.poll() is not None:
            raise RuntimeError(f"the demo did not start: {self.said()[-3000:]}")
        self._credential()
        return time.monotonic() - began

    def stop(self) -> list[str]:
        """As Ctrl-C does; the processes that are left, which are then killed."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        left = [f"{pid} {command}" for pid, command in self.family().items()]
        for pid in self.family():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return left

    def said(self) -> str:
        log = self.folder / "up.log"
        return log.read_text(errors="replace") if log.is_file() else ""

    def family(self) -> dict[int, str]:
        """Every process told of this folder or working in it, by pid; PostgreSQL's forget what they were told."""
        mark, found = f"MUSTER_VAR={self.var}".encode(), {}
        places = (str(self.folder), *self._database_folder())
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = mark in (entry / "environ").read_bytes().split(b"\0")
                if told or str((entry / "cwd").readlink()).startswith(places):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
        return {pid: command for pid, command in found.items() if command}

    def _database_folder(self) -> list[str]:
        pointer = self.var / "postgres.location"
        return [pointer.read_text().strip()] if pointer.is_file() else []

    # Processes

    def pid(self, name: str) -> int:
        return int((self.var / "run" / f"{name}.pid").read_text())

    def kill(self, name: str) -> int:
        """One that has just died by itself is killed when it is there again."""
        until(lambda: Path(f"/proc/{self.pid(name)}").exists(), 20)
        dead = self.pid(name)
        os.kill(dead, signal.SIGKILL)
        return dead

    def back(self, name: str, dead: int, within: float = 60.0) -> float | None:
        """Seconds until another process has taken the place of `dead`."""
        return until(lambda: self.pid(name) != dead and Path(f"/proc/{self.pid(name)}").exists(), within)

    def manage(self, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "manage.py", *words],
            cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    # The simulated data centre

    def _credential(self) -> None:
        config = yaml.safe_load((self.var / "simulator" / "kubeconfig").read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._head = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}

    def kube(self, path: str) -> Json:
        with urllib.request.urlopen(urllib.request.Request(self._server + path, headers=self._head), timeout=10) as r:
            answer: Json = json.load(r)
            return answer

    def _simulator(self, path: str, order: Json | None = None) -> Json:
        address = (self.var / "simulator" / "url").read_text().strip().rstrip("/")
        body = None if order is None else json.dumps(order).encode()
        with urllib.request.urlopen(urllib.request.Request(address + path, body), timeout=10) as r:
            answer: Json = json.load(r)
            return answer

    def stats(self) -> Json:
        return self._simulator("/_sim/stats")

    def state(self, node: str) -> Json:
        nodes: Json = self._simulator(f"/_sim/state?node={node}")["nodes"]
        return dict(nodes[node])

    def inject(self, fault: str, node: str = "", device: int | None = None, clear: bool = False) -> float:
        """Break something; the monotonic time just before."""
        began = time.monotonic()
        self._simulator("/_sim/inject", {"fault": fault, "node": node, "device": device, "clear": clear})
        return began

    def nodes(self) -> list[Json]:
        items: list[Json] = self.kube("/api/v1/nodes")["items"]
        return items

    def racks(self) -> dict[str, list[str]]:
        racks: dict[str, list[str]] = {}
        for node in self.nodes():
            racks.setdefault(node["metadata"]["labels"][RACK], []).append(node["metadata"]["name"])
        return racks

    def node(self, name: str) -> Json:
        return self.kube(f"/api/v1/nodes/{name}")

    def cordoned(self, name: str) -> bool:
        return self.node(name)["spec"].get("unschedulable") is True

    def boot_id(self, name: str) -> str:
        return str(self.node(name)["status"]["nodeInfo"]["bootID"])

    def boots(self, name: str) -> int:
        return int(self.stats()["boots"].get(name, 0))

    def pods(self, name: str) -> list[Json]:
        items: list[Json] = self.kube(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")["items"]
        return items

    def work_on(self, name: str) -> list[Json]:
        """Pods that a drain has to move: neither of a DaemonSet nor finished."""
        return [
            pod
            for pod in self.pods(name)
            if pod["status"]["phase"] in ("Pending", "Running")
            and not any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())
        ]

    def _as_a_person(self, method: str, path: str, body: Json, kind: str = "application/json") -> None:
        """With somebody's right to act, and no mark of ours."""
        config = yaml.safe_load((self.var / "simulator" / "act.kubeconfig").read_text())
        head = {"Authorization": f"Bearer {config['users'][0]['user']['token']}", "Content-Type": kind}
        request = urllib.request.Request(self._server + path, json.dumps(body).encode(), head, method=method)
        urllib.request.urlopen(request, timeout=10).close()

    def evict_as_a_person(self, pod: Json) -> None:
        """What `kubectl drain` does."""
        meta = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
        self._as_a_person("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})

    def cordon_as_a_person(self, node: str, cordoned: bool) -> None:
        """What `kubectl cordon` and `uncordon` do."""
        body = {"spec": {"unschedulable": True if cordoned else None}}
        self._as_a_person("PATCH", f"/api/v1/nodes/{node}", body, "application/merge-patch+json")

    def hold_of(self, node: str) -> str:
        """Our mark on the node, "" without one."""
        return str(self.node(node)["metadata"].get("annotations", {}).get("muster.dev/hold", ""))

    # Muster

    def web(self) -> browser.Browser:
        """Logged in as the demo's user."""
        password = (self.var / "run" / "demo.password").read_text().strip()
        return browser.log_in(f"http://127.0.0.1:{self.port}", "demo", password)

    def why(self, node: str) -> Json:
        done = self.manage("why", node, "--json")
        if done.returncode:
            raise RuntimeError(done.stderr)
        answer: Json = json.loads(done.stdout)
        return answer

    def rows(self, query: str, *values: Any) -> list[Json]:
        """Straight from the database: what a test may ask that no page shows."""
        url = (self.var / "run" / "database.url").read_text().strip()
        with psycopg.connect(url, row_factory=psycopg.rows.dict_row, connect_timeout=5) as link:
            return list(link.execute(query, values).fetchall())  # type: ignore[call-overload]

    def write(self, statement: str, *values: Any) -> None:
        """Change a row behind Muster's back, as an older version or a bad import might have left it."""
        with psycopg.connect((self.var / "run" / "database.url").read_text().strip(), connect_timeout=5) as link:
            link.execute(statement, values)  # type: ignore[call-overload]

    def workflows(self, node: str) -> list[Json]:
        return self.rows(
            "select w.* from lifecycle_workflow w join inventory_node n on n.id = w.node_id"
            " where n.name = %s order by w.id",
            node,
        )

    def open_workflows(self) -> list[Json]:
        return self.rows("select * from lifecycle_workflow where state not in ('succeeded', 'failed', 'cancelled')")

    def healed(self, node: str, boot: str) -> bool:
        """Another boot than `boot`, schedulable, and the last workflow succeeded."""
        if self.boot_id(node) in ("", boot) or self.cordoned(node):
            return False
        done = self.workflows(node)
        return bool(done) and all(row["state"] in ENDED for row in done)

    def memory(self) -> dict[str, float]:
        """MiB of proportional memory of every process, by name; children count with their parents."""
        names = {self.process.pid if self.process else 0: "supervisor"}
        for file in (self.var / "run").glob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                names[int(file.read_text())] = file.stem
        used: dict[str, float] = {}
        for pid in self.family():
            with contextlib.suppress(OSError, AttributeError, ValueError):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                share = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
                name = names.get(pid) or names.get(parent) or "other"
                used[name] = used.get(name, 0.0) + int(share.group(1)) / 1024  # type: ignore[union-attr]
        return used

    def ticks(self) -> dict[str, float]:
        """CPU seconds so far of every process, by name."""
        used: dict[str, float] = {}
        parents = {}
        for file in (self.var / "run").glob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                parents[int(file.read_text())] = file.stem
        for pid in self.family():
            with contextlib.suppress(OSError, ValueError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                name = parents.get(pid) or parents.get(int(fields[1])) or "other"
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                used[name] = used.get(name, 0.0) + seconds
        return used


@contextlib.contextmanager
def demo(**settings: Any) -> Iterator[Live]:
    """A demo that runs; it is stopped, and checked to be gone, at the end."""
    with Live(**settings) as live:
        yield live
