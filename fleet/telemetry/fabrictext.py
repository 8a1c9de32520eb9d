"""What the texts of fabric managers and InfiniBand exporters say.

Decides which lines of an answer may matter, which metric of ours a name means in the spelling of UFM's telemetry or of
an exporter, and which port its labels mean. A large fabric tells hundreds of thousands of lines of which a tenth is
read, so they are sorted out beside the thread that writes. Refuses to know nodes. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.ports.fabric import EndSeen, guid_of
from fleet.telemetry import names
from fleet.telemetry.exposition import BadLine, read_line
from fleet.telemetry.names import METRICS

PIECE = 20_000
"""Lines that are read in one turn of the loop: a tenth of a second when all are new."""
_UPLINK = b"infiniband_switch_uplink_info"
_SHARP_TIME = "metadata_timestamp"
_PREFIX = "infiniband_switch_port_"
_COUNTERS = {  # UFM's name without case, separators and "extended" -> ours
    "symbolerrorcounter": names.SWITCH_SYMBOL,
    "linkdownedcounter": names.SWITCH_DOWNED,
    "linkerrorrecoverycounter": names.SWITCH_RECOVERY,
    "portrcverrors": names.SWITCH_RCV_ERRORS,
    "locallinkintegrityerrors": names.SWITCH_INTEGRITY,
    "effectiveber": names.SWITCH_BER,
    "effber": names.SWITCH_BER,
}
_GUIDS, _NUMBERS = ("node_guid", "guid", "Node_GUID", "NodeGUID"), ("port_num", "port", "port_number", "Port_Number")


@dataclass(slots=True)
class Told:
    """An answer sorted out. `links` is None where the source tells of no far ends."""

    links: list[tuple[EndSeen, EndSeen]] | None = None
    pieces: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class SharpSeen:
    """What an aggregation manager says of itself; None where it does not say. `at` is its own time, in seconds."""

    invalid: float | None
    jobs: float | None
    at: float | None


def metric_of(name: str) -> str | None:
    """Our name of a switch port's series, in whichever spelling."""
    if name.startswith(_PREFIX):
        return name if name in METRICS else None
    return _COUNTERS.get(name.lower().replace("_", "").removeprefix("infiniband").replace("extended", ""))


def port_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """(GUID, port) as labels spell them; empty where they do not."""
    whole, _, number = labels.get("port_id", "").rpartition("_")
    guid = next((labels[key] for key in _GUIDS if labels.get(key)), whole)
    return guid_of(guid), next((labels[key] for key in _NUMBERS if labels.get(key)), number)


def sort_out(body: bytes) -> Told:
    """The lines that may matter. Cut lines and other rubbish are left for the reader, which counts them."""
    told, wanted, kept = Told(), dict[bytes, bool](), list[bytes]()
    for line in body.split(b"\n"):
        name = line[: max(line.find(b"{"), 0)]
        if name == _UPLINK:
            told.links = [] if told.links is None else told.links
            _link(line, told)
            continue
        known = wanted.get(name)
        if known is None:
            known = wanted[name] = metric_of(name.decode("latin-1")) is not None
        if known:
            kept.append(line)
    told.pieces = [b"\n".join(kept[at : at + PIECE]) + b"\n" for at in range(0, len(kept), PIECE)]
    return told


def _link(line: bytes, told: Told) -> None:
    try:
        labels = read_line(line)[1]
    except BadLine as error:
        told.counts[error.kind] += 1
        return
    guid, port = port_of(labels)
    if not guid or not port:
        told.counts["bad_link"] += 1
    elif labels.get("uplink_type", "CA") == "CA" and told.links is not None:  # else another switch
        far = EndSeen(guid_of(labels.get("uplink_guid")), labels.get("uplink_port", "1"), labels.get("uplink", ""))
        told.links.append((EndSeen(guid, port, labels.get("switch", "")), far))


def sharp(body: bytes) -> SharpSeen:
    """The aggregation manager's text; the worst where it says a thing more than once."""
    found: dict[str, float] = {}
    for line in body.splitlines():
        try:
            name, _, value, _ = read_line(line)
            if name in (names.SHARP_INVALID, names.SHARP_JOBS, _SHARP_TIME):
                found[name] = max(found.get(name, 0.0), float(value))
        except (BadLine, ValueError):
            continue
    at = found.get(_SHARP_TIME)
    while at is not None and 1e11 < at < 1e20:  # milli-, micro- or nanoseconds
        at /= 1000.0
    return SharpSeen(found.get(names.SHARP_INVALID), found.get(names.SHARP_JOBS), at)
