"""What the containers of Jobs do: the programs that the simulated nodes know.

It decides by the command which program runs; whatever is not known here is taken for a test of the whole node. It
refuses to know how a program works: each has a module.
"""

import re
from typing import Any, NamedTuple

from fleet.simulator import diagnostics
from fleet.simulator.gpu_reset import FLAG, GpuResets
from fleet.simulator.physics import Physics

Json = dict[str, Any]
_LEVEL = re.compile(r"dcgmi diag -r (\d)")


class Came(NamedTuple):
    """How a program ended: its complaint, None when it exited with zero, and what it printed ("": its last word)."""

    complaint: str | None
    log: str = ""


class Programs:
    def __init__(self, physics: Physics, resets: GpuResets) -> None:
        self.physics = physics
        self.resets = resets

    def run(self, node: str, container: Json) -> Came:
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        if FLAG in command:
            return Came(self.resets.run(node, container))
        host = self.physics.hosts[node]
        if any("all_reduce" in part for part in command[:1]):
            text, good = diagnostics.nccl(host)
            return Came(None if good else "the collective broke off", text)
        if any("muster-storage" in part for part in command):
            mounts = [part for part in command if part.startswith("/")]
            return Came(None, diagnostics.storage(host, self.physics.storage, mounts))
        complaint = self.physics.examine(node)
        level = _LEVEL.search(" ".join(command))
        return Came(complaint, diagnostics.dcgm(host, int(level[1]), complaint) if level else "")
