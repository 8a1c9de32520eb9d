"""The REST API of gangs and queues: who waits and why, and what queues may use.

Decides filters and paging of the answers. Refuses clusters that the caller may not see: to him they do not exist.
"""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Router
from ninja.errors import HttpError

from fleet.api.callers import Caller
from fleet.api.gangs_out import (
    BlockerOut,
    ConditionOut,
    GangDetail,
    GangList,
    GangOut,
    GangReason,
    MemberOut,
    MomentOut,
    QueueList,
    QueueOut,
    QuotaOut,
)
from fleet.api.paging import Paging
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import gang_cost, gang_list, gang_page, queue_quota
from fleet.readmodels.gang_conditions import Shown, of_gangs
from fleet.readmodels.gang_list import GangLine, Wanted
from fleet.readmodels.queue_quota import QueueLine

router = Router(tags=["gangs"])


class GangQuery(Paging):
    cluster: str = ""
    state: Literal[
        "", "waits", "idle", "waiting", "partial", "starting", "running", "suspended", "empty", "finished"
    ] = ""
    queue: str = ""
    system: str = ""
    condition: str = ""
    q: str = ""
    by: Literal["idle", "wait", "queue"] = "idle"


def _caller(request: HttpRequest) -> Caller:
    return request.auth  # type: ignore[attr-defined]


@router.get("/gangs", response=GangList, summary="Gangs: counts, wait, reason, blocking nodes and conditions")
def gangs(request: HttpRequest, query: Query[GangQuery]) -> GangList:
    wanted = Wanted(query.state, query.queue, query.system, query.cluster, query.condition, query.q, query.by)
    rows = gang_list.chosen(_caller(request).visible, wanted)
    found = gang_list.lines(gang_list.ordered(rows, wanted.by)[query.cut()], SYSTEM_CLOCK.now())
    conditions = of_gangs((line.cluster_id, line.key) for line in found)
    items = [GangOut(**_gang(line, conditions.get((line.cluster_id, line.key), []))) for line in found]
    return GangList(count=rows.count(), items=items)


@router.get("/gangs/{path:key}", response=GangDetail, summary="One gang with its members and its timeline")
def gang(request: HttpRequest, key: str, cluster: str = "") -> GangDetail:
    visible = _caller(request).visible
    rows = gang_list.present(visible, cluster).filter(key=key)
    found = list(rows.values_list("pk", "cluster__name")[:10])
    if not found:
        raise HttpError(404, f"No gang {key} is in view.")
    if len(found) > 1:
        names = ", ".join(sorted(name for _, name in found))
        raise HttpError(409, f"The clusters {names} have a gang {key}: add ?cluster=.")
    view = gang_page.read(found[0][0], visible, SYSTEM_CLOCK.now())
    if view is None:
        raise HttpError(404, f"No gang {key} is in view.")
    members = [MemberOut(**{name: getattr(one, name) for name in MemberOut.model_fields}) for one in view.members]
    timeline = [
        MomentOut(at=one.at, kind=one.kind, text=f"{one.lead} {one.text}".strip(), raw=one.raw, nodes=list(one.nodes))
        for one in view.moments
    ]
    return GangDetail(**_gang(view.line, view.line.conditions), guarantee=view.guarantee, gone_at=view.gone_at,
                      members=members, timeline=timeline)  # fmt: skip


@router.get("/queues", response=QueueList, summary="Queues: quotas, use, fair share, gangs that wait")
def queues(request: HttpRequest, cluster: str = "") -> QueueList:
    found = queue_quota.read(_caller(request).visible, cluster)
    return QueueList(count=len(found), items=[_queue(line) for line in found])


def _gang(line: GangLine, conditions: list[Shown]) -> dict[str, Any]:
    same = set(GangOut.model_fields) - {"gpu_hours_idle", "money_idle", "reason", "blockers", "conditions"}
    why = line.why
    reason = None
    if why is not None:
        reason = GangReason(code=why.code, name=why.name, sentence=why.sentence, clears=why.waits, do=why.do,
                            raw=why.raw, source=why.source, fits=line.facts.get("fits"))  # fmt: skip
    return {
        **{name: getattr(line, name) for name in same},
        "gpu_hours_idle": round(line.idle / gang_cost.HOUR, 3),
        "money_idle": gang_cost.money(line.idle) or None,
        "reason": reason,
        "blockers": [BlockerOut(**_blocker(one)) for one in line.blockers],
        "conditions": [
            ConditionOut(code=one.told.code, severity=one.severity, name=one.told.name, sentence=one.told.sentence,
                         meaning=one.told.meaning, remedy=one.told.remedy, since=one.since)
            for one in conditions
        ],
    }  # fmt: skip


def _blocker(raw: dict[str, Any]) -> dict[str, Any]:
    blank = {"code": "", "text": "", "since": None, "back_at": None, "workflow": None, "ticket": "", "members": 0}
    return {**blank, **{name: raw[name] for name in BlockerOut.model_fields if name in raw}}


def _queue(line: QueueLine) -> QueueOut:
    same = ("key", "cluster", "system", "kind", "namespace", "name", "parent", "stopped", "share", "weight",
            "gangs", "gangs_waiting")  # fmt: skip
    return QueueOut(
        **{name: getattr(line, name) for name in same},
        strict=line.head_blocks,
        quotas=[QuotaOut(**{name: getattr(one, name) for name in QuotaOut.model_fields}) for one in line.shares],
        share_means=line.says_of_share,
        gpus_held_idle=line.idle,
        said=[str(one[1]) for one in line.said],
    )
