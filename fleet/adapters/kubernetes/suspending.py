"""Jobs with a field that stops them whole: finds the one that made a pod, reads it, and writes the field.

Decides which object of a chain of owners keeps the field (the uppermost; under Kueue its Workload), and what speaks
against writing it. Refuses an owner of another UID than the pod names, a field that somebody else keeps, and every
namespace that was not allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fleet.adapters.kubernetes import access
from fleet.adapters.kubernetes.client import MERGE_PATCH, ApiServer
from fleet.adapters.kubernetes.errors import refused
from fleet.adapters.kubernetes.jobkinds import BY_KIND, KINDS, RAY_CLUSTER, WORKLOAD, Kind
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import NotFound, PermanentError, TemporaryError
from fleet.ports.shapes import items, mapping, text, texts, whole
from fleet.ports.suspends import MARK, WISH, Job, JobKind

GROUPS_KEPT = 300.0
"""Seconds for which the server's list of API groups is believed."""
DEPTH = 5
"""Owners above each other: pod, Job, JobSet, TrainJob, and one that is unknown."""
QUEUE, MADE_FOR = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-uid"
"""Kueue's label on what it starts and stops, and on a Workload: the UID of what it was made for."""
Raw = dict[str, Any]


class KubernetesSuspends:
    """`kinds`: namespace -> the kinds that are suspended there without a word of their owners."""

    def __init__(self, api: ApiServer, kinds: Mapping[str, Collection[str]], clock: Clock = SYSTEM_CLOCK) -> None:
        self._api = api
        self._kinds = {namespace: frozenset(named) for namespace, named in kinds.items()}
        self._clock = clock
        self._groups: dict[str, tuple[str, ...]] = {}
        self._read_at: float | None = None

    def kinds(self, namespace: str) -> frozenset[str] | None:
        return self._kinds.get(namespace)

    def job_of(self, pod: PodSeen) -> Job | None:
        kind, _, name = pod.owner.partition("/")
        uid = pod.member.owner_uid if pod.member else ""
        chain = list(self._chain(kind, pod.namespace, name, uid))
        if not chain:
            return None
        top, raw = chain[-1]
        if top is RAY_CLUSTER:
            return None
        above = _maker(raw)
        found = _seen(top, raw)
        if above:
            return replace(found, refusal=f"is made by {_named(above)}, which may start and stop it itself")
        return self._under_kueue(found, [one for _, one in chain]) or found

    def _chain(self, kind: str, namespace: str, name: str, uid: str) -> Iterator[tuple[Kind, Raw]]:
        """The pod's owners from below, as far as they are of our kinds."""
        for _ in range(DEPTH):
            of_kind = BY_KIND.get(kind)
            if of_kind is None or not uid or of_kind is WORKLOAD:
                return
            try:
                raw = self._get(of_kind, namespace, name)
            except NotFound:
                return
            if text(mapping(raw.get("metadata")).get("uid")) != uid:
                return
            yield of_kind, raw
            above = _maker(raw)
            kind, name, uid = (text(above.get(key)) for key in ("kind", "name", "uid"))
            group = text(above.get("apiVersion")).rpartition("/")[0]
            if kind in BY_KIND and BY_KIND[kind].group != group:
                return

    def _under_kueue(self, found: Job, chain: Collection[Raw]) -> Job | None:
        """Where Kueue keeps the field: its Workload, or why that is not found."""
        metas = [mapping(raw.get("metadata")) for raw in chain]
        queued = any(QUEUE in texts(meta.get("labels")) for meta in metas)
        try:
            workloads = self._workloads(found.namespace, [text(meta.get("uid")) for meta in metas])
        except NotFound:
            workloads = []
        if len(workloads) == 1:
            return replace(_seen(WORKLOAD, workloads[0]), wish=found.wish)
        if not queued and not workloads:
            return None
        why = "has no Workload yet" if not workloads else f"has {len(workloads)} Workloads"
        return replace(found, refusal=f"is started and stopped by Kueue and {why}")

    def _workloads(self, namespace: str, uids: Collection[str]) -> list[Raw]:
        path = f"{self._root(WORKLOAD)}/namespaces/{quote(namespace, safe='')}/{WORKLOAD.plural}"
        params = {"labelSelector": f"{MADE_FOR} in ({','.join(uids)})", "limit": "10"}
        page = mapping(self._api.get(path, WORKLOAD.resource, verb="list", params=params))
        return [raw for raw in items(page.get("items")) if not mapping(raw.get("metadata")).get(_DELETED)]

    def read(self, kind: JobKind, namespace: str, name: str) -> Job:
        """A kind that is not served now may be served again, with its objects: that is no word on the object."""
        try:
            self._root(BY_KIND[kind])
        except NotFound as error:
            raise TemporaryError(str(error)) from error
        return _seen(BY_KIND[kind], self._get(BY_KIND[kind], namespace, name))

    def change(self, job: Job, suspend: bool | None, mark: str | None) -> None:
        kind = BY_KIND[job.kind]
        if job.namespace not in self._kinds:
            raise PermanentError(f"Jobs are not suspended in namespace {job.namespace}.")
        body: Raw = {"metadata": {"resourceVersion": job.version, "uid": job.uid, "annotations": {MARK: mark}}}
        if suspend is not None:
            body |= kind.written(suspend)
        call = self._api.call("patch", kind.resource)
        answer = self._api.write(call, "PATCH", self._path(kind, job.namespace, job.name), body, MERGE_PATCH)
        if not answer.ok:
            raise refused(call, answer)

    def check(self) -> list[str]:
        why = "jobs are not suspended there, their pods are evicted"
        served = [kind for kind in (*KINDS, RAY_CLUSTER) if kind.group == "batch" or kind.group in self._served()]
        rights = tuple(
            access.Right(verb, kind.plural, why, kind.group, namespace=within)
            for within in sorted(self._kinds)
            for kind in served
            for verb in ("get", *(() if kind is RAY_CLUSTER else ("patch",)), *(("list",) if kind is WORKLOAD else ()))
        )
        return access.missing(self._api, rights)

    def _get(self, kind: Kind, namespace: str, name: str) -> Raw:
        return mapping(self._api.get(self._path(kind, namespace, name), kind.resource))

    def _path(self, kind: Kind, namespace: str, name: str) -> str:
        return f"{self._root(kind)}/namespaces/{quote(namespace, safe='')}/{kind.plural}/{quote(name, safe='')}"

    def _root(self, kind: Kind) -> str:
        if kind.group == "batch":
            return "/apis/batch/v1"
        version = next((one for one in kind.versions if one in self._served().get(kind.group, ())), "")
        if not version:
            raise NotFound(f"{self._api.address} serves no version of {kind.resource} that is known here.")
        return f"/apis/{kind.group}/{version}"

    def _served(self) -> dict[str, tuple[str, ...]]:
        """Group -> the versions that the server has."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at > GROUPS_KEPT:
            raw = mapping(self._api.get("/apis", "apis"))
            self._groups = {
                text(group.get("name")): tuple(text(one.get("version")) for one in items(group.get("versions")))
                for group in items(raw.get("groups"))
            }
            self._read_at = now
        return self._groups


_DELETED = "deletionTimestamp"


def _seen(kind: Kind, raw: Raw) -> Job:
    meta, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    notes = texts(meta.get("annotations"))
    true = {text(c.get("type")) for c in items(status.get("conditions")) if text(c.get("status")) == "True"}
    phase = text(status.get("jobDeploymentStatus"))
    told = kind.told(spec)
    return Job(
        kind=kind.kind,
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        version=text(meta.get("resourceVersion")),
        generation=whole(meta.get("generation"), 0),
        suspended=told is True,
        ended=bool(meta.get(_DELETED) or true & set(kind.ends) or phase in kind.ends),
        mark=notes.get(MARK, ""),
        wish=notes.get(WISH, ""),
        refusal=f"does not tell by {kind.field} whether it is suspended" if told is None else kind.forbids(spec),
    )


def _maker(raw: Raw) -> Raw:
    owners = items(mapping(raw.get("metadata")).get("ownerReferences"))
    return next((mapping(one) for one in owners if one.get("controller") is True), {})


def _named(owner: Raw) -> str:
    return f"{text(owner.get('kind'))} {text(owner.get('name'))}"
