"""One machine of the fleet: where it stands, what it is, and what is wrong with it right now.

It decides the layout (racks of 16, a leaf switch per 4 racks, the last eighth of the nodes serves inference) and
derives every identity from the seed and the name. It refuses to act: power, kubelets and faults change it.
"""

import hashlib
import uuid
from dataclasses import dataclass, field

GPUS = 8
PORTS = 8
NODES_PER_RACK = 16
RACKS_PER_LEAF = 4
TRAIN, SERVE = "h100-train", "h100-serve"
PCI = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
LABEL = "topology.muster.dev/"
DATA_SERVERS = ("nfs-a.storage.local", "nfs-b.storage.local")


@dataclass(slots=True)
class Gpu:
    """What differs from a healthy GPU; hosts keep one only for GPUs with a history."""

    xid: int = 0
    gone: bool = False
    dbe: int = 0
    remap_pending: bool = False
    recovery: int = 0
    hot_since: float = 0.0
    xid_times: list[float] = field(default_factory=list)
    odd: dict[str, float] = field(default_factory=dict)  # lasting oddity -> since


@dataclass(slots=True)
class Port:
    """What differs from a healthy InfiniBand port."""

    up: bool = True
    downed: int = 0
    symbol_errors: int = 0
    recoveries: int = 0
    odd: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Host:
    name: str
    index: int
    pool: str
    rack: str
    leaf: str
    rail: str
    uuid: str
    serial: str
    ip: str
    boot_id: str
    booted_at: float
    power: str = "On"
    booting: bool = False
    kubelet: bool = True
    exporters: bool = True
    last_reset_at: float = 0.0
    boot_override: str = "None"
    life: int = 0  # grows whenever the host goes down, so that plans made before know that they are void
    gpus: dict[int, Gpu] = field(default_factory=dict)
    ports: dict[int, Port] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)
    hung_mounts: dict[str, float] = field(default_factory=dict)  # mount point -> since
    odd: dict[str, float] = field(default_factory=dict)
    pace: float = 1.0  # share of its speed that the gang on this host reaches
    starved: bool = False  # that gang waits for its data
    waited: float = 0.0  # seconds in all in which it waited instead of sending
    paced_at: float = 0.0  # since when it runs at this pace
    psu_failed: int = -1
    claims_to_be: str = ""
    owners: list[str] = field(default_factory=lambda: [""] * GPUS)  # pod key per GPU
    labels: tuple[str, ...] = ()  # the exporter's label text per GPU, made when first scraped

    @property
    def nvlink_domain(self) -> str:
        return f"nvl-{self.name.removeprefix('gpu-')}"

    @property
    def data_server(self) -> str:
        return DATA_SERVERS[self.index // (NODES_PER_RACK * RACKS_PER_LEAF) % len(DATA_SERVERS)]

    @property
    def up(self) -> bool:
        """The operating system runs."""
        return self.power == "On" and not self.booting and "host_dead" not in self.faults

    def scopes(self) -> dict[str, str]:
        return {"fleet": "fleet", "pool": self.pool, "rack": self.rack, "leaf": self.leaf, "rail": self.rail}

    def topology(self) -> dict[str, str]:
        found = {"pool": self.pool, "rack": self.rack, "leaf": self.leaf, "rail": self.rail}
        return {LABEL + key: value for key, value in (found | {"nvlink-domain": self.nvlink_domain}).items()}

    def gpu(self, index: int) -> Gpu:
        return self.gpus.setdefault(index, Gpu())

    def port(self, index: int) -> Port:
        return self.ports.setdefault(index, Port())

    def free_gpus(self) -> int:
        return self.owners.count("")

    def usable_gpus(self) -> int:
        """What the device plugin still offers: it gives up on a GPU after a serious Xid until it is restarted."""
        return GPUS - sum(1 for gpu in self.gpus.values() if gpu.gone or gpu.recovery)


def identity(*parts: object) -> uuid.UUID:
    digest = hashlib.md5("/".join(map(str, parts)).encode(), usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest, version=4)


def lay_out(count: int, seed: int, now: float) -> list[Host]:
    """All hosts of a fleet, in the order of their names."""
    racks = -(-count // NODES_PER_RACK)
    width = max(2, len(str(racks)))
    serving = count // 8
    hosts = []
    for index in range(count):
        rack, slot = index // NODES_PER_RACK + 1, index % NODES_PER_RACK + 1
        leaf = (rack - 1) // RACKS_PER_LEAF + 1
        name = f"gpu-r{rack:0{width}d}-{slot:02d}"
        uptime = 3600 * 24 * (3 + (index * 7919 + seed) % 60)
        hosts.append(
            Host(
                name=name,
                index=index,
                pool=SERVE if index >= count - serving else TRAIN,
                rack=f"r{rack:0{width}d}",
                leaf=f"leaf-{leaf:02d}",
                rail=f"rail-{(leaf - 1) % 4 + 1}",
                uuid=str(identity(seed, name, "system")),
                serial=f"SIM{seed:02d}{index:06d}",
                ip=f"10.{20 + index // 62500}.{index // 250 % 250}.{index % 250 + 1}",
                boot_id=str(identity(seed, name, "boot", 0)),
                booted_at=now - uptime,
                last_reset_at=now - uptime,
            )
        )
    return hosts
