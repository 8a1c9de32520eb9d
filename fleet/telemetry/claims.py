"""Which node a label set says it is about.

Decides which labels name a host, whichever of the usual ones a scraper or an alert carries. Refuses to resolve the
names: they are claims, and the alias table judges them.
"""

from __future__ import annotations

NODE_LABELS = ("Hostname", "hostname", "node", "nodename", "node_name", "kubernetes_node")


def instance_host(instance: str) -> str:
    """`n1:9100`, `[fe80::1]:9100` or `n1` to the host."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    head, colon, port = instance.rpartition(":")
    return head if colon and port.isdigit() and ":" not in head else instance


def claims(labels: dict[str, str]) -> list[str]:
    """The names of a node that a label set holds."""
    said = [labels[key] for key in NODE_LABELS if labels.get(key)]
    if not said and labels.get("instance"):
        said = [instance_host(labels["instance"])]
    return said
