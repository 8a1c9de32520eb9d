"""Cables: which HCA port hangs on which port of which switch.

Decides from a link's two ends, as a fabric manager or an exporter names them, whose the cable is: the end whose name is
one of our nodes and an HCA (`gpu-001 mlx5_3`), or whose GUID the site has listed. Refuses to guess: a name that says
only `HCA-1` numbers the adapters in an order that differs from host to host, so without its GUID it is counted, not
joined. Links between switches, and of hosts that are not ours, are none of our cables. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleet.ports.fabric import EndSeen
from fleet.telemetry.series import Resolver

_HCA = re.compile(r"HCA-\d+", re.IGNORECASE)
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_]*\d[A-Za-z0-9_]*")
_DEFAULT_NAME = re.compile(r"MF0;([^:;]+):")  # what a switch with an operating system calls itself


@dataclass(frozen=True, slots=True)
class Cable:
    """`port` is the HCA port as its node knows it (`mlx5_3/1`)."""

    node: str
    port: str
    switch: str
    switch_guid: str
    switch_port: str


@dataclass(slots=True)
class Joined:
    """`unjoined` counts, by reason, ends of our nodes that could not be joined; `example` names one."""

    cables: dict[tuple[str, str], Cable] = field(default_factory=dict)  # by switch GUID and port
    unjoined: Counter[str] = field(default_factory=Counter)
    example: str = ""


def join(links: Iterable[tuple[EndSeen, EndSeen]], resolve: Resolver, listed: Mapping[str, tuple[str, str]]) -> Joined:
    """`listed` is GUID -> (node, HCA), where the site tells."""
    found = Joined()
    ends: dict[tuple[str, str], tuple[str, str]] = {}
    for link in links:
        for end, other in (link, link[::-1]):
            owner = _owner(end, resolve, listed, found)
            if owner is None:
                continue
            key = (other.guid, other.port)
            if owner in ends and ends[owner] != key:  # one port, two cables: neither is to be believed
                found.unjoined["port_twice"] += 1
                found.cables.pop(ends[owner], None)
                continue
            ends[owner] = key
            found.cables[key] = Cable(*owner, switch_name(other), other.guid, other.port)
            break
    return found


def _owner(
    end: EndSeen, resolve: Resolver, listed: Mapping[str, tuple[str, str]], found: Joined
) -> tuple[str, str] | None:
    """(node, port) of an end that is an HCA of ours."""
    host, _, device = end.name.partition(" ")
    if end.guid in listed:
        host, device = listed[end.guid]
    node = resolve(host) if host else None
    if not isinstance(node, str):
        if node is not None:
            found.unjoined["ambiguous_node"] += 1
        return None
    if not device or _HCA.fullmatch(device) or not _DEVICE.fullmatch(device):
        found.unjoined["unnamed_hca"] += 1
        found.example = found.example or f"{end.name} (GUID {end.guid})"
        return None
    return node, f"{device}/{end.port}"


def switch_name(end: EndSeen) -> str:
    """A switch's own name, without the port or the model that some spellings add; its GUID where it has none."""
    default = _DEFAULT_NAME.match(end.name)
    return (default[1] if default else end.name.removesuffix(f":{end.port}")) or end.guid
