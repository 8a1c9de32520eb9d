"""Lists: paging from one snapshot, selectors, the version a watch may start from.

It decides what a page holds and when a continue token is too old (HTTP 410). It refuses to mix two moments in one
list: all pages of a list come from the snapshot its first page took.
"""

import base64
import itertools
from collections import OrderedDict
from typing import NamedTuple

import orjson

from fleet.simulator.kube.errors import bad_request, expired
from fleet.simulator.kube.kinds import Kind
from fleet.simulator.kube.selectors import field_selector, label_selector, node_of
from fleet.simulator.store import Record, Store

SNAPSHOTS = 64


class Snapshot(NamedTuple):
    rv: int
    records: list[Record]


class Listing:
    """Serves lists and keeps the snapshots of those that are not read to their end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self.serial = itertools.count(1)

    def forget(self) -> None:
        """Compaction: continue tokens handed out so far lead nowhere."""
        self.snapshots.clear()

    def page(self, kind: Kind, namespace: str, query: dict[str, str]) -> bytes:
        try:
            limit = int(query.get("limit") or 0)
        except ValueError:
            raise bad_request(f"invalid limit: {query['limit']}") from None
        if query.get("continue"):
            number, start = _read_token(query["continue"])
            snapshot = self.snapshots.get(number)
            if snapshot is None:
                raise expired("The provided continue parameter is too old; start the list again without it.")
        else:
            number, start = next(self.serial), 0
            snapshot = Snapshot(self.store.rv, self.select(kind, namespace, query))
        chosen = snapshot.records[start : start + limit] if limit else snapshot.records[start:]
        left = len(snapshot.records) - start - len(chosen)
        meta: dict[str, object] = {"resourceVersion": str(snapshot.rv)}
        if left > 0:
            self._keep(number, snapshot)
            meta["continue"] = _token(number, start + len(chosen))
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                meta["remainingItemCount"] = left
        head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'.encode()
        return b"".join((head, orjson.dumps(meta), b',"items":[', self.store.bodies(chosen, kind), b"]}"))

    def select(self, kind: Kind, namespace: str, query: dict[str, str]) -> list[Record]:
        collection = self.store[kind.plural]
        fields = query.get("fieldSelector", "")
        node = node_of(fields) if kind.plural == "pods" and fields else None
        records = collection.ordered() if node is None else _by_key(collection.on_node(node))
        if namespace:
            records = [r for r in records if r.namespace == namespace]
        if fields:
            picked = field_selector(fields, kind.plural)
            records = [r for r in records if picked(r)]
        if labels := query.get("labelSelector", ""):
            wanted = label_selector(labels)
            records = [r for r in records if wanted(r.labels)]
        return records

    def _keep(self, number: int, snapshot: Snapshot) -> None:
        self.snapshots[number] = snapshot
        self.snapshots.move_to_end(number)
        while len(self.snapshots) > SNAPSHOTS:
            self.snapshots.popitem(last=False)


def _by_key(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.key)


def _token(number: int, start: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "list": number, "start": start})).decode()


def _read_token(text: str) -> tuple[int, int]:
    try:
        token = orjson.loads(base64.urlsafe_b64decode(text))
        return int(token["list"]), int(token["start"])
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid") from None
