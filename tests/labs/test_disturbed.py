"""Fifty workflows are in the middle of everything when something under them gives way: all end rightly, none twice.

Redis is flushed, PostgreSQL restarted, and the API server cut off for five minutes while BMCs and exporters answer:
refusing connections, or silent. Each alone, then all of them together.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.labs.browser import Browser
from tests.labs.kills import HOLD, RESETS
from tests.labs.live import ENDED, Live, until
from tests.labs.partition import REFUSED, SILENT, Line, line_to, rewired

NODES, WORKFLOWS, LATE = 64, 50, 6
PARTITION = float(os.environ.get("MUSTER_TEST_PARTITION_SECONDS", "300"))
SAID_WITHIN, BACK_WITHIN, ENDED_WITHIN = 60.0, 60.0, 900.0
PHASES = {"drain", "reboot", "validate", "soak"}
OPEN = {"fleet": 40, "rack": 8, "leaf": 16}
POLICY = """
from fleet.policy import versions
from fleet.policy.document import text_of
from fleet.ports.clock import SYSTEM_CLOCK
import yaml
document = yaml.safe_load(text_of(versions.current()))
document["default"]["caps"] = {{"hold": {{"fleet": "100%"}}, "take_out": {{"fleet": "100%"}}, "in_flight": {limits}}}
document["default"].pop("rates", None)
document["default"].pop("floors", None)
document["default"]["breaker"] = {{"percent": 100, "least": 1000, "window": "10m", "failed": 1000}}
wanted = versions.read(yaml.safe_dump(document), "lab")
row = versions.propose(wanted, "ada", "A disturbance in a lab.", SYSTEM_CLOCK.now())
if not row.applied_at:
    versions.vote(row.pk, "bob", True, "Agreed.", SYSTEM_CLOCK.now())
