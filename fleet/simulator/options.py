"""What can be chosen about a simulated fleet.

It decides flags and defaults, the same for the module and for the management command. It refuses sizes and speeds
that make no sense.
"""

import argparse
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

MOST_PODS = 110  # the kubelet's default, and what the simulated nodes advertise


@dataclass(slots=True)
class Options:
    nodes: int = 256
    scenario: str = "calm"
    port: int = 0
    seed: int = 1
    name: str = "demo"
    var: Path = Path("var")
    speed: float = 1.0
    pods_per_node: int = 0
    history: int = 8192  # events kept per kind for watches
    bookmark_seconds: float = 60.0
    bmc_credential: str = "admin:simulated"
    bmc_latency: float = 1.0
    read_token: str = field(default_factory=lambda: "read-" + secrets.token_urlsafe(24))
    act_token: str = field(default_factory=lambda: "act-" + secrets.token_urlsafe(24))

    @property
    def folder(self) -> Path:
        """Where the files for clients lie."""
        base = Path(self.var) / "simulator"
        return base if self.name == "demo" else base / self.name

    @property
    def run(self) -> Path:
        return Path(self.var) / "run"

    def problems(self) -> list[str]:
        found = []
        if not 1 <= self.nodes <= 20000:
            found.append(f"--nodes {self.nodes}: between 1 and 20000")
        if not 0.01 <= self.speed <= 1000:
            found.append(f"--speed {self.speed}: between 0.01 and 1000")
        if not 0 <= self.pods_per_node <= MOST_PODS:
            found.append(f"--pods-per-node {self.pods_per_node}: between 0 and {MOST_PODS}, what a kubelet takes")
        if not 0 <= self.port <= 65535:
            found.append(f"--port {self.port}: between 0 (any free one) and 65535")
        if not self.name or "/" in self.name or self.name.startswith("."):
            found.append(f"--name {self.name!r}: a plain word")
        return found


def add_arguments(parser: argparse.ArgumentParser, var: Path) -> None:
    parser.add_argument("--nodes", type=int, default=256, help="how many nodes (default 256)")
    parser.add_argument("--scenario", default="calm", help="name of a scenario or path of a .yaml file (default calm)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    parser.add_argument(
        "--pods-per-node", type=int, default=0, help="the least that each node carries (default: what its jobs need)"
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed tells the same story (default 1)")
    parser.add_argument("--name", default="demo", help="name of the cluster (default demo)")
    parser.add_argument("--var", type=Path, default=var, help=f"folder for run-time files (default {var})")
    parser.add_argument("--speed", type=float, default=1.0, help="how much faster than the demo's time (default 1)")


def from_arguments(arguments: argparse.Namespace) -> Options:
    return Options(
        nodes=arguments.nodes,
        scenario=arguments.scenario,
        port=arguments.port,
        seed=arguments.seed,
        name=arguments.name,
        pods_per_node=arguments.pods_per_node,
        var=arguments.var,
        speed=arguments.speed,
        bmc_credential=os.environ.get("MUSTER_DEMO_BMC", "admin:simulated"),
    )
