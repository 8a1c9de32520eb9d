"""What is wrong with a node, as a program that exercises all of it would find out.

It decides whether a validation run on a node succeeds, and its complaint if not. It refuses to look at anything but the
hardware and the mounts: cordons and conditions are not its business.
"""

from fleet.simulator.host import Host
from fleet.simulator.storage import MOUNTS, Storage


class Physics:
    def __init__(self, hosts: dict[str, Host], storage: Storage) -> None:
        self.hosts = hosts
        self.storage = storage

    def examine(self, node: str) -> str | None:
        host = self.hosts[node]
        for index, gpu in sorted(host.gpus.items()):
            if gpu.gone:
                return f"GPU {index} is not on the bus"
            if gpu.recovery or gpu.remap_pending:
                return f"GPU {index} has uncorrectable memory errors"
            if gpu.hot_since:
                return f"GPU {index} is throttled by heat"
            if gpu.odd:
                return f"GPU {index} does not reach its speed or counts errors: {', '.join(sorted(gpu.odd))}"
        for index, port in sorted(host.ports.items()):
            if not port.up:
                return f"port mlx5_{index} is down"
            if port.odd:
                return f"port mlx5_{index} does not reach its bandwidth"
        for mount in MOUNTS:
            if self.storage.hung_since(host, mount):
                return f"mount {mount} does not answer"
        if "fs_readonly" in host.odd:
            return "file system / is read-only"
        return "diagnostics failed at level 3" if "stubborn" in host.faults else None