"""
API_CODES = ("api_unreachable", "api_timeout", "api_cut", "unknown_outcome")
SUSPECTED = (
    "select n.name, v.verdict, v.reason from health_nodeverdict v join inventory_node n on n.id = v.node_id"
    " where v.verdict in ('lost', 'unhealthy', 'degraded')"
)


@dataclass(slots=True)
class Disturbed:
    """A fleet whose faults come in waves, so that its workflows are spread over all phases."""

    live: Live
    web: Browser
    line: Line
    nodes: Iterator[str]
    boots: dict[str, str] = field(default_factory=dict)
    suspected: dict[str, str] = field(default_factory=dict)
    wrong_pages: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def strike(self, count: int) -> None:
        for node in itertools.islice(self.nodes, count):
            self.boots[node] = self.live.boot_id(node)
            self.live.inject("xid79", node, len(self.boots) % 8)

    def fill(self) -> Counter[str]:
        """All but the last few, until every phase has some; what each is at then."""
        waves = WORKFLOWS - LATE
        for _ in range(waves // 4):
            self.strike(4)
            time.sleep(5)
        until(lambda: set(self.census()) >= {"soak", "validate"}, 300, 0.3)
        self.strike(LATE)
        until(lambda: set(self.census()) >= PHASES, 30, 0.1)
        return self.census()

    def census(self) -> Counter[str]:
        return Counter(str(row["plan"][row["step"]]["verb"]) for row in self.live.open_workflows())

    def unended(self) -> list[str]:
        return [node for node, boot in self.boots.items() if not self.live.healed(node, boot)]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Meanwhile, every node that we have not broken and that is taken for sick or lost is noted."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join(10)

    def _watch(self) -> None:
        while not self._over.wait(3):
            try:
                rows = self.live.rows(SUSPECTED)
            except Exception:  # the database is away
                continue
            self.suspected.update(
                {r["name"]: f"{r['verdict']}: {r['reason']}" for r in rows if r["name"] not in self.boots}
            )


@contextmanager
def disturbed() -> Iterator[Disturbed]:
    with Live(nodes=NODES, speed=1.0, MUSTER_SOAK_SECONDS="60", MUSTER_REBOOT_OBSERVE_SECONDS="60") as live:
        with line_to(live._server) as line:
            simulator = live.var / "simulator"
            reading = rewired(simulator / "kubeconfig", line.address, live.folder / "read.kubeconfig")
            acting = rewired(simulator / "act.kubeconfig", line.address, live.folder / "act.kubeconfig")
            told = live.manage("cluster", "add", "demo", "--kubeconfig", reading, "--act-kubeconfig", acting)
            assert told.returncode == 0 and "changed" in told.stdout, told
            opened = live.manage("shell", "-c", POLICY.format(limits=OPEN))
            assert opened.returncode == 0, opened.stderr
            time.sleep(20)  # the observer begins anew with the other address
            racks = list(live.racks().values())
            spread = (node for row in itertools.zip_longest(*racks) for node in row if node)
            yield Disturbed(live, live.web(), line, spread)


def _flush_redis(on: Disturbed) -> None:
    link = redis.Redis.from_url((on.live.var / "run" / "redis.url").read_text().strip())
    for _ in range(5):
        link.flushall()
        time.sleep(3)
    link.close()


def _restart_postgres(on: Disturbed) -> None:
    for _ in range(2):
        before = on.live.pid("postgres")
        os.kill(before, signal.SIGINT)  # a fast shutdown, as `pg_ctl restart` asks for
        assert on.live.back("postgres", before) is not None
        time.sleep(5)


def _cut(kind: str) -> Callable[[Disturbed], None]:
    def disturb(on: Disturbed) -> None:
        _partition(on, kind, lambda: None)

    return disturb


def _all_together(on: Disturbed) -> None:
    def more() -> None:
        _flush_redis(on)
        _restart_postgres(on)

    _partition(on, SILENT, more)


def _partition(on: Disturbed, kind: str, meanwhile: Callable[[], None]) -> None:
    began, at = time.monotonic(), datetime.now(UTC)
    on.line.cut(kind)
    on.strike(2)  # their holds cannot be set
    said = until(lambda: _ailing(on), SAID_WITHIN + 30, 0.5)
    print(kind, "said on the fleet page after", said)
    until(lambda: False, max(0.0, 60 - (time.monotonic() - began)))
    meanwhile()
    _is_told(on, at)
    before = on.live.stats()["writes"]
    until(lambda: False, max(0.0, PARTITION - (time.monotonic() - began)))
    print("at the end of the partition:", on.census(), "writes meanwhile", _grown(before, on.live.stats()["writes"]))
    print("blocked:", Counter(row["blocked_code"] for row in on.live.open_workflows()))
    on.line.mend()
    began = time.monotonic()
    until(lambda: not _waiting(on), BACK_WITHIN + 60, 0.5)
    acts = time.monotonic() - began
    until(lambda: not _ailing(on), BACK_WITHIN + 60, 0.5)
    sees = time.monotonic() - began
    print(kind, f"over; it acts again after {acts:.1f} s, sees again after {sees:.1f} s")
    if said is None or max(said, acts, sees) > BACK_WITHIN:
        on.wrong_pages.append(f"said after {said}, acts after {acts:.1f}, sees after {sees:.1f}")


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {what: count - before.get(what, 0) for what, count in after.items() if count != before.get(what, 0)}


def _waiting(on: Disturbed) -> list[Any]:
    """Workflows for which the API server still does not answer."""
    return [row["id"] for row in on.live.open_workflows() if row["blocked_code"] in API_CODES]


def _ailing(on: Disturbed) -> bool:
    return "demo: http" in on.web.words("/fleet/")


def _is_told(on: Disturbed, at: datetime) -> None:
    """By the page, and by `why` of a node that is held, of one that waits for its hold, and of one that is well."""
    first, last = list(on.boots)[-LATE - 6], list(on.boots)[-1]
    healthy = next(on.nodes)
    for node in (first, last):
        told = on.live.why(node)
        print(node, told["blocked"], told["text"])
        blocked = told["blocked"]
        if blocked is None or blocked["reason"] not in API_CODES or abs(_since(blocked, at)) > SAID_WITHIN:
            on.wrong_pages.append(f"why {node}: {told}")
    told = on.live.why(healthy)
    print(healthy, told["text"])
    words = on.web.words("/fleet/")
    print(words[:600])
    if "since" not in told["text"] or "API server" not in told["text"]:
        on.wrong_pages.append(f"why {healthy}: {told['text']}")


def _since(blocked: dict[str, Any], at: datetime) -> float:
    return (datetime.fromisoformat(blocked["since"]) - at).total_seconds()


DISTURBANCES = {
    "flush": _flush_redis,
    "restart": _restart_postgres,
    REFUSED: _cut(REFUSED),
    SILENT: _cut(SILENT),
    "together": _all_together,
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_all_end_rightly_and_none_twice(name: str) -> None:
    with disturbed() as on, on.watched():
        at = on.fill()
        print(name, "begins while they are at", dict(at))
        assert set(at) >= PHASES and len(on.boots) == WORKFLOWS
        DISTURBANCES[name](on)
        ended = until(lambda: not on.unended(), ENDED_WITHIN, 1.0)
        print(name, "all ended after", ended)
        assert {what: found for what, found in _findings(on).items() if found} == {}


def _findings(on: Disturbed) -> dict[str, Any]:
    """Everything that would be wrong; empty values are good."""
    live, stats = on.live, on.live.stats()
    nodes = {node["metadata"]["name"]: node for node in live.nodes()}
    resets = {node: sum(done.get(verb, 0) for verb in RESETS) for node, done in stats["bmc"].items()}
    out = stats["out_max"]
    return {
        "unended": {node: live.why(node) for node in on.unended()},
        "boots": {node: stats["boots"].get(node, 0) for node in on.boots if stats["boots"].get(node, 0) != 1},
        "resets": {node: resets.get(node, 0) for node in on.boots if resets.get(node, 0) != 1},
        "others": sorted(set(stats["boots"]) - set(on.boots)),
        "gpu_resets": stats["gpu_resets"],
        "bmc_concurrent": max(0, stats["bmc_concurrent_max"] - 1),
        "holds": [name for name, node in nodes.items() if HOLD in node["metadata"].get("annotations", {})],
        "cordons": [name for name, node in nodes.items() if node["spec"].get("unschedulable")],
        "open": [row["id"] for row in live.open_workflows()],
        "ends": Counter(
            row["outcome"] for row in live.rows("select * from lifecycle_workflow") if row["state"] != ENDED[0]
        ),
        "twice": live.rows("select node_id, count(*) from lifecycle_workflow group by node_id having count(*) > 1"),
        "incidents": live.rows("select id, title, state from health_incident where state = 'open'"),
        "suspected": on.suspected,
        "over_cap": {
            f"{kind} {name}": count
            for kind in ("rack", "leaf", "fleet")
            for name, count in out.get(kind, {}).items()
            if count > OPEN[kind]
        },
        "deleted": stats["writes"].get("delete pods", 0),
        "audit": live.manage("audit", "verify").returncode,
        "pages": on.wrong_pages,
    }
