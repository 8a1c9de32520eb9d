"""Tells Ray that nodes of a cluster go, in the container of its head.

Decides how a node of Ray is found (by the address of its pod, in Ray's own list) and what its answer means. Ray has no
other way: the command is hidden, and no API of the dashboard does it. Refuses to interpret: words go as arguments and
never through a shell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from fleet.adapters.kubernetes import access, execing
from fleet.adapters.kubernetes.client import ApiServer
from fleet.ports.errors import NotFound, PermanentError, UnknownOutcome
from fleet.ports.shapes import items, mapping, text

SECONDS = 20.0
"""Of the whole: each of Ray's commands takes some seconds to begin."""
SCRIPT = """
import json, subprocess, sys
from ray.util.state import list_nodes
seconds, why, *ips = sys.argv[1:]
ids = {}
for node in list_nodes(filters=[("state", "=", "ALIVE")], limit=10000):
    if not node.is_head_node:
        ids.setdefault(node.node_ip, []).append(node.node_id)
told = {}
for ip in ips:
    if len(ids.get(ip, [])) != 1:
        told[ip] = "Ray knows %d living workers at %s" % (len(ids.get(ip, [])), ip)
        continue
    done = subprocess.run(
        ["ray", "drain-node", "--node-id", ids[ip][0], "--reason", "DRAIN_NODE_REASON_PREEMPTION",
         "--reason-message", why, "--deadline-remaining-seconds", seconds], capture_output=True, text=True)
    last = (done.stderr or done.stdout).strip().splitlines()
    told[ip] = "" if done.returncode == 0 else (last[-1] if last else "refused")
print(json.dumps({"muster": told}))
"""


class RayDrain:
    """`namespaces`: where an administrator allows commands in the heads; a label alone opens no container."""

    def __init__(self, api: ApiServer, namespaces: Collection[str]) -> None:
        self._api = api
        self._namespaces = frozenset(namespaces)

    def drain(self, namespace: str, cluster: str, ips: Sequence[str], why: str, seconds: int) -> dict[str, str]:
        if namespace not in self._namespaces:
            raise PermanentError(f"Commands in heads are not allowed in namespace {namespace}.")
        pod, container = self._head(namespace, cluster)
        command = ["python", "-c", SCRIPT, str(max(0, seconds)), why[:200], *ips]
        printed = execing.run(self._api, namespace, pod, container, command, SECONDS)
        told = next((found for line in reversed(printed.splitlines()) if (found := _answer(line)) is not None), None)
        if told is not None:
            return {ip: text(told[ip])[:300] if ip in told else "Ray did not say" for ip in ips}
        raise UnknownOutcome(f"The head of {namespace}/{cluster} did not say what became of it.")

    def _head(self, namespace: str, cluster: str) -> tuple[str, str]:
        """The ready head's pod, and its first container: the one that KubeRay runs Ray in."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        params = {"labelSelector": f"ray.io/cluster={cluster},ray.io/node-type=head", "limit": "5"}
        page = mapping(self._api.get(path, "pods", verb="list", params=params))
        for raw in items(page.get("items")):
            conditions = items(mapping(raw.get("status")).get("conditions"))
            ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
            containers = items(mapping(raw.get("spec")).get("containers"))
            if ready and containers and not mapping(raw.get("metadata")).get("deletionTimestamp"):
                return text(mapping(raw.get("metadata")).get("name")), text(containers[0].get("name"))
        raise NotFound(f"The Ray cluster {namespace}/{cluster} has no head that is ready.")

    def check(self) -> list[str]:
        why = "Ray is told of no drain there"
        asked = (("list", "pods", ""), ("get", "pods", "exec"), ("create", "pods", "exec"))
        rights = tuple(
            access.Right(verb, resource, why, subresource=part, namespace=within)
            for within in sorted(self._namespaces)
            for verb, resource, part in asked
        )
        return access.missing(self._api, rights)


def _answer(line: str) -> dict[str, Any] | None:
    """What the script printed; None for any other line, as of Ray's own warnings."""
    try:
        told = mapping(orjson.loads(line)).get("muster")
    except orjson.JSONDecodeError:
        return None
    return told if isinstance(told, dict) else None
