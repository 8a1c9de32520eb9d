"""Harnesses of what adapters are answered and of the files that people write."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

from fleet.adapters.kubernetes import decode
from fleet.adapters.kubernetes.errors import Answer, Call, eviction_refused, refused
from fleet.adapters.kubernetes.watch import ListWatch, Resource, _Cursor
from fleet.adapters.prometheus import decode as prometheus
from fleet.adapters.prometheus.errors import document_of
from fleet.adapters.prometheus.errors import refused as prometheus_refused
from fleet.adapters.redfish import identity, system
from fleet.adapters.ufm import decode as ufm
from fleet.health.rules.siterules import BadRules, parse
from fleet.inventory import files, targets
from fleet.lifecycle import playbook_file
from fleet.policy import document_file
from fleet.policy.document import text_of
from fleet.ports import plainyaml
from fleet.ports.cluster import Change, NodeSeen, PodSeen
from fleet.ports.errors import PermanentError, PortError
from fleet.ports.power import BmcTarget
from fleet.simulator import scenarios
from tests.fuzz.texts import refusing, storable

_FOLDER = Path(tempfile.gettempdir())


def promql(data: bytes) -> None:
    """Columns of one length, labels that are texts, times that are times; or a refusal."""
    vector = refusing(prometheus.vector, data)
    if vector is not None:
        assert len(vector.labels) == len(vector.values) == len(vector.stamps)
        assert all(isinstance(text, str) for labels in vector.labels for text in labels.values())
        assert all(len(text) <= 300 for text in vector.warnings)
    curves = refusing(prometheus.curves, data)
    for curve in curves.curves if curves else ():
        assert len(curve.values) == len(curve.stamps)
        assert all(datetime.fromtimestamp(stamp, UTC) for stamp in curve.stamps.tolist())
    assert isinstance(prometheus_refused(500, document_of(data), "9" * 400), PortError)


def _node(seen: NodeSeen) -> None:
    storable(seen.name, 1 << 30)
    storable(seen.ready_reason, 1 << 30)
    for three in seen.conditions.values():
        for text in three:
            storable(text, 1 << 30)
    for number in (seen.gpu_capacity, seen.gpu_allocatable):
        assert number is None or abs(number) < 1 << 33
    orjson.dumps(seen.labels)


def _pod(seen: PodSeen) -> None:
    storable(f"{seen.namespace}{seen.name}{seen.node}{seen.gang}", 1 << 30)
    assert 0 <= seen.gpus < 1 << 62 and 0 <= seen.grace_seconds < 1 << 31


def kubernetes(data: bytes) -> None:
    """Objects, refusals and watch lines; an object without a name is the only one that is not read."""
    call = Call("https://api", "watch", "nodes")
    answer = Answer(409, {}, data)
    for error in (refused(call, answer), eviction_refused(call, answer, "a")):
        assert isinstance(error, PortError) and str(error)
    counts: Counter[str] = Counter()
    watch = ListWatch(SimpleNamespace(address="https://api"), _NODES, counts, None)  # type: ignore[arg-type]
    try:
        change = watch._change(call, data, _Cursor("1"))
    except PortError:
        change = None
    if isinstance(change, Change) and isinstance(change.item, NodeSeen):
        _node(change.item)
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    for read, check in ((decode.node, _node), (decode.pod, _pod), (decode.event, None)):
        try:
            seen: Any = read(raw)
        except decode.Undecodable:
            assert not decode.node_key(raw)
            continue
        if check:
            check(seen)


_NODES = Resource("nodes", "/api/v1/nodes", {}, decode.node, decode.node_key)
_TARGET = BmcTarget(1, "n1", "https://bmc", "u", "p", True, "c7a5fdbd-cdaf-9455-926a-d65c16db1809", "SN-1")


def redfish(data: bytes) -> None:
    """A system of a BMC: whatever it says, only the pinned identity is a match."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    one = SimpleNamespace(json=raw, get_allowed_reset_system_values=list)
    seen = system.reading(one, datetime(2026, 1, 1, tzinfo=UTC))
    found = system.identity_of(one)
    assert isinstance(seen.uuid, str) and isinstance(seen.resets, tuple)
    system.can_reset(one)
    if identity.matches(found, identity.pins_of(_TARGET)):
        told = found.uuid.partition("-")[0]
        assert told in ("c7a5fdbd", "bdfda5c7") or found.serial.casefold() == "sn-1"
    listed = SimpleNamespace(members_identities=("/a/1", "/a/2"), json=raw)
    pages = SimpleNamespace(get=lambda path: SimpleNamespace(json=lambda: raw))
    service = SimpleNamespace(get_system_collection=lambda: listed, get_system=lambda path: one, _conn=pages)
    try:
        system.choose_system(service, _TARGET)
    except PortError as error:
        assert str(error)


