"""RayJobs that failed: reads and writes for how long their Ray cluster stays.

Decides which fields tell that it failed and when it ended, and that mark and time are written in one patch on the
version that was read. Refuses every namespace that was not allowed, and every other field.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from fleet.adapters.kubernetes import access
from fleet.adapters.kubernetes.client import MERGE_PATCH, ApiServer
from fleet.adapters.kubernetes.errors import refused
from fleet.ports.rayjobs import MARK, FailedJob
from fleet.ports.shapes import mapping, moment, text, texts, whole

RESOURCE = "rayjobs.ray.io"


class KubernetesRayJobs:
    def __init__(self, api: ApiServer, namespaces: Collection[str]) -> None:
        self._api = api
        self._namespaces = frozenset(namespaces)

    def allows(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def read(self, namespace: str, name: str) -> FailedJob:
        raw = mapping(self._api.get(_path(namespace, name), RESOURCE))
        meta, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
        return FailedJob(
            uid=text(meta.get("uid")),
            version=text(meta.get("resourceVersion")),
            failed=text(status.get("jobDeploymentStatus")) == "Failed" or text(status.get("jobStatus")) == "FAILED",
            shuts_down=spec.get("shutdownAfterJobFinishes") is True,
            ttl=max(0, whole(spec.get("ttlSecondsAfterFinished"), 0)),
            ended_at=moment(status.get("endTime")),
            mark=texts(meta.get("annotations")).get(MARK, ""),
        )

    def change(self, namespace: str, name: str, version: str, ttl: int | None, mark: str | None) -> None:
        body: dict[str, Any] = {"metadata": {"resourceVersion": version, "annotations": {MARK: mark}}}
        if ttl is not None:
            body["spec"] = {"ttlSecondsAfterFinished": ttl}
        call = self._api.call("patch", RESOURCE)
        answer = self._api.write(call, "PATCH", _path(namespace, name), body, MERGE_PATCH)
        if not answer.ok:
            raise refused(call, answer)

    def check(self) -> list[str]:
        why = "the evidence of RayJobs that fail there is not kept longer"
        rights = tuple(
            access.Right(verb, "rayjobs", why, "ray.io", namespace=within)
            for within in sorted(self._namespaces)
            for verb in ("get", "patch")
        )
        return access.missing(self._api, rights)


def _path(namespace: str, name: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{quote(namespace, safe='')}/rayjobs/{quote(name, safe='')}"
