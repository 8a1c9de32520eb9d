"""A real Ironic in a folder of its own: one process, SQLite, fake hardware, loopback.

Decides its configuration and when it is up. `MUSTER_TEST_IRONIC` names the folder of its programs (the `bin` of a
virtual environment with `pip install ironic`); without it, the path is searched. Refuses to leave its process running.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet.ops.listeners import first_free

CONFIG = """
[DEFAULT]
auth_strategy = noauth
rpc_transport = none
enabled_hardware_types = fake-hardware
enabled_boot_interfaces = fake
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_power_interfaces = fake
enabled_network_interfaces = noop
enabled_raid_interfaces = no-raid
enabled_vendor_interfaces = no-vendor
enabled_firmware_interfaces = no-firmware
enabled_bios_interfaces = no-bios
enabled_console_interfaces = no-console
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
host = lab
my_ip = 127.0.0.1
state_path = {folder}
[database]
connection = sqlite:///{folder}/ironic.sqlite
[api]
host_ip = 127.0.0.1
port = {port}
[conductor]
automated_clean = false
[fake]
deploy_delay = 2
"""


def programs() -> Path | None:
    """The folder of its programs, None where it is not installed."""
    given = os.environ.get("MUSTER_TEST_IRONIC")
    found = shutil.which("ironic", path=given) if given else shutil.which("ironic")
    return Path(found).parent if found else None


class Ironic:
    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "X-OpenStack-Ironic-API-Version": "1.81"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def enroll(self, name: str, **fields: Any) -> str:
        """A node on which an image is installed; its UUID."""
        image = {"image_source": "http://127.0.0.1:9/gpu.qcow2"}
        made = self.call("POST", "/nodes", {"name": name, "driver": "fake-hardware", "instance_info": image, **fields})
        for target, state in (("manage", "manageable"), ("provide", "available"), ("active", "active")):
            self.call("PUT", f"/nodes/{name}/states/provision", {"target": target})
            self.until(name, state)
        return str(made["uuid"])

    def until(self, name: str, state: str, seconds: float = 30) -> None:
        ends = time.monotonic() + seconds
        while (seen := self.call("GET", f"/nodes/{name}"))["provision_state"] != state or seen["reservation"]:
            assert time.monotonic() < ends, (seen["provision_state"], seen["last_error"])
            time.sleep(0.2)


@contextlib.contextmanager
def running(folder: Path, where: Path) -> Iterator[Ironic]:
    port = first_free(26400 + os.getpid() % 500)
    config = folder / "ironic.conf"
    config.write_text(CONFIG.format(folder=folder, port=port))
    sync = [str(where / "ironic-dbsync"), "--config-file", str(config), "create_schema"]
    with (folder / "log").open("wb") as log:
        subprocess.run(sync, check=True, stdout=log, stderr=log, timeout=120)
        process = subprocess.Popen([str(where / "ironic"), "--config-file", str(config)], stdout=log, stderr=log)
        try:
            found = Ironic(f"http://127.0.0.1:{port}")
            ends = time.monotonic() + 60
            while True:
                assert process.poll() is None and time.monotonic() < ends, (folder / "log").read_text()[-2000:]
                with contextlib.suppress(OSError, urllib.error.URLError):
                    if found.call("GET", "/drivers")["drivers"]:
                        break
                time.sleep(0.3)
            yield found
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
