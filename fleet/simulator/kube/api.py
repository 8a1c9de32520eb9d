"""The front door of the simulated API server: path to resource, verb, right, answer.

It decides who gets in and which part answers. It refuses every path it does not serve with a 404 Status, and counts
each write that passed authorisation, whatever came of it.
"""

from typing import Any, NamedTuple

import orjson

from fleet.simulator.budgets import Budgets
from fleet.simulator.kube import errors
from fleet.simulator.kube.access import Access
from fleet.simulator.kube.eviction import evict
from fleet.simulator.kube.kinds import BY_PATH, KINDS, Kind, discovery
from fleet.simulator.kube.listing import Listing
from fleet.simulator.kube.logs import pod_log
from fleet.simulator.kube.watching import Watching
from fleet.simulator.kube.writing import Writing
from fleet.simulator.stats import Stats
from fleet.simulator.store import Record, Store
from fleet.simulator.web import Request, Response, json_response

NAMESPACED = {kind.plural for kind in KINDS if kind.namespaced}
PUBLIC = ("/version", "/healthz", "/livez", "/readyz")


class Target(NamedTuple):
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    sub: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def parse(path: str) -> Target | None:
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 3 and rest[2] in NAMESPACED:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0])) if rest and len(rest) <= 3 else None
    if kind is None:
        return None
    name, sub = rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    if (kind.namespaced and name and not namespace) or (sub and sub not in kind.subresources):
        return None
    return Target(kind, namespace, name, sub)


class KubeApi:
    """Answers everything below /api, /apis and /version."""

    def __init__(
        self, store: Store, access: Access, stats: Stats, writing: Writing, budgets: Budgets, bookmark_seconds: float
    ) -> None:
        self.store = store
        self.access = access
        self.stats = stats
        self.writing = writing
        self.budgets = budgets
        self.listing = Listing(store)
        self.watching = Watching(store, self.listing, bookmark_seconds)

    def compact(self) -> None:
        """Forget the past: continue tokens expire and old versions can no longer be watched."""
        self.listing.forget()
        for collection in self.store.collections.values():
            collection.forget_history()

    async def answer(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except errors.ApiError as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return Response(refusal.code, refusal.body(), headers=headers)

    def _answer(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if path in PUBLIC[1:]:
            return Response(200, b"ok", "text/plain")
        if path in PUBLIC:
            return json_response(discovery(path, ""))
        user = self.access.user(request.header("authorization"))
        document = discovery(path, request.header("host"))
        if document is not None and request.method == "GET":
            return json_response(document)
        target = parse(path)
        if target is None:
            raise errors.no_such_path()
        verb = _verb(request, target)
        self.access.check(user, verb, target.kind, target.sub, target.namespace, target.name)
        if request.method == "GET":
            return self._read(request, target, verb)
        if target.kind.plural == "selfsubjectaccessreviews":
            return self._review(request, user)
        resource = f"{target.kind.plural}/{target.sub}" if target.sub else target.kind.plural
        self.stats.wrote(verb, resource)
        return self._write(request, target, verb)

    def _read(self, request: Request, target: Target, verb: str) -> Response:
        kind = target.kind
        if verb == "watch":
            query = dict(request.query)
            if target.name:
                query["fieldSelector"] = f"metadata.name={target.name}"
            return Response(stream=self.watching.open(kind, target.namespace, query))
        if verb == "list":
            return Response(body=self.listing.page(kind, target.namespace, request.query))
        record = self.store[kind.plural].get(target.key)
        if record is None:
            raise errors.not_found(kind, target.name)
        if target.sub == "log":
            return Response(200, pod_log(record, self.writing.kubelets.logs, request.query), "text/plain")
        return self._whole(record, kind)

    def _write(self, request: Request, target: Target, verb: str) -> Response:
        kind, dry = target.kind, request.query.get("dryRun") == "All"
        if verb == "patch":
            kind_of_patch = request.header("content-type")
            return self._whole(self.writing.patch(kind, target.key, target.sub, kind_of_patch, request.body, dry), kind)
        body = _json(request)
        if target.sub == "eviction":
            done = evict(self.store, self.writing, self.budgets, self.stats, kind, target.key, body, dry)
            return json_response(done, 201)
        if verb == "create":
            return self._whole(self.writing.create(kind, target.namespace, body, dry), kind, 201)
        if verb == "update":
            missing = self.store[kind.plural].get(target.key) is None
            if missing and kind.plural == "leases":  # a PUT may create a Lease
                return self._whole(self.writing.create(kind, target.namespace, body, dry), kind, 201)
            return self._whole(self.writing.replace(kind, target.key, target.sub, body, dry), kind)
        options = dict(body or {})
        if "gracePeriodSeconds" in request.query:
            options["gracePeriodSeconds"] = int(request.query["gracePeriodSeconds"])
        if verb == "deletecollection":
            chosen = self.listing.select(kind, target.namespace, request.query)
            for record in chosen:
                self.writing.delete(kind, record.key, options, dry)
            head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":{{}},"items":['
            return Response(body=head.encode() + self.store.bodies(chosen, kind) + b"]}")
        record = self.writing.delete(kind, target.key, options, dry)
        if kind.plural == "pods":
            return self._whole(record, kind)
        about = errors.details(kind, record.name) | {"uid": record.uid}
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": about}
        return json_response(done)

    def _whole(self, record: Record, kind: Kind, status: int = 200) -> Response:
        return Response(status, self.store.render_whole(record, kind))

    def _review(self, request: Request, user: str) -> Response:
        review = _json(request) or {}
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource += "/" + asked["subresource"]
        allowed = self.access.allows(user, asked.get("verb", ""), resource)
        answer = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        return json_response(answer | {"spec": review.get("spec") or {}, "status": {"allowed": allowed}}, 201)


def _verb(request: Request, target: Target) -> str:
    """The word RBAC uses for this request."""
    named = bool(target.name)
    if request.method == "GET":
        return "watch" if request.flag("watch") else "get" if named else "list"
    verb = {
        ("POST", False): "create",
        ("PUT", True): "update",
        ("PATCH", True): "patch",
        ("DELETE", True): "delete",
        ("DELETE", False): "deletecollection",
    }.get((request.method, named))
    if request.method == "POST" and target.sub == "eviction":
        verb = "create"
    allowed = target.kind.verbs if not target.sub else ("update", "patch", "create" if target.sub == "eviction" else "")
    if verb is None or verb not in allowed:
        raise errors.method_not_allowed()
    return verb


def _json(request: Request) -> Any:
    if not request.body:
        return None
    try:
        return orjson.loads(request.body)
    except orjson.JSONDecodeError as problem:
        raise errors.bad_request(f"the body of the request is not valid JSON: {problem}") from problem
