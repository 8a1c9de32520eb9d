"""ClusterActor on a Kubernetes API server.

Decides how each verb of a hold and a drain is written: one request with a precondition, sent once. Refuses to shorten
a grace period, and to write over a change it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fleet.adapters.kubernetes import access, decode, job, lease, slinky
from fleet.adapters.kubernetes.client import MERGE_PATCH, ApiServer
from fleet.adapters.kubernetes.client import decode as parsed
from fleet.adapters.kubernetes.errors import Answer, eviction_refused, refused
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import (
    GPU_SERVICE_ON,
    GPU_SERVICE_PAUSED,
    GPU_SERVICES,
    HOLD_ANNOTATION,
    OUT_OF_SERVICE,
    HoldRequest,
    JobRequest,
    JobSeen,
    NodeSeen,
    PodSeen,
)
from fleet.ports.errors import Conflict, NotFound, PortError, UnknownOutcome
from fleet.ports.shapes import items, mapping

NODES = "/api/v1/nodes"
_JOBS = "jobs.batch"
_RACES = 2
LOG_LINES, LOG_BYTES = 50_000, 4 << 20


class KubernetesActor:
    """`job_namespaces`: where Jobs will be asked for; an empty name asks for the right in every namespace.
    `slinky_nodes`: they may be nodes of Slurm as well, whose operator reads from the node why it is held."""

    def __init__(
        self,
        api: ApiServer,
        *,
        lease_namespace: str = "default",
        job_namespaces: Sequence[str] = ("",),
        slinky_nodes: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api = api
        self._job_namespaces = tuple(dict.fromkeys(job_namespaces))
        self._lease_namespace = lease_namespace
        self._slinky = slinky_nodes
        self._clock = clock
        self._others = lease.Watched(clock)

    def hold(self, request: HoldRequest) -> NodeSeen:
        body: dict[str, Any] = {"metadata": {"annotations": {HOLD_ANNOTATION: request.value}}}
        if request.resource_version:
            body["metadata"]["resourceVersion"] = request.resource_version
        if self._slinky:
            notes = decode.node(self._api.get(f"{NODES}/{quote(request.node, safe='')}", "nodes")).annotations
            body["metadata"]["annotations"] |= slinky.reason_of(notes, request.value, request.why)
        if request.set_unschedulable:
            body["spec"] = {"unschedulable": True}
        return self._patch_node(request.node, body)

    def release(self, node: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        """Conflict when the annotation is no longer `value`: another owner, or a person, was here first.

        Without a version to start from, a heartbeat between our reading and our writing is no reason to give up.
        """
        for _ in range(_RACES):
            try:
                return self._release(node, value, resource_version, uncordon)
            except Conflict as lost:
                if resource_version or lost.code == "hold_changed":
                    raise
        return self._release(node, value, resource_version, uncordon)

    def _release(self, node: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        now = decode.node(self._api.get(f"{NODES}/{quote(node, safe='')}", "nodes"))
        found = now.annotations.get(HOLD_ANNOTATION)
        if found != value:
            said = f"holds {found!r}" if found else "has no hold"
            raise Conflict(f"Node {node} {said}, not {value!r}: the hold is not ours to release.", code="hold_changed")
        body: dict[str, Any] = {
            "metadata": {
                "annotations": {HOLD_ANNOTATION: None, **slinky.reason_gone(now.annotations)},
                "resourceVersion": resource_version or now.resource_version,
            }
        }
        if uncordon:
            body["spec"] = {"unschedulable": None}
        return self._patch_node(node, body)

    def fence(self, node: str, on: bool) -> NodeSeen:
        """The list of taints is written whole, so it is read first and written on the version that was read."""
        key, value, effect = OUT_OF_SERVICE
        for _ in range(_RACES):
            raw = mapping(self._api.get(f"{NODES}/{quote(node, safe='')}", "nodes"))
            taints = [taint for taint in items(mapping(raw.get("spec")).get("taints")) if isinstance(taint, dict)]
            others = [taint for taint in taints if taint.get("key") != key]
            if on == (len(others) < len(taints)):
                return decode.node(raw)
            wanted = [*others, {"key": key, "value": value, "effect": effect}] if on else others
            version = mapping(raw.get("metadata")).get("resourceVersion")
            try:
                body = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
                return self._patch_node(node, body)
            except Conflict:
                continue
        raise Conflict(f"Node {node} changes faster than its taints can be written.")

    def pause_gpu_services(self, node: str, on: bool) -> NodeSeen:
        found, fresh = (GPU_SERVICE_ON, GPU_SERVICE_PAUSED) if on else (GPU_SERVICE_PAUSED, GPU_SERVICE_ON)
        seen = decode.node(self._api.get(f"{NODES}/{quote(node, safe='')}", "nodes"))
        labels = {key: fresh for key in GPU_SERVICES if seen.labels.get(key) == found}
        if not labels:
            return seen
        return self._patch_node(node, {"metadata": {"labels": labels, "resourceVersion": seen.resource_version}})

    def evict(self, pod: PodSeen) -> None:
        namespace, name = quote(pod.namespace, safe=""), quote(pod.name, safe="")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        call = self._api.call("create", "pods/eviction")
        answer = self._api.write(call, "POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        if not answer.ok:
            raise eviction_refused(call, answer, pod.namespace)

    def delete(self, pod: PodSeen) -> None:
        """No grace period is sent, so the pod's own holds. The right is needed by those alone who force drains."""
        call = self._api.call("delete", "pods")
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        answer = self._api.write(call, "DELETE", path, body)
        if answer.status == 409:
            raise NotFound(f"The pod to delete is gone and another one has its name ({call.server}): {answer.message}")
        if not answer.ok:
            raise refused(call, answer)

    def create_job(self, request: JobRequest) -> None:
        call = self._api.call("create", _JOBS)
        answer = self._api.write(call, "POST", self._job_path(request.namespace), job.manifest(request))
        if not answer.ok:
            error = refused(call, answer)
            if error.code != "already_exists":
                raise error

    def job(self, namespace: str, name: str) -> JobSeen:
        try:
            found = job.seen(self._api.get(self._job_path(namespace, name), _JOBS))
        except NotFound:
            return JobSeen("missing")
        if found.phase != "failed":
            return found
        words = self._last_words(namespace, name)
        return JobSeen("failed", f"{found.text} ({words})" if words else found.text)

    def job_log(self, namespace: str, name: str) -> str | None:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        pod, container = job.newest_pod(self._pods_of(path, name))
        if not pod:
            return None
        params = {"container": container, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
        try:
            return self._api.text(f"{path}/{quote(pod, safe='')}/log", "pods/log", params)
        except NotFound:
            return None

    def delete_job(self, namespace: str, name: str) -> None:
        call = self._api.call("delete", _JOBS)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        answer = self._api.write(call, "DELETE", self._job_path(namespace, name), options)
        if not answer.ok and answer.status != 404:
            raise refused(call, answer)

    def clear_tests(self, node: str) -> None:
        """A Job brings nothing with it that would outlive it."""

    def claim_lease(self, installation: str, ttl_seconds: int) -> bool:
        return lease.claim(self._api, self._lease_namespace, installation, ttl_seconds, self._clock, self._others)

    def check(self) -> list[str]:
        jobs = "a returned node cannot be validated"
        results = "what a validation measured cannot be read"
        leases = "it cannot be proved that only this installation acts here"
        at = self._lease_namespace
        rights = (
            access.Right("get", "nodes", "a hold cannot be compared before it is released"),
            access.Right("patch", "nodes", "no node can be held or released"),
            access.Right("create", "pods", "no node can be drained", subresource="eviction"),
            *(
                access.Right(verb, "jobs", why, "batch", namespace=within)
                for within in self._job_namespaces
                for verb, why in (("create", jobs), ("get", jobs), ("delete", "finished jobs stay behind"))
            ),
            *(
                right
                for within in self._job_namespaces
                for right in (
                    access.Right("list", "pods", results, namespace=within),
                    access.Right("get", "pods", results, subresource="log", namespace=within),
                )
            ),
            access.Right("get", "leases", leases, "coordination.k8s.io", namespace=at),
            access.Right("create", "leases", leases, "coordination.k8s.io", namespace=at),
            access.Right("update", "leases", leases, "coordination.k8s.io", namespace=at),
        )
        return access.missing(self._api, rights)

    def _patch_node(self, node: str, body: dict[str, Any]) -> NodeSeen:
        call = self._api.call("patch", "nodes")
        answer = self._api.write(call, "PATCH", f"{NODES}/{quote(node, safe='')}", body, MERGE_PATCH)
        if not answer.ok:
            raise refused(call, answer)
        return self._accepted(answer, node)

    def _accepted(self, answer: Answer, node: str) -> NodeSeen:
        """The patched node. An unreadable body after 200 leaves the outcome to be observed."""
        try:
            return decode.node(parsed(self._api.call("patch", "nodes"), answer))
        except (PortError, ValueError) as error:
            raise UnknownOutcome(f"{self._api.address} answered the patch of node {node} unreadably.") from error

    def _job_path(self, namespace: str, name: str = "") -> str:
        collection = f"/apis/batch/v1/namespaces/{quote(namespace, safe='')}/jobs"
        return f"{collection}/{quote(name, safe='')}" if name else collection

    def _last_words(self, namespace: str, name: str) -> str:
        """Best effort: the acting credential need not be allowed to list pods."""
        try:
            path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
            return job.last_words(self._pods_of(path, name))
        except PortError:
            return ""

    def _pods_of(self, path: str, name: str) -> list[dict[str, Any]]:
        params = {"labelSelector": f"batch.kubernetes.io/job-name={name}", "limit": "5"}
        return items(mapping(self._api.get(path, "pods", verb="list", params=params)).get("items"))
