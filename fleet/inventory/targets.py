"""A cluster's list of targets: exporters that nobody announces, and the fabric's managers, from a YAML file.

    version: 1
    nodes:
      gpu-001:
        exporters: {dcgm: http://10.0.0.1:9400/metrics, node: http://10.0.0.1:9100/metrics}
        labels: {topology.muster.dev/rack: r01}
        ports: {mlx5_0: "0x1070fd03000e1a2c"}
    fabric:
    - ufm: https://ufm.example.com
      credential: file:/etc/muster/ufm

Decides what the file says and, of each mistake, the place and what is allowed; all of them at once, so that nobody
mends one to find the next. Refuses unknown and doubled keys, a credential that is written out, and a file with any
mistake as a whole: half a list would look like exporters that went away. Pure: the caller reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from fleet.ports import plainyaml
from fleet.ports.fabric import guid_of

VERSION = 1
MAX_CHARS = 64 * 1024 * 1024
KINDS = ("dcgm", "node", "smartctl", "nvme", "ipmi", "redfish", "lustre", "gpfs", "weka", "sharp")
"""Exporters whose series are read. `sharp` is the aggregation manager's telemetry, listed under the host it runs on."""
EVERY, LEAST_EVERY, MOST_EVERY = 30.0, 1.0, 300.0
"""Seconds between two readings of a fabric: its managers sample about every 30 s."""
NODE_KEYS = ("exporters", "labels", "addresses", "ports")
UFM_KEYS = ("ufm", "credential", "ca", "telemetry", "sharp", "every")
EXPORTER_KEYS = ("exporter", "ca", "every")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_SHOWN = 20


