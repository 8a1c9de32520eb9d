"""Prometheus, VictoriaMetrics, Mimir and Thanos as a reader of metrics: the entry point that `fleet.wiring` calls.

Decides what a connection consists of, and imports urllib3 only when one is made. Refuses to know a credential: it is
asked for anew with each request, so that a rotated one is used at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.prometheus.client import PrometheusReader


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the API. `url` is what lies before `/api/v1`, with its path prefix where there is one."""

    url: str
    authorization: Callable[[], str] = field(default=_nothing, compare=False)  # the header's value; "" for none
    headers: Mapping[str, str] = field(default_factory=dict)  # the tenant's
    verify: bool | str = True  # False, True or the path of a CA bundle
    timeout: float = 10.0  # seconds for one query in all
    at_once: int = 4
    max_bytes: int = 256 * 1024 * 1024


def reader(connection: Connection) -> PrometheusReader:
    """A MetricsReader. Thread-safe; keeps its connections open."""
    from fleet.adapters.prometheus.client import PrometheusReader

    return PrometheusReader(connection)
