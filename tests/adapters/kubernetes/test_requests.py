"""Objects by which other controllers ask for work on a node."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.kubernetes.requests import Requests
from fleet.ports.cluster import RequestSeen
from fleet.ports.errors import MissingRight, NotFound
from tests.builders import T0, TestClock

JANITOR = "/apis/janitor.dgxc.nvidia.com/v1alpha1"
MAINTENANCE = "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases/node-n1"


class Server:
    """Answers by path; what it does not have is not found."""

    def __init__(self, **groups: str) -> None:
        named = [{"name": name, "preferredVersion": {"version": version}} for name, version in groups.items()]
        self.objects: dict[str, Any] = {"/apis": {"groups": named}}
        self.asked: list[str] = []

    def get(self, path: str, resource: str, **how: Any) -> Any:
        self.asked.append(path)
        found = self.objects.get(path)
        if found is None:
            raise NotFound(path)
        if isinstance(found, Exception):
            raise found
        return found


def listed(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(objects)}


def request(name: str, node: str = "n1", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": T0.isoformat()}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def on(server: Server) -> list[RequestSeen]:
    return Requests(server, TestClock()).on("n1")  # type: ignore[arg-type]


def test_only_groups_that_the_server_has_are_asked_for() -> None:
    server = Server(apps="v1")
    clock = TestClock()
    reader = Requests(server, clock)  # type: ignore[arg-type]
    assert reader.on("n1") == [] and reader.on("n1") == []
    assert server.asked == ["/apis"]
    clock.tick(301)
    reader.on("n1")
    assert server.asked == ["/apis", "/apis"]


def test_a_reboot_of_this_node_is_seen_until_it_is_complete() -> None:
    server = Server(**{"janitor.dgxc.nvidia.com": "v1alpha1"})
    done = request("old", completionTime=T0.isoformat())
    server.objects[f"{JANITOR}/rebootnodes"] = listed(request("new"), done, request("elsewhere", "n2"))
    assert [(r.kind, r.name, r.finished, r.since) for r in on(server)] == [
        ("RebootNode", "new", False, T0),
        ("RebootNode", "old", True, T0),
    ]


def test_a_maintenance_tells_how_far_it_is() -> None:
    server = Server(**{"maintenance.nvidia.com": "v1alpha1"})
    ready = {"type": "Ready", "status": "False", "reason": "Draining"}
    server.objects[MAINTENANCE] = listed(request("m", conditions=[ready]))
    assert [(r.state, r.finished) for r in on(server)] == [("Draining", False)]


def test_a_remediation_is_named_like_its_node() -> None:
    server = Server(**{"self-node-remediation.medik8s.io": "v1alpha1"})
    path = "/apis/self-node-remediation.medik8s.io/v1alpha1/selfnoderemediations"
    noted = {"name": "n2-x", "annotations": {"remediation.medik8s.io/node-name": "n1"}}
    server.objects[path] = listed({"metadata": {"name": "n1"}}, {"metadata": noted}, {"metadata": {"name": "n2"}})
    assert [r.name for r in on(server)] == ["n1", "n2-x"]


@pytest.mark.parametrize(("seconds", "over"), [(0, False), (3599, False), (3601, True)])
def test_a_lease_of_medik8s_holds_until_it_runs_out(seconds: float, over: bool) -> None:
    server, clock = Server(**{"nodemaintenance.medik8s.io": "v1beta1"}), TestClock()
    spec = {"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600, "renewTime": T0.isoformat()}
    server.objects[LEASE] = {"spec": spec}
    clock.tick(seconds)
    found = Requests(server, clock).on("n1")  # type: ignore[arg-type]
    assert [(r.kind, r.state, r.finished) for r in found] == [("Lease", "node-maintenance", over)]


def test_what_may_not_be_read_is_never_nothing() -> None:
    server = Server(**{"janitor.dgxc.nvidia.com": "v1alpha1"})
    server.objects[f"{JANITOR}/rebootnodes"] = MissingRight("list", "rebootnodes.janitor.dgxc.nvidia.com")
    with pytest.raises(MissingRight):
        on(server)


def test_garbage_does_not_hide_the_rest() -> None:
    server = Server(**{"janitor.dgxc.nvidia.com": "v1alpha1"})
    server.objects[f"{JANITOR}/rebootnodes"] = {"items": [None, 7, {"metadata": []}, request("r")]}
    assert [r.name for r in on(server)] == ["r"]
