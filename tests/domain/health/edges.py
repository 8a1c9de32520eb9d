"""Edges as the rules would yield them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fleet.health.rules.types import Edge
from tests.builders import T0


def an_edge(node: str = "gpu-r01-01", *, after: float = 1, **fields: Any) -> Edge:
    values: dict[str, Any] = {
        "kind": "opened",
        "rule_id": "xid-log",
        "device": "GPU-3",
        "code": "79",
        "cause": "xid-79",
        "severity": "unhealthy",
        "action_class": "reboot_node",
        "title": "GPU %(gpu)s reported Xid %(code)s",
        "args": {"gpu": "3", "code": "79"},
        "first_bad_at": T0 + timedelta(seconds=after - 1),
        "detected_at": T0 + timedelta(seconds=after),
        "source": "kernel_log",
        "latched": True,
        "evidence": {"line": "NVRM: Xid (PCI:0000:1b:00): 79"},
        **fields,
    }
    return Edge(node=node, **values)
