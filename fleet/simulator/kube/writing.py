"""Writes through the API: create, replace, patch and delete with their preconditions.

It decides conflicts, defaults and what a write may touch. It refuses to act on the fleet itself: pods are handed to
the kubelets to end, Jobs to the job controller to run.
"""

import uuid
from random import Random
from typing import Any

import orjson

from fleet.simulator.kube import errors, patches, validation
from fleet.simulator.kube.defaults import fill
from fleet.simulator.kube.kinds import Kind
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.store import Collection, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
PATCHES = {
    "application/merge-patch+json": patches.merge,
    "application/strategic-merge-patch+json": patches.strategic,
    "application/json-patch+json": patches.json_patch,
}
_OURS_TO_KEEP = ("uid", "name", "namespace", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


class Writing:
    """Applies authorised writes to the store."""

    def __init__(self, store: Store, timeline: Timeline, kubelets: Kubelets, rng: Random) -> None:
        self.store = store
        self.timeline = timeline
        self.kubelets = kubelets
        self.rng = rng

    def create(self, kind: Kind, namespace: str, obj: Any, dry: bool = False) -> Record:
        problem = validation.body_matches(kind, obj, namespace, "")
        if problem:
            raise problem
        if namespace and self.store["namespaces"].get(namespace) is None:
            raise errors.ApiError(404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace})
        meta = dict(obj.get("metadata") or {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + self.suffix()
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.timeline.stamp()
        obj = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} | {"metadata": meta}
        validation.check(kind, obj)
        collection = self.store[kind.plural]
        key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
        if collection.get(key) is not None:
            raise errors.already_exists(kind, meta["name"])
        fill(kind, obj)
        return self._dry(obj) if dry else collection.put(obj)

    def replace(self, kind: Kind, key: str, sub: str, obj: Any, dry: bool = False) -> Record:
        namespace, _, name = key.rpartition("/")
        problem = validation.body_matches(kind, obj, namespace, name)
        if problem:
            raise problem
        old = self._existing(kind, key)
        sent = str((obj.get("metadata") or {}).get("resourceVersion") or "")
        if not sent and kind.plural in ("leases", "poddisruptionbudgets"):
            text = "Invalid value: 0: must be specified for an update"
            raise errors.invalid(kind, name, [("metadata.resourceVersion", "FieldValueInvalid", text)])
        if sent and sent != str(old.rv):
            raise errors.conflict(kind, name)
        return self._update(kind, old, sub, {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}, dry)

    def patch(self, kind: Kind, key: str, sub: str, content_type: str, body: bytes, dry: bool = False) -> Record:
        apply = PATCHES.get(content_type.partition(";")[0].strip())
        if apply is None:
            accepted = ", ".join(PATCHES)
            text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise errors.ApiError(415, "UnsupportedMediaType", text, {})
        try:
            patch = orjson.loads(body)
        except orjson.JSONDecodeError as problem:
            raise errors.bad_request(f"error decoding patch: {problem}") from problem
        if apply is not patches.json_patch and not isinstance(patch, dict):
            raise errors.bad_request("json: cannot unmarshal the patch into an object")
        old = self._existing(kind, key)
        document = orjson.loads(kind.prefix + old.body[1:])
        changed = apply(document, patch)
        if str(changed.get("metadata", {}).get("resourceVersion", old.rv)) != str(old.rv):
            raise errors.conflict(kind, old.name)
        problem_ = validation.body_matches(kind, changed, old.namespace, old.name)
        if problem_:
            raise problem_
        return self._update(kind, old, sub, {k: v for k, v in changed.items() if k not in ("kind", "apiVersion")}, dry)

    def delete(self, kind: Kind, key: str, options: Json, dry: bool = False) -> Record:
        record = self._existing(kind, key)
        self.check_preconditions(kind, record, options.get("preconditions") or {})
        if dry:
            return record
        if kind.plural == "pods":
            return self.kubelets.delete(record, options.get("gracePeriodSeconds"))
        collection = self.store[kind.plural]
        obj = orjson.loads(record.body)
        if obj["metadata"].get("finalizers"):
            if record.deleting:
                return record
            obj["metadata"]["deletionTimestamp"] = self.timeline.stamp()
            return collection.put(obj)
        return collection.remove(key) or record

    def check_preconditions(self, kind: Kind, record: Record, wanted: Json) -> None:
        if wanted.get("uid") and wanted["uid"] != record.uid:
            text = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {record.uid}"
            raise errors.conflict(kind, record.name, text)
        if wanted.get("resourceVersion") and str(wanted["resourceVersion"]) != str(record.rv):
            text = (
                f"Precondition failed: ResourceVersion in precondition: {wanted['resourceVersion']}, "
                f"ResourceVersion in object meta: {record.rv}"
            )
            raise errors.conflict(kind, record.name, text)

    def suffix(self) -> str:
        return "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))

    def _existing(self, kind: Kind, key: str) -> Record:
        record = self.store[kind.plural].get(key)
        if record is None:
            raise errors.not_found(kind, key.rpartition("/")[2])
        return record

    def _update(self, kind: Kind, old: Record, sub: str, new: Json, dry: bool) -> Record:
        before = orjson.loads(old.body)
        meta = dict(new.get("metadata") or {})
        if meta.get("uid") not in (None, "", old.uid):
            text = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old.uid}"
            raise errors.conflict(kind, old.name, text)
        for field in _OURS_TO_KEEP:
            meta.pop(field, None)
            if field in before["metadata"]:
                meta[field] = before["metadata"][field]
        meta["resourceVersion"] = str(old.rv)
        if sub == "status":
            after = before | {"metadata": meta, "status": new.get("status") or {}}
        elif "status" in kind.subresources:
            after = new | {"metadata": meta}
            after.pop("status", None)
            if "status" in before:
                after["status"] = before["status"]
        else:
            after = new | {"metadata": meta}
        self._check_change(kind, before, after)
        if after == before:
            return old
        if before["metadata"].get("generation") and after.get("spec") != before.get("spec"):
            meta["generation"] = before["metadata"]["generation"] + 1
        if dry:
            return self._dry(after)
        return self._commit(self.store[kind.plural], kind, after)

    def _check_change(self, kind: Kind, before: Json, after: Json) -> None:
        validation.check(kind, after, before)
        if kind.plural == "pods" and after.get("spec") != before.get("spec"):
            text = "Forbidden: pod updates may not change fields other than the image and the tolerations"
            name = before["metadata"]["name"]
            if _without(after) != _without(before):
                raise errors.invalid(kind, name, [("spec", "FieldValueForbidden", text)])

    def _commit(self, collection: Collection, kind: Kind, after: Json) -> Record:
        record = collection.put(after)
        if record.deleting and not after["metadata"].get("finalizers"):
            if kind.plural == "pods":
                self.kubelets.unpinned(record)
            else:
                collection.remove(record.key)
        return record

    def _dry(self, obj: Json) -> Record:
        meta = obj["metadata"]
        rv = int(meta.get("resourceVersion") or 0)
        return Record(meta.get("namespace", ""), meta["name"], meta["uid"], rv, orjson.dumps(obj), {})


def _without(obj: Json) -> Json:
    spec = dict(obj.get("spec") or {})
    spec.pop("tolerations", None)
    spec["containers"] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get("containers") or ()]
    return spec
