"""Which node a label set says it is about.

Decides which labels name a host, whichever of the usual ones a scraper or an alert carries, and what a changed alias
table changes for names that were judged before. Refuses to resolve them: they are claims, and the table judges them.
"""

from __future__ import annotations

from typing import Literal

from fleet.telemetry.series import Ambiguous, Resolver

MAX_NAMES = 200_000  # that are remembered with their answer
NODE_LABELS = ("Hostname", "hostname", "node", "nodename", "node_name", "kubernetes_node")


def instance_host(instance: str) -> str:
    """`n1:9100`, `[fe80::1]:9100` or `n1` to the host."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    head, colon, port = instance.rpartition(":")
    return head if colon and port.isdigit() and ":" not in head else instance


def claims(labels: dict[str, str]) -> list[str]:
    """The names of a node that a label set holds. A host that is called as the pod is the exporter's own container."""
    pod = labels.get("pod")
    said = [labels[key] for key in NODE_LABELS if labels.get(key) and labels[key] != pod]
    if not said and labels.get("instance"):
        said = [instance_host(labels["instance"])]
    return said


class Answers:
    """Whose each name was when it was first asked for, as long as what was cached by that answer may still be there."""

    def __init__(self) -> None:
        self._known: dict[str, str | Ambiguous | None] = {}

    def ask(self, name: str, resolve: Resolver) -> str | Ambiguous | None:
        answer = resolve(name)
        if len(self._known) < MAX_NAMES:
            self._known.setdefault(name, answer)
        return answer

    def again(self, resolve: Resolver) -> Literal["all", "unknown", "none"]:
        """The table changed: which cached verdicts may be others now. `unknown`: those on names that were nobody's.

        A fleet's series met anew cost minutes, and the table changes with every node that comes.
        """
        known = self._known
        if len(known) >= MAX_NAMES:
            self._known = {}
            return "all"
        self._known = {name: resolve(name) for name in known}
        changed = [answer for name, answer in known.items() if self._known[name] != answer]
        if any(answer is not None for answer in changed):
            return "all"
        return "unknown" if changed else "none"
