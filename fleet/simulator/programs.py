"""What the containers of Jobs do: the programs that the simulated nodes know.

It decides by the command which program runs; whatever is not known here is taken for a test of the whole node. It
refuses to know how a program works: each has a module.
"""

from typing import Any

from fleet.simulator.gpu_reset import FLAG, GpuResets
from fleet.simulator.physics import Physics

Json = dict[str, Any]


class Programs:
    def __init__(self, physics: Physics, resets: GpuResets) -> None:
        self.physics = physics
        self.resets = resets

    def run(self, node: str, container: Json) -> str | None:
        if FLAG in (container.get("command") or ()):
            return self.resets.run(node, container)
        return self.physics.examine(node)
