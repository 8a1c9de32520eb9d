"""The REST API's what-ifs, and the linter of manifests.

Decides what may be asked. Refuses writes: asking and linting do nothing; and to answer a what-if by itself: without the
observer it is not known, and the answer says so.
"""

from __future__ import annotations

import json
from datetime import datetime

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from ninja import Query, Router, Schema
from ninja.errors import HttpError

from fleet import wiring
from fleet.api.callers import Caller
from fleet.api.gangs_out import FindingOut, LintOut, LosesOut, NamedOut, WhatIfOut, WrongOut
from fleet.gangs import linting
from fleet.gangs.linting import Report
from fleet.gangs.questions import NODES_AT_MOST, Answer, Question
from fleet.inventory.models import Cluster
from fleet.readmodels import gang_words
from fleet.readmodels.gang_whatif import answers, names, outcome, title, watched

router = Router(tags=["gangs"])
YAML = {"requestBody": {"required": True, "content": {
    "application/yaml": {"schema": {"type": "string"}},
    "application/json": {"schema": {"type": "object", "required": ["manifest"],
                                    "properties": {"manifest": {"type": "string"}}}},
}}}  # fmt: skip


class WhatIfQuery(Schema):
    """One of `return`, `drain` (node names, with commas between them) and `suspend` (a gang's key)."""

    cluster: str = ""
    drain: str = ""
    suspend: str = ""


def _caller(request: HttpRequest) -> Caller:
    return request.auth  # type: ignore[attr-defined]


@router.post("/gangs/lint", response=LintOut, summary="What a RayCluster, RayJob or RayService manifest will run into",
             openapi_extra=YAML)  # fmt: skip
def lint(request: HttpRequest) -> LintOut:
    return _linted(linting.check(_manifest(request), wiring.gang_manifest))


@router.get("/what-if", response=WhatIfOut, summary="What would fit, break or come free")
def what_if(request: HttpRequest, query: Query[WhatIfQuery]) -> WhatIfOut:
    cluster = _cluster(request, query.cluster)
    asked = _question(request.GET.get("return", ""), query.drain, query.suspend)
    told = answers(cluster, [asked])
    if told is None or not told.answers:
        missing = "no observer watches it" if not watched(cluster) else "its observer did not answer in time"
        return _what_if(cluster, asked, Answer(), False, f"Not known: {missing}.", None)
    found = told.answers[0]
    words = outcome(asked, found)
    return _what_if(cluster, asked, found, words.known, words.sentence, datetime.fromisoformat(told.at))


def _cluster(request: HttpRequest, name: str) -> Cluster:
    rows = Cluster.objects.filter(removed_at=None).order_by("name")
    visible = _caller(request).visible
    if visible is not None:
        rows = rows.filter(name__in=visible)
    found = list((rows.filter(name=name) if name else rows)[:2])
    if not found:
        raise HttpError(404, f"No cluster {name} is in view." if name else "No cluster is in view.")
    if len(found) > 1:
        raise HttpError(409, "Several clusters are in view: add ?cluster=.")
    return found[0]


def _question(back: str, drain: str, suspend: str) -> Question:
    given = [bool(back), bool(drain), bool(suspend)]
    if sum(given) != 1:
        raise HttpError(422, "Give one of return=NODES, drain=NODES and suspend=GANG.")
    if suspend:
        return Question("suspend", gang=suspend)
    nodes = tuple(word for word in (back or drain).replace(",", " ").split() if word)
    if not nodes or len(nodes) > NODES_AT_MOST:
        raise HttpError(422, f"Name 1 to {NODES_AT_MOST} nodes.")
    return Question("return" if back else "drain", nodes)


def _what_if(
    cluster: Cluster, asked: Question, found: Answer, known: bool, sentence: str, at: datetime | None
) -> WhatIfOut:
    return WhatIfOut(
        cluster=cluster.name,
        question=title(asked, names(cluster, [asked])),
        known=known,
        sentence=sentence,
        at=at,
        starts=[NamedOut(key=one.key, title=one.title, gpus=one.gpus) for one in found.starts],
        starts_count=found.starts_count,
        no_longer=[NamedOut(key=one.key, title=one.title, gpus=one.gpus) for one in found.no_longer],
        no_longer_count=found.no_longer_count,
        broken=[LosesOut(**{name: getattr(one, name) for name in LosesOut.model_fields}) for one in found.broken],
        gpus=found.gpus,
        gpus_free_then=found.free,
        whole_nodes_free_then=found.whole,
        unknown=list(found.unknown),
    )


def _manifest(request: HttpRequest) -> str:
    """The YAML itself, or JSON with it in `manifest`."""
    try:
        body = request.body
    except RequestDataTooBig as error:
        raise HttpError(413, "The manifest is too long.") from error
    try:
        text = body.decode()
        if (request.content_type or "").startswith("application/json"):
            told = json.loads(text)
            text = told["manifest"]
    except (ValueError, KeyError, TypeError) as error:
        raise HttpError(422, "Send YAML, or JSON with the YAML as text in manifest.") from error
    if not isinstance(text, str):
        raise HttpError(422, "The manifest must be text.")
    return text


def _linted(report: Report) -> LintOut:
    findings = []
    for found in report.found:
        told = gang_words.told(found.condition)
        findings.append(FindingOut(line=found.line, path=found.path, code=told.code,
                                   severity=found.condition.severity, name=told.name, sentence=told.sentence,
                                   meaning=told.meaning, remedy=told.remedy))  # fmt: skip
    wrong = [WrongOut(line=one.line, path=one.path, text=one.text) for one in report.wrong]
    ok = bool(report.looked) and not wrong and not findings
    return LintOut(ok=ok, looked=list(report.looked), skipped=list(report.skipped), wrong=wrong, findings=findings)
