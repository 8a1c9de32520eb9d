"""A real Ray on loopback: a head and two nodes of eight logical GPUs each, with placement groups that never gather.

Decides how it is started and when it is up. `MUSTER_TEST_RAY_PYTHON` names the Python that has Ray
(`pip install 'ray[default]'`); nothing is installed here. Refuses to leave its processes running: they are ended by the
files they hold open in its folder, for Ray gives its processes new titles and new parents.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleet.ops.listeners import first_free
from tests.patience import until

DRIVER = """
import ray, sys
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], log_to_driver=False, namespace="train")
ok = placement_group([{"GPU": 8}], strategy="STRICT_PACK", name="small-ok" + sys.argv[2], lifetime="detached")
ray.get(ok.ready(), timeout=120)
placement_group([{"GPU": 8}] * 4, strategy="STRICT_SPREAD", name="llm-4x8" + sys.argv[2], lifetime="detached")
placement_group([{"GPU": 8}] * 2, strategy="PACK", name="pack-2x8" + sys.argv[2])
@ray.remote(num_gpus=16)
def greedy(): return 1
asked = greedy.remote()
print("waiting", flush=True)
sys.stdin.readline()
"""
QUIET = ("--disable-usage-stats", "--object-store-memory=80000000")


def python() -> Path | None:
    """The Python that has Ray, None where nobody named one."""
    given = os.environ.get("MUSTER_TEST_RAY_PYTHON")
    return Path(given) if given and Path(given).exists() else None


@dataclass(slots=True)
class Ray:
    url: str
    address: str
    folder: Path
    where: Path

    @contextlib.contextmanager
    def driver(self, suffix: str = "") -> Iterator[None]:
        """The driver, with all its groups asked for; it has exited at the end. `suffix` is of the groups' names."""
        script = self.folder / "driver.py"
        script.write_text(DRIVER)
        process = subprocess.Popen(
            [str(self.where), str(script), self.address, suffix],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "waiting"
            yield
            process.stdin.write("\n")
            process.stdin.flush()
            process.wait(60)
        finally:
            process.kill()
            process.wait()

    def submit(self, program: str) -> str:
        """A job that runs the Python program; its submission id."""
        body = json.dumps({"entrypoint": f"{self.where} -c {shlex.quote(program)}"}).encode()
        asked = urllib.request.Request(f"{self.url}/api/jobs/", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(json.load(answer)["submission_id"])


@contextlib.contextmanager
def running(where: Path) -> Iterator[Ray]:
    # Ray's sockets lie in its folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as name:
        folder, program = Path(name), where.parent / "ray"
        port, page = first_free(26_400), first_free(28_300)
        address = f"127.0.0.1:{port}"
        try:
            _start(
                program, "--head", f"--port={port}", "--dashboard-host=127.0.0.1", f"--dashboard-port={page}",
                "--num-cpus=1", "--num-gpus=0", f"--temp-dir={folder}",
            )  # fmt: skip
            for _ in range(2):
                _start(program, f"--address={address}", "--num-cpus=1", "--num-gpus=8")
            url = f"http://127.0.0.1:{page}"
            until(lambda: _answers(url))
            yield Ray(url, address, folder, where)
        finally:
            _end(folder)


def _start(program: Path, *options: str) -> None:
    command = [str(program), "start", "--node-ip-address=127.0.0.1", *options, *QUIET]
    subprocess.run(command, check=True, capture_output=True, timeout=180)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(urllib.request.urlopen(f"{url}/api/version", timeout=2).status == 200)
    return False


def _end(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _holders(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        ends = time.monotonic() + 15
        while _holders(folder) and time.monotonic() < ends:
            time.sleep(0.3)


def _holders(folder: Path) -> set[int]:
    """Processes but this one that have a file of the folder open."""
    found: set[int] = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(f"{folder}/"):
                found.add(int(link.parts[2]))
    return found - {os.getpid()}
