"""The way in for the quality replay that is asked: the observer's questions, answered as a store of metrics would.

Decides what an instant query shows of a fleet: the last answer of each exporter, aggregated to the labels that the
question names, and nothing of an exporter or a series that was not in the last scrape, because that ends its series.
The client, its decoder and the reader of the answers are the real ones. Refuses expressions that the observer does
not ask.
"""

from __future__ import annotations

import asyncio
import http.server
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import orjson

from fleet import wiring
from fleet.inventory.models import Cluster, MetricsSource
from fleet.observer.conditions import Conditions
from fleet.observer.push import Refusals
from fleet.observer.querying import ALWAYS, Querier, rule_reads
from fleet.observer.session import Session
from fleet.ops.bench._healthy import DCGM, NODE, Bools, Healthy
from fleet.ops.bench._ways import Way
from fleet.telemetry import promql
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.promql import Question

Labels = dict[str, str]


class Store:
    """What was scraped last of every series, by the question that asks for it."""

    def __init__(self, fleet: Healthy) -> None:
        self.fleet = fleet
        self.answered: Bools = np.zeros(fleet.targets.shape, dtype=bool)
        beats, values = promql.questions({*rule_reads(), *ALWAYS})
        self.questions = {question.expression: question for question in (*beats, *values)}
        self._labels: dict[str, list[tuple[int, list[Labels]]]] = {}

    def answer(self, expression: str) -> bytes:
        question = self.questions[expression]
        job = DCGM if question.job == "dcgm" else NODE
        result: list[dict[str, Any]] = []
        wall = self.fleet.now.timestamp()
        for place, labels in self._series(question):
            values = self.fleet.values[:, place] if place >= 0 else wall + self.fleet.skew
            shown = np.flatnonzero(self.answered[:, job] & np.isfinite(values))
            told = np.full(len(values), wall) if question.heartbeat else values
            result += [{"metric": labels[n], "value": [wall, repr(float(told[n]))]} for n in shown.tolist()]
        return orjson.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})

    def _series(self, question: Question) -> list[tuple[int, list[Labels]]]:
        """Of each column that the question is about its place and each node's labels; the host's clock has none."""
        found = self._labels.get(question.expression)
        if found is None:
            kept = set(question.expression.partition("(")[2].partition(")")[0].split(", "))
            at = self.fleet.at.get(question.metric.name, [])
            told = [(p, self.fleet.columns[p].labels) for p in at] or [(-1, {})]
            found = [(place, [_kept(said | _whose(node, question), kept) for node in self.fleet.names])
                     for place, said in told]  # fmt: skip
            self._labels[question.expression] = found
        return found


def _whose(node: str, question: Question) -> Labels:
    return {"Hostname": node} if question.metric.kind == "gpu" else {"instance": f"{node}:9100"}


def _kept(labels: Labels, kept: set[str]) -> Labels:
    return {key: text for key, text in labels.items() if key in kept}


class Queried(Way):
    """As answers to PromQL over HTTP."""

    name = "promql"
    never = promql.NEVER_ASKED  # the counters of switches among them: their own reader asks for those

    def __init__(self, fleet: Healthy) -> None:
        super().__init__(fleet)
        fleet.forget_targets()
        self.store = Store(fleet)
        self.server = _serve(self.store)
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        cluster = Cluster(name="bench", prometheus_url=url, metrics_source=MetricsSource.QUERY)
        session = Session(cluster, 0, fleet.clock, Path(), fleet.interval)
        gleaner = Gleaner(fleet.frame, lambda name: name if name in fleet.facts else None, fleet.interval)
        conditions = Conditions()
        reader = wiring.metrics(cluster)
        self.querier = Querier(session, gleaner, conditions, Refusals(), lambda: reader, lambda: False, rule_reads())
        self.conditions = conditions

    def deliver(self, answered: Bools) -> None:
        self.store.answered = answered
        before = self.querier.rounds
        asyncio.run(self.querier.once())
        if self.querier.rounds == before:
            raise RuntimeError(f"a round of questions failed: {self.conditions.changed(self.fleet.mono)}")

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _serve(store: Store) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            body = store.answer(fields["query"][0])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
