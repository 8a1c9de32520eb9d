"""Reservations of Slurm, and those of ours among them: what keeps a node from users' jobs while a test of ours starts.

Decides how a reservation of ours is named (it carries the hold that it stands for and whose it is), and when it keeps
everybody else out: it stands now and for long, on that one node, for our user alone, and over every other reservation.
Refuses one that anybody has changed since, and to be alone with another maintenance, which shares the node with ours.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.adapters.slurm.marks import Mark, name_of
from fleet.adapters.slurm.values import hosts, moment, states, words
from fleet.ports.errors import PermanentError
from fleet.ports.shapes import text

LONG = timedelta(days=30)
"""Slurm ends what was made without an end after a year; less than this is not what we made."""
OVER_ALL = "MAINT"
_NAME = re.compile(r"muster-hold\.(?P<incident>[\w-]+)\.(?P<op>[\w-]+)\.(?P<by>[\w.-]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reservation:
    """`value` and `by` are of the hold that it stands for, "" when it is not one of Muster's."""

    name: str
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    flags: frozenset[str]
    others: bool  # accounts, groups or the like may use it, too
    starts: datetime | None
    ends: datetime | None
    value: str = ""
    by: str = ""

    @property
    def mark(self) -> Mark:
        return Mark(self.value, self.by)

    def weak(self, node: str, user: str, now: datetime) -> str:
        """Why it does not keep the node for us alone; "" when it does."""
        if self.nodes != (node,):
            return f"it covers {', '.join(self.nodes[:3]) or 'no node'}"
        if self.users != (user,) or self.others:
            return f"it is not for {user} alone"
        if OVER_ALL not in self.flags:
            return "it is no maintenance"
        if self.starts is None or self.starts > now + timedelta(minutes=1):  # two clocks
            return "it has not begun"
        return "it ends soon" if self.ends is None or self.ends < now + LONG else ""


def name_for(value: str, installation: str) -> str:
    """`value` is a hold's, `<incident>/<op_id>`. Raises PermanentError for one that no name can carry."""
    name = f"muster-hold.{value.replace('/', '.')}.{name_of(installation)}"
    if value.count("/") != 1 or not _NAME.fullmatch(name):
        raise PermanentError(f"The hold {value!r} cannot be named in a reservation of Slurm.", code="slurm_error")
    return name


def is_ours(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def read(raw: dict[str, Any]) -> Reservation:
    name = text(raw.get("name"))
    ours = _NAME.fullmatch(name)
    return Reservation(
        name=name,
        nodes=hosts(raw.get("node_list")),
        users=words(raw.get("users")),
        flags=states(raw.get("flags")),
        others=any(bool(raw.get(key)) for key in ("accounts", "groups", "allowed_partitions", "qos")),
        starts=moment(raw.get("start_time")),
        ends=moment(raw.get("end_time")),
        value=f"{ours['incident']}/{ours['op']}" if ours else "",
        by=ours["by"] if ours else "",
    )


def those_beside_ours(raws: Iterable[dict[str, Any]]) -> list[Reservation]:
    """Those that share a node with one of ours, and ours; none, without reading long lists, while there is none."""
    told = list(raws)
    mine = {node for raw in told if is_ours(text(raw.get("name"))) for node in hosts(raw.get("node_list"))}
    return [one for one in map(read, told) if mine.intersection(one.nodes)] if mine else []


def ours(found: Iterable[Reservation], node: str) -> Reservation | None:
    """Muster's on that node, whichever installation's."""
    return next((one for one in found if one.value and node in one.nodes), None)


def beside(found: Iterable[Reservation], node: str) -> list[str]:
    """Names of other maintenances of the node: their users' jobs may run there although ours stands."""
    return sorted(one.name for one in found if not one.value and node in one.nodes and OVER_ALL in one.flags)
