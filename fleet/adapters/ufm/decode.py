"""From UFM's JSON to links and alarms.

Decides which fields tell the ends of a link and the port of an alarm. An entry that cannot be read costs itself alone
and is counted; an answer that is no list (an error object, a log-in page, a half of one) is refused as a whole, because
a fabric without links and a fabric that was not told must not look alike.

Fields as NVIDIA documents them for UFM 6.9 to 6.22: links carry `source_guid`, `source_port`, `destination_guid`,
`destination_port`, newer ones `*_port_node_description`; ports `guid` or `name` (`<guid>_<port>`), `number`,
`node_description`; alarms `related_object_name` (`<guid>_<port>` of a port), `event_type`, `name`, `severity`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson

from fleet.ports.errors import TemporaryError
from fleet.ports.fabric import AlarmSeen, AlarmsSeen, EndSeen, LinksSeen, guid_of

_OBJECT = re.compile(r"((?:0x)?[0-9a-fA-F]{1,16})_([0-9]{1,3})")
MAX_NAME = 200


def bad_answer() -> TemporaryError:
    return TemporaryError("gave no answer of the UFM API", code="bad_answer")


def _entries(body: bytes) -> list[Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_answer() from error
    if not isinstance(found, list):
        raise bad_answer()
    return found


def links(body: bytes) -> LinksSeen:
    """The answer of `GET /ufmRest/resources/links`."""
    seen: list[tuple[EndSeen, EndSeen]] = []
    refused: Counter[str] = Counter()
    for entry in _entries(body):
        ends = [_end(entry, side) for side in ("source", "destination")] if isinstance(entry, dict) else [None]
        if None in ends:
            refused["bad_link"] += 1
        else:
            seen.append((ends[0], ends[1]))  # type: ignore[arg-type]
    return LinksSeen(seen, refused)


def _end(entry: Mapping[str, Any], side: str) -> EndSeen | None:
    guid, port = guid_of(entry.get(f"{side}_guid")), _number(entry.get(f"{side}_port"))
    if not guid or not port:
        return None
    return EndSeen(guid, port, _text(entry.get(f"{side}_port_node_description")))


def names_of_ports(body: bytes) -> dict[tuple[str, str], str]:
    """The answer of `GET /ufmRest/resources/ports` as (GUID, port) -> description of its node."""
    found: dict[tuple[str, str], str] = {}
    for entry in _entries(body):
        if not isinstance(entry, dict):
            continue
        whole = _OBJECT.fullmatch(_text(entry.get("name")))
        guid = guid_of(entry.get("systemID")) or guid_of(entry.get("guid"))
        key = (guid_of(whole[1]), whole[2]) if whole else (guid, _number(entry.get("number")))
        name = _text(entry.get("node_description")) or _text(entry.get("system_name"))
        if all(key) and name:
            found[key] = name
    return found


def named(seen: LinksSeen, names: Mapping[tuple[str, str], str]) -> LinksSeen:
    """The same links with the names that another list tells."""

    def name(end: EndSeen) -> EndSeen:
        return end if end.name else EndSeen(end.guid, end.port, names.get((end.guid, end.port), ""))

    return LinksSeen([(name(one), name(other)) for one, other in seen.links], seen.refused)


def alarms(body: bytes) -> AlarmsSeen:
    """The answer of `GET /ufmRest/app/alarms`. Alarms of whole systems are none of a port and are counted."""
    seen: list[AlarmSeen] = []
    refused: Counter[str] = Counter()
    for entry in _entries(body):
        if not isinstance(entry, dict):
            refused["bad_alarm"] += 1
            continue
        whole = _OBJECT.fullmatch(_text(entry.get("related_object_name") or entry.get("object_name")))
        code = _number(entry.get("event_type") or entry.get("type"))
        if not whole:
            refused["alarm_of_no_port"] += 1
        elif not code:
            refused["bad_alarm"] += 1
        else:
            name = _text(entry.get("name")) or _text(entry.get("summary"))
            severity = _text(entry.get("severity"))
            seen.append(AlarmSeen(guid_of(whole[1]), whole[2], code, name, severity))
    return AlarmsSeen(seen, refused)


def _number(found: Any) -> str:
    if isinstance(found, bool):
        return ""
    text = str(found) if isinstance(found, int | str) else ""
    return text if text.isascii() and text.isdigit() and len(text) <= 4 else ""


def _text(found: Any) -> str:
    text = " ".join(found.split())[:MAX_NAME] if isinstance(found, str) else ""
    return text if text.isprintable() else ""
