"""What pages ask the observer: who would fit if a node returned, or if this gang were suspended.

Decides which questions are worth asking. Refuses to answer by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dashboard.views.gang_links import gang_by_key, out_node
from fleet.gangs.questions import NODES_AT_MOST, Question
from fleet.inventory.models import Cluster
from fleet.readmodels.gang_page import GangView
from fleet.readmodels.gang_whatif import Outcome, outcomes

ONE_BY_ONE = 5  # blocking nodes that are asked for alone


def gang_answers(found: GangView, now: datetime) -> dict[str, Any]:
    """One query, for the cluster."""
    line = found.line
    cluster = Cluster.objects.get(pk=line.cluster_id)
    names = [str(one["node"]) for one in line.blockers]
    questions = [Question("return", (name,)) for name in names[:ONE_BY_ONE]]
    if len(names) > 1:
        questions.append(Question("return", tuple(names[:NODES_AT_MOST])))
    if line.gpus_held:
        questions.append(Question("suspend", gang=line.key))
    told = outcomes(cluster, questions) if questions and found.gone_at is None else []
    out = {str(one["node"]): out_node(one, line.cluster) for one in line.blockers}
    return {
        "now": now,
        "asked": bool(questions),
        "outcomes": [
            {**shown_outcome(one, line.cluster), "this": any(named.key == line.key for named in one.starts),
             "out": out.get(one.question.nodes[0]) if len(one.question.nodes) == 1 else None}
            for one in told
        ],
    }  # fmt: skip


def node_answers(cluster: Cluster, name: str, is_out: bool) -> list[dict[str, Any]]:
    """A node that is out may return; one that serves may be drained."""
    question = Question("return" if is_out else "drain", (name,))
    return [shown_outcome(one, cluster.name) for one in outcomes(cluster, [question])]


def shown_outcome(one: Outcome, cluster: str) -> dict[str, Any]:
    return {
        "one": one,
        "kind": one.question.kind,
        "starts": [(gang_by_key(named.key, cluster), named) for named in one.starts],
        "no_longer": [(gang_by_key(named.key, cluster), named) for named in one.no_longer],
        "broken": [(gang_by_key(lost.key, cluster), lost) for lost in one.broken],
    }


def shown_all(told: Sequence[Outcome], cluster: str) -> list[dict[str, Any]]:
    return [shown_outcome(one, cluster) for one in told]
