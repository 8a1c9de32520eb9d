"""A stream of changes survives everything an API server, a proxy or a cable can do to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.ports.cluster import Change, NodeSeen, WatchState
from tests.adapters.kubernetes.scripted import Script, answer, cut, hang, page, status, stream
from tests.patience import PATIENCE, left_in_time

NODES = "/api/v1/nodes"


def node(name: str, version: int, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **meta}, "status": {}}


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": node(name, version)}


class Watcher:
    """Reads a stream until a condition holds (or patience ends), and remembers changes and states."""

    def __init__(self, reader: KubernetesReader) -> None:
        self.reader = reader
        self.changes: list[Change] = []
        self.states: list[WatchState] = []

    def until(self, enough: Callable[[Watcher], bool], seconds: float = PATIENCE) -> Watcher:
        ends_at = time.monotonic() + seconds

        def stop() -> bool:
            return enough(self) or time.monotonic() > ends_at

        for change in self.reader.watch_nodes(stop, self.states.append):
            self.changes.append(change)
        return self

    def names(self, kind: str) -> list[str]:
        return [change.item.name for change in self.changes if change.kind == kind and change.item is not None]

    @property
    def syncs(self) -> list[Change]:
        return [change for change in self.changes if change.kind == "synced"]

    def said(self, code: str) -> list[WatchState]:
        return [state for state in self.states if state.code == code]


def saw(name: str) -> Callable[[Watcher], bool]:
    return lambda watcher: any(isinstance(c.item, NodeSeen) and c.item.name == name for c in watcher.changes)


def test_a_list_comes_in_pages_then_a_sync_then_events(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([node("a", 1)], "9", "more"), page([node("b", 2)], "9"))
    gone = event("DELETED", "a", 12)
    script.on(f"WATCH {NODES}", stream(event("ADDED", "c", 10), event("MODIFIED", "b", 11), gone, then="hang"))
    watcher = Watcher(reader).until(lambda w: bool(w.names("deleted")))
    assert [change.kind for change in watcher.changes] == ["added", "added", "synced", "added", "modified", "deleted"]
    assert watcher.syncs[0].names == {"a", "b"}
    assert watcher.syncs[0].resource_version == "9" and not watcher.syncs[0].relist
    pages = script.sent("GET", NODES)
    assert [asked.query.get("continue") for asked in pages] == [None, "more"]
    watch = script.sent("WATCH", NODES)[0]
    assert (watch.query["resourceVersion"], watch.query["allowWatchBookmarks"]) == ("9", "true")
    assert watch.headers["User-Agent"].startswith("muster/")
    assert [state.code for state in watcher.states] == ["listing", "watching"]
    assert watcher.states[-1].connected and "Watching nodes" in watcher.states[-1].text


def test_a_cut_in_the_middle_of_an_event_costs_a_reconnect_from_the_last_version(
    script: Script, reader: KubernetesReader
) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    half = b'{"type": "ADDED", "object": {"metadata": {"name": "ha'
    script.on(
        f"WATCH {NODES}",
        stream(event("ADDED", "a", 10), half, then="cut"),
        stream(event("ADDED", "b", 11), half, then="end"),
        stream(event("ADDED", "half", 12), then="hang"),
    )
    watcher = Watcher(reader).until(saw("half"))
    assert watcher.names("added") == ["a", "b", "half"]
    assert reader.counts["cut"] == 2
    assert [asked.query["resourceVersion"] for asked in script.sent("WATCH", NODES)] == ["9", "10", "11"]
    assert len(script.sent("GET", NODES)) == 1
    assert "middle of an event" in watcher.said("watch_cut")[0].text


def test_a_garbage_line_is_counted_and_read_again(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    script.on(
        f"WATCH {NODES}",
        stream(event("ADDED", "a", 10), b"<html>bad gateway</html>\n", event("ADDED", "lost", 11), then="hang"),
        stream(event("ADDED", "lost", 11), then="hang"),
    )
    watcher = Watcher(reader).until(saw("lost"))
    assert watcher.names("added") == ["a", "lost"]
    assert reader.counts["garbage"] == 1
    assert script.sent("WATCH", NODES)[1].query["resourceVersion"] == "10"


def test_garbage_that_never_ends_leads_to_a_new_list(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([node("a", 1)], "9"), page([node("b", 2)], "20"))
    script.on(f"WATCH {NODES}", *[stream(b"garbage\n", then="hang")] * 3, stream(then="hang"))
    watcher = Watcher(reader).until(lambda w: len(w.syncs) == 2)
    assert reader.counts["garbage"] == 3 and reader.counts["resync"] == 1
    assert watcher.syncs[1].names == {"b"} and watcher.syncs[1].relist


def test_an_expired_version_lists_again(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([node("a", 1)], "9"), page([node("b", 2)], "50"), page([node("c", 2)], "70"))
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 9 (40)"}
    script.on(
        f"WATCH {NODES}",
        stream({"type": "ERROR", "object": gone}),
        status(410, "too old resource version", "Expired"),
        stream(event("ADDED", "d", 71), then="hang"),
    )
    watcher = Watcher(reader).until(saw("d"))
    assert [sync.names for sync in watcher.syncs] == [{"a"}, {"b"}, {"c"}]
    assert [sync.relist for sync in watcher.syncs] == [False, True, True]
    assert reader.counts["resync"] == 2
    assert [asked.query["resourceVersion"] for asked in script.sent("WATCH", NODES)] == ["9", "50", "70"]
    assert not watcher.said("resync")[0].connected and watcher.states[-1].connected


def test_an_expired_continue_token_restarts_the_list(script: Script, reader: KubernetesReader) -> None:
    script.on(
        f"GET {NODES}",
        page([node("a", 1)], "9", "token"),
        status(410, "The provided continue parameter is too old", "Expired"),
        page([node("b", 2)], "12"),
    )
    script.on(f"WATCH {NODES}", stream(then="hang"))
    watcher = Watcher(reader).until(lambda w: bool(w.syncs))
    assert watcher.syncs[0].names == {"b"}
    assert reader.counts["expired_list"] == 1


def test_a_list_whose_pages_always_expire_is_asked_for_whole(script: Script, reader: KubernetesReader) -> None:
    """Without end, such a list would be begun anew as fast as the server answers, and nothing would ever be known."""
    first, expired = page([node("a", 1)], "9", "token"), status(410, "the continue parameter is too old", "Expired")
    script.on(f"GET {NODES}", first, expired, first, expired, page([node("a", 1), node("b", 2)], "12"))
    script.on(f"WATCH {NODES}", stream(then="hang"))
    watcher = Watcher(reader).until(lambda w: bool(w.syncs))
    assert watcher.syncs[0].names == {"a", "b"} and reader.counts["expired_list"] == 2
    assert [asked.query.get("limit") for asked in script.sent("GET", NODES)] == ["500", "500", "500", "500", None]


def test_a_single_look_at_a_list_whose_pages_always_expire_ends(script: Script, reader: KubernetesReader) -> None:
    first, expired = page([node("a", 1)], "9", "token"), status(410, "the continue parameter is too old", "Expired")
    script.on(f"GET {NODES}", first, expired, first, expired, page([node("a", 1), node("b", 2)], "12"))
    assert [seen.name for seen in reader.nodes()] == ["a", "b"]
    assert script.sent("GET", NODES)[-1].query.get("limit") is None


def test_bookmarks_move_the_version_on(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "500"}}}
    script.on(f"WATCH {NODES}", stream(bookmark, then="end"), stream(event("ADDED", "a", 501), then="hang"))
    watcher = Watcher(reader).until(saw("a"))
    assert [change.resource_version for change in watcher.changes if change.kind == "bookmark"] == ["500"]
    assert script.sent("WATCH", NODES)[1].query["resourceVersion"] == "500"


def test_one_unreadable_object_costs_only_itself(script: Script, reader: KubernetesReader) -> None:
    nameless = {"metadata": {"resourceVersion": "10"}}
    script.on(f"GET {NODES}", page([nameless, "text", node("a", 1, labels="odd", annotations=7)], "9"))
    odd = {"type": "MODIFIED", "object": nameless}
    script.on(f"WATCH {NODES}", stream(odd, {"type": "DANCED"}, [1], event("ADDED", "b", 11), then="hang"))
    watcher = Watcher(reader).until(saw("b"))
    assert watcher.names("added") == ["a", "b"]
    assert reader.counts["skipped"] == 4


def test_stop_is_honoured_while_the_stream_is_silent(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    script.on(f"WATCH {NODES}", stream(then="hang"))
    asked: list[float] = []
    with left_in_time():
        Watcher(reader).until(lambda w: asked.append(time.monotonic()) or asked[-1] - asked[0] > 0.3)  # type: ignore[func-returns-value]
    assert len(asked) > 1


def test_stop_is_honoured_while_the_server_does_not_even_answer(script: Script, reader: KubernetesReader) -> None:
    for what in ("GET", "WATCH"):
        script.on(f"GET {NODES}", hang if what == "GET" else page([], "9"))
        script.on(f"WATCH {NODES}", hang)
        started = time.monotonic()
        with left_in_time():
            Watcher(reader).until(lambda w, since=started: time.monotonic() - since > 0.3)  # type: ignore[misc]


def test_a_lost_connection_is_told_and_mended(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", status(500, "etcd has no leader"), cut, answer(200, b"<html>"), page([], "9"))
    script.on(f"WATCH {NODES}", cut, status(503, "not now"), stream(event("ADDED", "a", 10), then="hang"))
    watcher = Watcher(reader).until(saw("a"))
    codes = [state.code for state in watcher.states]
    assert codes[0] == "listing" and codes[-1] == "watching"
    assert "etcd has no leader" in watcher.said("api_error")[0].text
    assert watcher.said("api_garbage") and watcher.said("api_cut")


def test_a_missing_right_is_told_by_verb_and_resource(script: Script, reader: KubernetesReader) -> None:
    said = 'nodes is forbidden: User "muster" cannot watch resource "nodes" in API group "" at the cluster scope'
    script.on(f"GET {NODES}", page([], "9"))
    script.on(f"WATCH {NODES}", status(403, said, "Forbidden"))
    watcher = Watcher(reader).until(lambda w: bool(w.said("missing_right")))
    assert "may not watch nodes at http://127.0.0.1" in watcher.said("missing_right")[0].text


def test_two_streams_in_one_thread_do_not_cut_each_other(script: Script, reader: KubernetesReader) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    script.on(f"WATCH {NODES}", stream(event("ADDED", "a", 10), event("ADDED", "b", 11), then="hang"))
    script.on(f"GET {NODES}/a", answer(200, node("a", 10)))
    seen: list[str] = []
    for change in reader.watch_nodes(lambda: len(seen) >= 2, lambda state: None):
        if isinstance(change.item, NodeSeen):
            seen.append(reader.node("a").name)
    assert seen == ["a", "a"]