class BadTargets(ValueError):
    """The file cannot be used. `mistakes` are sentences that name their place."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        more = [f"... and {len(mistakes) - _SHOWN} more."] if len(mistakes) > _SHOWN else []
        super().__init__("\n".join([*mistakes[:_SHOWN], *more]))


@dataclass(frozen=True, slots=True)
class ListedNode:
    """What the list says of a node. `exporters` is kind -> address, `ports` is HCA -> GUID as 16 hex digits."""

    name: str
    exporters: Mapping[str, str]
    labels: Mapping[str, str]
    addresses: tuple[str, ...]
    ports: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FabricSource:
    """Who tells of switches and cables: `url` is a UFM's REST API; without one, `telemetry` is an exporter's address.

    `credential` is `env:NAME` or `file:PATH`; `ca` is empty for the system's authorities, "insecure" or a path.
    """

    url: str = ""
    credential: str = ""
    ca: str = ""
    telemetry: str = ""
    sharp: str = ""
    every: float = EVERY

    @property
    def name(self) -> str:
        """Its host, for sentences."""
        return urlsplit(self.url or self.telemetry).netloc


@dataclass(frozen=True, slots=True)
class Targets:
    nodes: Mapping[str, ListedNode] = field(default_factory=dict)
    fabric: tuple[FabricSource, ...] = ()

    def ports(self) -> dict[str, tuple[str, str]]:
        """GUID -> (node, HCA), where the list tells."""
        return {guid: (node.name, hca) for node in self.nodes.values() for hca, guid in node.ports.items()}


NOTHING = Targets()


def parse(text: str) -> Targets:
    """The list that a file's text says. Raises BadTargets."""
    if len(text) > MAX_CHARS:
        raise BadTargets([f"The list of targets is larger than {MAX_CHARS >> 20} MiB."])
    try:
        document = plainyaml.load(text, keys_once=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise BadTargets([f"{where}this cannot be used: {what}."]) from error
    return _Reader().read(document)


class _Reader:
    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def read(self, document: Any) -> Targets:
        top = self._mapping("the file", document, ("version", "nodes", "fabric"))
        if top.get("version") != VERSION:
            self.mistakes.append(f"version: must be {VERSION}, not {top.get('version')!r}.")
        nodes = self._mapping("nodes", top.get("nodes") or {}, None)
        listed = {str(name): self._node(str(name), entry) for name, entry in nodes.items()}
        fabric = top.get("fabric") or []
        if not isinstance(fabric, list):
            self.mistakes.append("fabric: must be a list.")
            fabric = []
        sources = tuple(self._source(f"fabric[{number}]", entry) for number, entry in enumerate(fabric))
        self._doubled(listed)
        if self.mistakes:
            raise BadTargets(self.mistakes)
        return Targets(listed, sources)

    def _mapping(self, where: str, found: Any, known: tuple[str, ...] | None) -> dict[str, Any]:
        if not isinstance(found, dict):
            self.mistakes.append(f"{where}: must be a mapping, not {_kind(found)}.")
            return {}
        for key in found if known else ():
            if key not in (known or ()):
                self.mistakes.append(f"{where}: {key!r} is not known here; known are {', '.join(known or ())}.")
        return found

    def _texts(self, where: str, found: Any) -> dict[str, str]:
        pairs = self._mapping(where, {} if found is None else found, None)
        for key, value in pairs.items():
            if not isinstance(key, str) or not isinstance(value, str):
                self.mistakes.append(f"{where}.{key}: must be text; put it in quotation marks.")
        return {key: value for key, value in pairs.items() if isinstance(key, str) and isinstance(value, str)}

    def _node(self, name: str, entry: Any) -> ListedNode:
        where = f"nodes.{name}"
        if not _NAME.fullmatch(name):
            self.mistakes.append(f"{where}: is no name of a node.")
        found = self._mapping(where, {} if entry is None else entry, NODE_KEYS)
        exporters = self._texts(f"{where}.exporters", found.get("exporters"))
        for kind, address in exporters.items():
            if kind not in KINDS:
                self.mistakes.append(f"{where}.exporters: there is no kind {kind!r}; known are {', '.join(KINDS)}.")
            self._address(f"{where}.exporters.{kind}", address)
        ports = self._texts(f"{where}.ports", found.get("ports"))
        for hca, guid in ports.items():
            if not guid_of(guid):
                self.mistakes.append(f"{where}.ports.{hca}: {guid!r} is no GUID.")
        addresses = found.get("addresses") or []
        if not isinstance(addresses, list) or not all(isinstance(item, str) for item in addresses):
            self.mistakes.append(f"{where}.addresses: must be a list of texts.")
            addresses = []
        labels = self._texts(f"{where}.labels", found.get("labels"))
        return ListedNode(name, exporters, labels, tuple(addresses), {h: guid_of(guid) for h, guid in ports.items()})

    def _source(self, where: str, entry: Any) -> FabricSource:
        if not isinstance(entry, dict) or ("ufm" in entry) == ("exporter" in entry):
            self.mistakes.append(f"{where}: must be a mapping with either 'ufm' or 'exporter'.")
            return FabricSource()
        ufm = "ufm" in entry
        self._mapping(where, entry, UFM_KEYS if ufm else EXPORTER_KEYS)
        for key in ("ufm", "exporter", "telemetry", "sharp"):
            if entry.get(key) is not None:
                self._address(f"{where}.{key}", entry[key])
        credential, ca = entry.get("credential", ""), entry.get("ca", "")
        if not isinstance(credential, str) or (credential and not _REFERENCE.fullmatch(credential)):
            self.mistakes.append(f"{where}.credential: is named by env:NAME or file:PATH; it is not written here.")
        if not isinstance(ca, str):
            self.mistakes.append(f"{where}.ca: is the path of a bundle, or insecure.")
        every = entry.get("every", EVERY)
        if isinstance(every, bool) or not isinstance(every, int | float) or not LEAST_EVERY <= every <= MOST_EVERY:
            self.mistakes.append(f"{where}.every: must be {LEAST_EVERY:g} to {MOST_EVERY:g} seconds.")
            every = EVERY
        url, telemetry = (entry.get("ufm"), entry.get("telemetry")) if ufm else ("", entry.get("exporter"))
        return FabricSource(
            str(url or ""), str(credential), str(ca), str(telemetry or ""), str(entry.get("sharp") or ""), float(every)
        )

    def _address(self, where: str, text: Any) -> None:
        try:
            parts = urlsplit(text if isinstance(text, str) else "")
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            good = False
        if not good:
            self.mistakes.append(f"{where}: must begin with http:// or https:// and name a host.")
        elif parts.username or parts.password:
            self.mistakes.append(f"{where}: carries a credential; name it by reference instead.")

    def _doubled(self, nodes: Mapping[str, ListedNode]) -> None:
        """One GUID or one exporter on two nodes would give one node's samples to the other."""
        seen: dict[str, str] = {}
        for node in nodes.values():
            for what in (*node.ports.values(), *node.exporters.values()):
                other = seen.setdefault(what, node.name)
                if other != node.name:
                    self.mistakes.append(f"nodes.{node.name}: {what} is listed under {other} as well.")


def _kind(found: Any) -> str:
    return {type(None): "nothing", list: "a list", str: "a text"}.get(type(found), "a number")
