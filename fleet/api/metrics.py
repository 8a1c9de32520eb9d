"""The fleet as Prometheus metrics.

Decides names and labels, each by one grouped query. Refuses a series per node: Prometheus has those from the exporters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Count, Sum
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import effectiveness
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Claim, Switch
from fleet.ports.clock import Clock
from fleet.telemetry.models import Rejection
from fleet.tickets.models import Ticket


def _gauge(
    name: str, text: str, labels: list[str], values: Iterable[tuple[tuple[Any, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(["" if part is None else str(part) for part in key], value)
    return family


class FleetCollector(Collector):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def collect(self) -> Iterator[Metric]:
        live = Cluster.objects.filter(removed_at=None)
        clusters = list(live.values_list("pk", "name", "mode", "observer_until"))
        names = {pk: name for pk, name, _mode, _until in clusters}
        now = self.clock.now()
        yield _gauge(
            "muster_observer_up",
            "1 while an observer holds the lease of the cluster",
            ["cluster"],
            (((name,), float(until is not None and until > now)) for _pk, name, _mode, until in clusters),
        )
        yield _gauge(
            "muster_cluster_mode",
            "1 for the mode of the cluster",
            ["cluster", "mode"],
            (((name, mode), 1.0) for _pk, name, mode, _until in clusters),
        )
        yield self._nodes()
        yield self._workflows()
        incidents, tickets = Incident.objects.filter(state=Incident.OPEN), Ticket.objects.filter(state=Ticket.OPEN)
        yield self._open("muster_incidents_open", "Open incidents", incidents, names.values())
        yield self._open("muster_tickets_open", "Open tickets", tickets, names.values())
        claims = Claim.objects.filter(released_at=None).values_list("cluster_id", "kind").annotate(n=Count("pk"))
        yield _gauge(
            "muster_claims_open",
            "Nodes that count against a cap, by kind",
            ["cluster", "kind"],
            (((names[pk], kind), n) for pk, kind, n in claims if pk in names),
        )
        yield _gauge(
            "muster_stopped",
            "1 while all new disruption is stopped",
            [],
            [((), float(Switch.objects.filter(stopped=True).exists()))],
        )
        yield from self._remedies(list(names))
        yield self._rejections(names)

    def _remedies(self, clusters: list[int]) -> Iterator[Metric]:
        counted = sorted(effectiveness.bounces(clusters, self.clock.now()).items())
        yield _gauge(
            "muster_remedies_tried", "Remedies of the last 90 days", ["verb"],
            (((verb,), line.tries) for verb, line in counted),
        )  # fmt: skip
        yield _gauge(
            "muster_remedies_bounced", "Those of them after which the node failed again within a day", ["verb"],
            (((verb,), line.bounced + line.again) for verb, line in counted),
        )  # fmt: skip

    def _nodes(self) -> Metric:
        rows = (
            Node.objects.filter(gone_at=None, cluster__removed_at=None)
            .values_list("cluster__name", "lifecycle__state", "verdict_row__verdict")
            .annotate(n=Count("pk"))
            .order_by()
        )
        return _gauge(
            "muster_nodes",
            "Nodes by lifecycle state and verdict",
            ["cluster", "state", "verdict"],
            (((name, state or "in_service", verdict or "unknown"), n) for name, state, verdict, n in rows),
        )

    def _workflows(self) -> Metric:
        rows = Workflow.objects.filter(cluster__removed_at=None).values_list("state").annotate(n=Count("pk")).order_by()
        counts: dict[str, int] = dict.fromkeys((str(state) for state in WorkflowState), 0) | dict(rows)
        return _gauge(
            "muster_workflows", "Workflows by state", ["state"], (((state,), n) for state, n in counts.items())
        )

    def _open(self, name: str, text: str, rows: Any, clusters: Iterable[str]) -> Metric:
        counted = rows.filter(cluster__removed_at=None).values_list("cluster__name").annotate(n=Count("pk")).order_by()
        counts: dict[str, int] = dict.fromkeys(clusters, 0) | dict(counted)
        return _gauge(name, text, ["cluster"], (((cluster,), n) for cluster, n in counts.items()))

    def _rejections(self, names: dict[int, str]) -> Metric:
        family = CounterMetricFamily(
            "muster_rejections", "Input that was refused", labels=["cluster", "source", "reason"]
        )
        rows = Rejection.objects.values_list("cluster_id", "source", "reason").annotate(n=Sum("count")).order_by()
        for pk, source, reason, n in rows:
            if pk in names:
                family.add_metric([names[pk], source, reason], n)
        return family
