"""Inventory import: BMC addresses, pins, places and credential references, line by line.

Decides what each line changes. Good lines are taken although others are bad. Refuses to change a pinned UUID or serial
unless told to re-pin (a power call trusts them), an address, serial or UUID that two nodes claim (neither gets it), one
that a maker left unset, and a node it does not know. Where no node can be known yet (the cluster was never connected,
or the caller expects more), the inventory makes rows for nodes to come: gone until they are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.inventory.files import BMC_KINDS, PLACES, Line, Report
from fleet.inventory.models import Alias, Bmc, Cluster, Node
from fleet.ports import hardwareid

CLAIMS = (("address", "bmc_address"), ("serial", "serial"), ("uuid", "bmc_uuid"))
PINS = (("pinned_serial", "serial"), ("pinned_uuid", "bmc_uuid"))
ALIASES = (("serial", "serial"), ("bmc_uuid", "bmc_uuid"), ("slurm", "slurm"))


class _Refused(Exception):
    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Import:
    """One run: what the database says, and what the lines make of it."""

    def __init__(self, cluster: Cluster, lines: Sequence[Line], repin: bool, expect: bool, now: datetime) -> None:
        self.cluster, self.repin, self.report = cluster, repin, Report()
        self.nodes = {n.name: n for n in Node.objects.filter(Q(gone_at=None) | Q(uid=""), cluster=cluster)}
        if expect:
            self._expect({line.get("node") for line in lines} - {""}, now)
        self.bmcs: dict[int, list[Bmc]] = {}
        self.claims: dict[tuple[str, str], set[str]] = {}
        for bmc in Bmc.objects.select_related("node").filter(Q(node__gone_at=None) | Q(node__uid="")):
            self.bmcs.setdefault(bmc.node_id, []).append(bmc)
            for kind, value in (("address", bmc.address), ("serial", bmc.pinned_serial), ("uuid", bmc.pinned_uuid)):
                self._claim(kind, value, bmc.node.name)
        for line in lines:
            for kind, column in CLAIMS:
                self._claim(kind, line.get(column), line.get("node"))
        self.moved: dict[int, Node] = {}
        self.changed: dict[int, Bmc] = {}  # by identity of the object: a new one has no key yet
        self.aliases: set[tuple[int, str, str]] = set()
        self.stale: set[tuple[int, str, str]] = set()

    def _expect(self, names: set[str], now: datetime) -> None:
        """Nodes that were never seen have no uid; ones that are gone may be named again."""
        gone = Node.objects.filter(cluster=self.cluster, name__in=names).exclude(gone_at=None)
        self.nodes |= {node.name: node for node in gone}
        fresh = [
            Node(cluster=self.cluster, name=name[:253], first_seen_at=now, seen_at=now, gone_at=now)
            for name in sorted(names - self.nodes.keys())
        ]
        self.nodes |= {node.name: node for node in Node.objects.bulk_create(fresh, batch_size=1000)}

    def _claim(self, kind: str, value: str, node: str) -> None:
        if value:
            self.claims.setdefault((kind, value.casefold()), set()).add(node)

    def take(self, line: Line) -> None:
        self.report.lines += 1
        try:
            node = self._node(line)
            bmc = self._bmc(line, node)
        except _Refused as error:
            self.report.refuse(line.number, error.code, str(error))
            return
        if bmc is not None:
            self._settle(line, node, bmc)
        for scope in PLACES:
            new, old = line.get(scope)[:100], getattr(node, scope)
            if new and new != old:
                self.report.change(node.name, scope, old, new)
                setattr(node, scope, new)
                self.moved[node.pk] = node
        self.aliases |= {(node.pk, kind, line.get(column)[:253]) for kind, column in ALIASES if line.get(column)}

    def _node(self, line: Line) -> Node:
        name = line.get("node")
        if not name:
            raise _Refused("no_node", "names no node.")
        if name not in self.nodes:
            raise _Refused("unknown_node", f"{name!r} is not a node of {self.cluster.name}.")
        address, kind = line.get("bmc_address"), line.get("bmc_kind") or "host"
        if kind not in BMC_KINDS:
            raise _Refused("bad_kind", f"bmc_kind {kind!r} is neither {' nor '.join(BMC_KINDS)}.")
        if address and not address.startswith(("https://", "http://")):
            raise _Refused("bad_address", f"the BMC address {address!r} does not begin with https:// or http://.")
        for column, read in (("serial", hardwareid.serial), ("bmc_uuid", hardwareid.uuid)):
            if (value := line.get(column)) and not read(value):
                text = f"{value!r} is what a maker leaves unset, and no {column} of {name!r}; leave the cell empty."
                raise _Refused("no_identity", text)
        for what, column in CLAIMS:
            value = line.get(column)
            owners = sorted(self.claims.get((what, value.casefold()), ()))
            if len(owners) > 1:
                raise _Refused(f"duplicate_{what}", f"the {what} {value!r} is claimed by {' and '.join(owners)}.")
        return self.nodes[name]

    def _bmc(self, line: Line, node: Node) -> Bmc | None:
        """The BMC a line is about: of the same address, else of the same pinned identity (it moved), else new."""
        address, kind = line.get("bmc_address"), line.get("bmc_kind") or "host"
        if not address:
            return None
        own = [bmc for bmc in self.bmcs.get(node.pk, []) if bmc.kind == kind]
        for bmc in own:
            if bmc.address == address:
                break
        else:
            same = [
                bmc for bmc in own
                if any(line.get(c) and getattr(bmc, p).casefold() == line.get(c).casefold() for p, c in PINS)
            ]  # fmt: skip
            bmc = same[0] if same else Bmc(node=node, kind=kind)
        for pin, column in PINS:
            old, new = getattr(bmc, pin), line.get(column)
            if old and new and old.casefold() != new.casefold() and not self.repin:
                text = f"{node.name} is pinned to {pin[7:]} {old!r}; --repin would change it to {new!r}."
                raise _Refused("pinned", text)
        return bmc

    def _settle(self, line: Line, node: Node, bmc: Bmc) -> None:
        if not bmc.address:
            self.bmcs.setdefault(node.pk, []).append(bmc)
        columns = (("address", "bmc_address"), *PINS, ("credential_ref", "credential_ref"), ("ca", "ca"))
        for name, column in columns:
            old, new = getattr(bmc, name), line.get(column)
            if not new or old == new:
                continue
            if (name, column) in PINS and old:
                self.stale.add((node.pk, column, old))
            self.report.change(node.name, name, old, new)
            setattr(bmc, name, new)
            self.changed[id(bmc)] = bmc

    def store(self, by: str, now: datetime) -> None:
        cluster, bmcs = self.cluster, list(self.changed.values())
        Node.objects.bulk_update(self.moved.values(), PLACES, batch_size=500)
        Bmc.objects.bulk_create([b for b in bmcs if b.pk is None], batch_size=1000)
        columns = ["address", "pinned_serial", "pinned_uuid", "credential_ref", "ca"]
        Bmc.objects.bulk_update([b for b in bmcs if b.pk is not None], columns, batch_size=500)
        for node_id, kind, value in self.stale - self.aliases:
            Alias.objects.filter(node_id=node_id, kind=kind, value=value).delete()
        rows = [Alias(cluster=cluster, node_id=pk, kind=kind, value=value) for pk, kind, value in sorted(self.aliases)]
        Alias.objects.bulk_create(rows, batch_size=5000, ignore_conflicts=True)
        changes = self.report.nodes
        if changes:
            outbox.publish(cluster.pk, [outbox.Notice("fleet", str(cluster.pk))], now)
            entries = [
                audit.Entry(by, "inventory.import", f"node:{self.nodes[name].pk}", node=name, detail=changed)
                for name, changed in sorted(changes.items())
            ]
            audit.record(audit.chain_of(cluster.pk), entries, now)


@transaction.atomic
def import_lines(
    cluster: Cluster,
    lines: Sequence[Line],
    *,
    by: str,
    now: datetime,
    repin: bool = False,
    expect: bool = False,
    dry_run: bool = False,
) -> Report:
    """Bring the inventory to what the lines say; in a dry run only tell the difference."""
    locked = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)  # orders it with the observer's writes
    run = _Import(cluster, lines, repin, expect or locked.connected_at is None, now)
    for line in lines:
        run.take(line)
    if dry_run:
        transaction.set_rollback(True)
    else:
        run.store(by, now)
    return run.report
