"""Where a gang's Ray dashboard is asked, and whether it may be asked there.

Decides by what the operator says of the head's service, in the gang's own namespace alone, and by the address that the
name means now. An object that a tenant can write names it, so nothing is asked at loopback, link-local, multicast or
public addresses, nor where clouds tell secrets, unless the site allows those networks. Refuses to resolve names, and a
token for any place that is not the service of the cluster's head in a namespace that may have it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

from fleet.gangs.conditions.rayfacts import cluster_of
from fleet.gangs.form import NOT_WANTED, Gang

PORT = 8265
Network = IPv4Network | IPv6Network
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_OF_CLUSTERS = tuple(
    ipaddress.ip_network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_SECRETS = frozenset(
    ipaddress.ip_address(one) for one in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
"""Metadata servers of clouds that are not link-local."""


@dataclass(frozen=True, slots=True)
class Place:
    """`service`: it is named as a service of the gang's own namespace; else only an allowed network makes it one."""

    url: str
    host: str
    port: int
    namespace: str
    service: bool

    def gets_token(self, namespaces: Collection[str]) -> bool:
        return self.service and self.namespace in namespaces


def is_worth_asking(gang: Gang) -> bool:
    """Its head answers as far as anybody knows, and there is something to find."""
    cluster = cluster_of(gang)
    if cluster is None or cluster.ray is None or gang.state in NOT_WANTED or cluster.finished:
        return False
    head = cluster.ray.head_ready
    return head if head is not None else any(m.state == "ready" for m in gang.members if m.role == "head")


def place_of(gang: Gang) -> Place | str:
    """The dashboard's place, or a sentence that says why there is none. By the cluster's object before its job's."""
    told = [one for one in gang.objects if one.ray is not None and one.ray.address]
    told.sort(key=lambda one: one.ref.kind != "RayCluster")
    if not told:
        return f"{gang.title} tells no address of its dashboard."
    address, namespace = told[0].ray.address, told[0].ref.namespace  # type: ignore[union-attr]
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORT
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme not in ("http", "https") or parts.username is not None or parts.query or parts.fragment:
        return f"{gang.title} tells an address of its dashboard that is none."
    labels = host.split(".")
    service = len(labels) >= 3 and labels[1:3] == [namespace, "svc"] and all(map(_LABEL.match, labels))
    shown = f"[{host}]" if ":" in host else host
    path = "" if service else parts.path.rstrip("/")  # a service has no other door than its own
    return Place(f"{parts.scheme}://{shown}:{port}{path}", host, port, namespace, bool(service))


def refusal(place: Place, addresses: Sequence[str], *, inside: bool, allowed: Sequence[Network]) -> str:
    """Why the place may not be asked at the addresses that its name means, "" when it may.

    `inside`: we run in that cluster, so that its services are ours to reach. All addresses count: which of them is
    used in the end is not known here.
    """
    if not addresses:
        return f"{place.host} has no address."
    for address in addresses:
        try:
            ip = _plain(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            return f"{place.host} means {address[:60]}, which is no address."
        if any(ip in network for network in allowed if network.version == ip.version):
            continue
        if not (inside and place.service):
            return f"{place.host} is no service of a cluster that Muster runs in."
        if not _is_of_a_cluster(ip):
            return f"{place.host} means {ip}, where no service of a cluster lies."
    return ""


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """What an IPv6 address that wraps an IPv4 one reaches."""
    if isinstance(ip, IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour
        if wrapped is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            wrapped = IPv4Address(int(ip) & 0xFFFF_FFFF)
        return wrapped or ip
    return ip


def _is_of_a_cluster(ip: IPv4Address | IPv6Address) -> bool:
    return ip not in _SECRETS and any(ip in network for network in _OF_CLUSTERS if network.version == ip.version)
