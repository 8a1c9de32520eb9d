"""Slurm through slurmrestd, and through scontrol where its REST server cannot: the entry points of `fleet.wiring`.

Decides what a connection consists of. Refuses to run without a token: slurmrestd answers nobody who is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.slurm.reading import SlurmPoll
    from fleet.ports.cluster import ClusterActor, ClusterReader


@dataclass(frozen=True, slots=True)
class Connection:
    """`token` gives the JWT at each call, for it expires; an empty `user` is whoever the token names; `verify` is
    False, True or the authorities' file."""

    url: str
    user: str
    token: Callable[[], str]
    verify: bool | str = True
    timeout: float = 8.0
    max_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Scontrol:
    """Slurm's command line on this host. `config` is its slurm.conf, "" for the usual place; `token` gives the JWT, ""
    where munge says who we are."""

    program: str
    config: str = ""
    token: Callable[[], str] = str
    timeout: float = 20.0


@dataclass(frozen=True, slots=True)
class Space:
    """Where tests of nodes leave what they print, and as what they run. `output` is a folder that the nodes and we see
    at the same path, "" where there is none and no test can run; an empty partition is the first one of the node."""

    output: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""


def poll(connection: Connection, names: Callable[[], Mapping[str, str]] = dict) -> SlurmPoll:
    """A GangPoll of one slurmctld. `names`: Slurm's name of a node -> the cluster's, where they differ."""
    from fleet.adapters.slurm.reading import SlurmPoll

    return SlurmPoll(connection, names)


def reader(connection: Connection) -> ClusterReader:
    """A ClusterReader of a cluster that only Slurm tells of."""
    from fleet.adapters.slurm.looking import SlurmReader

    return SlurmReader(connection)


def beside(
    inner: ClusterReader, connection: Connection, names: Callable[[], Mapping[str, str]] = dict
) -> ClusterReader:
    """The ClusterReader of a Kubernetes cluster, with Slurm's claim to a host told among the requests on it."""
    from fleet.adapters.slurm.neighbour import BesideReader

    return BesideReader(inner, connection, names)


def actor(
    connection: Connection, installation: str, scontrol: Scontrol | None = None, space: Space | None = None
) -> ClusterActor:
    """A ClusterActor: by REST where the server can, by `scontrol` else. `installation` is written into each hold."""
    from fleet.adapters.slurm.acting import SlurmActor
    from fleet.adapters.slurm.telling import Telling

    return SlurmActor(Telling(connection, scontrol), installation, space or Space())