def _inventory(data: bytes, suffix: str) -> None:
    path = _FOLDER / f"muster-fuzz-inventory{suffix}"
    path.write_bytes(data)
    try:
        lines, report = files.read_file(path)
    except files.UnreadableFile as error:
        storable(str(error).replace("\0", ""), 2_000)
        return
    assert sum(report.counts.values()) == len(report.errors)
    assert set(report.counts) <= {"bad_encoding", "bad_line", "bad_column", "bad_cell"}
    for line in lines:
        for column, text in line.values.items():
            assert column in files.COLUMNS
            storable(text, files.LONGEST.get(column, 0) or len(text))


def inventory_csv(data: bytes) -> None:
    _inventory(data, ".csv")


def inventory_yaml(data: bytes) -> None:
    _inventory(data, ".yaml")


def site_rules(data: bytes) -> None:
    try:
        parse(data.decode("utf-8", "surrogateescape"), "rules.yaml")
    except BadRules as error:
        assert error.mistakes and all(mistake.line >= 1 and mistake.text for mistake in error.mistakes)
        assert len(str(error)) < 100_000 + 50 * len(data)


def playbooks(data: bytes) -> None:
    try:
        playbook_file.parse(data.decode("utf-8", "surrogateescape"), "book.yaml")
    except playbook_file.BadPlaybooks as error:
        assert error.mistakes and all(mistake.line >= 1 and mistake.text for mistake in error.mistakes)


def policy(data: bytes) -> None:
    try:
        found = document_file.parse(data.decode("utf-8", "surrogateescape"), "policy.yaml", ["seoul"], ["operator"])
    except document_file.BadPolicy as error:
        assert error.mistakes and all(mistake.line >= 1 and mistake.text for mistake in error.mistakes)
        return
    assert document_file.parse(text_of(found), "again", ["seoul"], ["operator"]) == found


def target_list(data: bytes) -> None:
    try:
        targets.parse(data.decode("utf-8", "surrogateescape"))
    except targets.BadTargets as error:
        assert str(error)


def fabric(data: bytes) -> None:
    """Answers of a UFM: each entry is a link or an alarm, or counted."""
    links = refusing(ufm.links, data)
    names = refusing(ufm.names_of_ports, data)
    if links is not None and names is not None:
        assert len(links.links) + sum(links.refused.values()) == len(orjson.loads(data))
        for one, other in ufm.named(links, names).links:
            storable(f"{one.guid}{one.port}{one.name}{other.guid}{other.port}{other.name}", 700)
    found = refusing(ufm.alarms, data)
    if found is not None:
        assert len(found.alarms) + sum(found.refused.values()) == len(orjson.loads(data))


def scenario(data: bytes) -> None:
    path = _FOLDER / "muster-fuzz-scenario.yaml"
    path.write_bytes(data)
    try:
        scenarios.load(str(path))
    except scenarios.ScenarioError as error:
        assert str(error)


def kubeconfig(data: bytes) -> None:
    from fleet.adapters.kubernetes import credentials

    path = str(_FOLDER / "muster-fuzz-kubeconfig")
    Path(path).write_bytes(data)
    try:
        document = credentials.read_document(path)
        _, user = credentials.chosen_user(path, document, None)
        credentials.refuse_programs(path, user, frozenset({"allowed"}))
    except PermanentError as error:
        assert error.code in ("kubeconfig", "kubeconfig_exec")


def plain_yaml(data: bytes) -> None:
    import yaml

    try:
        plainyaml.load(data.decode("utf-8", "surrogateescape"))
    except yaml.YAMLError as error:
        assert str(error)
