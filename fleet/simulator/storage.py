"""The NFS servers and which mounts of which nodes answer.

It decides since when a mount hangs. It refuses to let a hang show in the pod: a pod on a hung mount stays Ready.
"""

from fleet.simulator.host import Host

HOME_SERVER = "nfs-home.storage.local"
MOUNTS = ("/data", "/home")


class Storage:
    def __init__(self) -> None:
        self.down: dict[str, float] = {}  # server -> since

    def server(self, host: Host, mount: str) -> str:
        return host.data_server if mount == "/data" else HOME_SERVER

    def hung_since(self, host: Host, mount: str) -> float:
        """0 while the mount answers."""
        return host.hung_mounts.get(mount) or self.down.get(self.server(host, mount), 0.0)
