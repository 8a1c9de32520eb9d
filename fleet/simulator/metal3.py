"""The provisioner of the fleet: a BareMetalHost for every host, and the controller that acts on its image.

It decides how a host goes from provisioned over available to provisioned again, what that takes, and what it does to
the machine. It refuses to act on a detached or paused host, and to touch the Node: the kubelet registers by itself.
"""

from typing import Any

import orjson

from fleet.simulator.faults import Fault, Faults
from fleet.simulator.host import Host, identity
from fleet.simulator.power import Power
from fleet.simulator.stats import Stats
from fleet.simulator.store import Event, Store
from fleet.simulator.timeline import Timeline, stamp

Json = dict[str, Any]
NAMESPACE = "metal3"
IMAGE = "http://images.local/gpu-node-2026.11.qcow2"
NOTICE_SECONDS, WIPE_SECONDS, INSTALL_SECONDS = 1.0, 5.0, 15.0
IDLE = ("baremetalhost.metal3.io/detached", "baremetalhost.metal3.io/paused")


def bare_metal_host(host: Host, address: str) -> Json:
    """As Metal3 shows a host that it has provisioned."""
    image = {"url": IMAGE, "checksum": f"{IMAGE}.sha256sum", "checksumType": "sha256"}
    made = stamp(int(host.booted_at) - 600)
    bmc = f"redfish-virtualmedia+{address}/bmc/{host.name}/redfish/v1/Systems/{host.uuid}"
    mac = f"02:00:00:{host.index >> 16 & 255:02x}:{host.index >> 8 & 255:02x}:{host.index & 255:02x}"
    status = {
        "operationalStatus": "OK", "errorCount": 0, "errorMessage": "", "poweredOn": True, "provisioningFailCount": 0,
        "provisioning": {"ID": str(identity(host.uuid, "bmh")), "state": "provisioned", "image": image},
        "hardware": {"hostname": host.name, "systemVendor": {"manufacturer": "SIM", "serialNumber": host.serial}},
        "operationHistory": {"provision": {"start": made, "end": made}},
    }  # fmt: skip
    return {
        "metadata": {
            "name": host.name, "namespace": NAMESPACE, "uid": str(identity(host.uuid, "baremetalhost")),
            "creationTimestamp": made, "generation": 1,
        },
        "spec": {
            "online": True, "image": image, "bootMACAddress": mac,
            "bmc": {"address": bmc, "credentialsName": f"{host.name}-bmc"},
        },
        "status": status,
    }  # fmt: skip


class Metal3:
    def __init__(
        self, store: Store, timeline: Timeline, hosts: dict[str, Host], power: Power, stats: Stats, faults: Faults
    ) -> None:
        self.hosts_of_metal = store["baremetalhosts"]
        self.timeline = timeline
        self.hosts = hosts
        self.power = power
        self.stats = stats
        faults.teach(Fault("provision_error", lambda h, d: None, lambda h, d: None, boot_mends=False))

    def begin(self, address: str) -> None:
        for host in self.hosts.values():
            self.hosts_of_metal.put(bare_metal_host(host, address))
        self.hosts_of_metal.listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self.timeline.after(NOTICE_SECONDS, lambda: self._reconcile(event.record.key))

    def _reconcile(self, key: str) -> None:
        """One look at what is wanted and what is."""
        obj = self.hosts_of_metal.read(key)
        if obj is None or any(mark in (obj["metadata"].get("annotations") or {}) for mark in IDLE):
            return
        state, wanted = obj["status"]["provisioning"]["state"], obj["spec"].get("image")
        if state == "provisioned" and not wanted:
            self._move(obj, "deprovisioning")
            self.power.reset(self.hosts[obj["metadata"]["name"]], "ForceOff")
            self.timeline.after(WIPE_SECONDS, lambda: self._wiped(key))
        elif state == "available" and wanted and obj["spec"].get("online"):
            self._move(obj, "provisioning", start=self.timeline.stamp(), end=None)
            self.timeline.after(INSTALL_SECONDS, lambda: self._installed(key))

    def _wiped(self, key: str) -> None:
        obj = self.hosts_of_metal.read(key)
        if obj is not None:
            obj["status"]["poweredOn"] = False
            obj["status"]["provisioning"].pop("image", None)
            self._move(obj, "available")

    def _installed(self, key: str) -> None:
        obj = self.hosts_of_metal.read(key)
        if obj is None:
            return
        host = self.hosts[obj["metadata"]["name"]]
        if "provision_error" in host.faults:
            text = "Image provisioning failed: Deploy step deploy.write_image failed"
            error = {"operationalStatus": "error", "errorType": "provisioning error", "errorMessage": text}
            obj["status"] |= error | {"errorCount": obj["status"]["errorCount"] + 1}
            self._move(obj, "provisioning")
            return
        obj["status"] |= {"operationalStatus": "OK", "errorMessage": "", "poweredOn": True}
        obj["status"]["provisioning"]["image"] = obj["spec"].get("image")
        self.stats.provisions[host.name] += 1
        self._move(obj, "provisioned", end=self.timeline.stamp())
        self.power.reset(host, "On")

    def _move(self, obj: Json, state: str, **times: str | None) -> None:
        obj["status"]["provisioning"]["state"] = state
        obj["status"]["operationHistory"]["provision"] |= times
        obj["status"]["lastUpdated"] = self.timeline.stamp()
        self.hosts_of_metal.put(orjson.loads(orjson.dumps(obj)))
