"""What a log record says of itself, whichever of the usual field names its shipper uses.

Decides where the text, the claimed hosts and the writer are: names are compared without case and without the leading
underscores of the journal, because shippers change both. A text that the journal tells as bytes is read as bytes.
Refuses to take for the kernel's what the record itself says that another wrote: a container, a program. Anybody may
write a line that looks like the kernel's; only the kernel may take a node out. A unit alone proves nothing: there are
shippers that leave the unit of the record before on a line of the kernel.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Any

_TEXT = ("log", "message", "msg", "short_message")
_HOST = ("host", "hostname", "node", "node_name", "nodename")
_OF_KUBERNETES = ("node_name", "host", "pod_node_name")
_CONTAINER = ("container", "container_name", "container_id", "kubernetes_container_name")
_PROGRAM = ("syslog_identifier", "ident", "appname", "app_name", "programname", "program")
_FACILITY = ("syslog_facility", "facility")
_MARKS = frozenset({"transport", "kubernetes", *_CONTAINER, *_PROGRAM, *_FACILITY})  # what may say who wrote it
_USERLAND = frozenset({"audit", "driver", "syslog", "journal", "stdout"})  # ways into the journal, but the kernel's
_KERNEL = frozenset({"", "0", "kern", "kernel"})
_ANSI = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
Record = dict[str, Any]


def plain(text: str) -> str:
    """A text that a database takes: without NUL, and with a mark where half of a character was."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def named(record: Record) -> Record:
    """The record under names in small letters and without leading underscores; one spelled so goes before others."""
    found: Record = {}
    for key, value in record.items():
        name = key.lstrip("_").lower()
        if name == key:
            found[name] = value
        else:
            found.setdefault(name, value)
    return found


def text(record: Record) -> str:
    """What was logged, without colours; empty where there is nothing."""
    for key in _TEXT:
        found = _words(record.get(key))
        if found:
            return found
    return ""


def _words(value: Any) -> str:
    if isinstance(value, list) and value:  # the journal's spelling of bytes that are no UTF-8, or of a field told twice
        if all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 256 for one in value):
            value = bytes(value).decode("utf-8", "replace")
        else:
            value = value[0]
    if not isinstance(value, str):
        return ""
    return plain(_ANSI.sub("", value) if "\x1b" in value else value).strip()


def hosts(record: Record) -> list[str]:
    """The names of a node that the record claims, the surest first. Kubernetes' own word outranks every shipper's."""
    inner = record.get("kubernetes")
    if isinstance(inner, dict):
        said = [_name(inner.get(key)) for key in _OF_KUBERNETES]
        if any(said):
            return [next(filter(None, said))]
    found: list[str] = []
    for key in _HOST:
        value = record.get(key)
        if value is None:
            continue
        if isinstance(value, dict):  # the Elastic Common Schema
            value = value.get("name") or value.get("hostname")
        name = _name(value)
        if name and name not in found:
            found.append(name)
    return found


def _name(value: Any) -> str:
    return plain(value).strip() if isinstance(value, str) else ""


def boot(record: Record) -> str:
    """The boot that the record is of, as nodes tell theirs; empty where the journal did not say."""
    told = record.get("boot_id")
    return _boot(told) if isinstance(told, str) else ""


@lru_cache(maxsize=1024)  # a node's records tell the same one again and again
def _boot(told: str) -> str:
    try:
        return str(uuid.UUID(told.strip()))
    except ValueError:
        return ""


def of_kernel(record: Record) -> bool:
    """False where the record itself says that something else than the kernel wrote it."""
    if _MARKS.isdisjoint(record):
        return True
    inner = record.get("kubernetes")
    if any(record.get(key) for key in _CONTAINER) or (isinstance(inner, dict) and inner.get("container_name")):
        return False
    transport = _said(record, ("transport",))
    if transport == "kernel" or transport in _USERLAND:
        return transport == "kernel"
    program = _said(record, _PROGRAM).partition("[")[0].rstrip(":")
    if program:
        return program == "kernel"
    return _said(record, _FACILITY) in _KERNEL


def _said(record: Record, names: tuple[str, ...]) -> str:
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip().lower()
    return ""
