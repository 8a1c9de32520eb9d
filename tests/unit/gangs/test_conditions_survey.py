"""All conditions at once, and the words for each."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from fleet.gangs.board import Board, read
from fleet.gangs.conditions.condition import CODES, Condition, found, rank
from fleet.gangs.conditions.survey import Evidence, survey
from fleet.gangs.counting import count
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import GangObject, Need, Part
from fleet.ports.ray import RayFacts, RayRetention
from fleet.readmodels import gang_words
from tests.gang_builders import a_member, an_object, later
from tests.unit.gangs.ray_scenes import (
    RAY,
    a_group,
    a_placement,
    a_ray_gang,
    a_ray_job,
    a_ray_node,
    a_reading,
    a_run,
    ray_facts,
)
from tests.unit.gangs.scenes import EIGHT, a_room

DOCUMENT = Path(__file__).parents[3] / "docs" / "gangs-conditions.md"
KEPT = RayRetention(shuts_down=True, ttl_seconds=3600, deletion_rules=False, history=True)


def a_job_object(**fields: Any) -> GangObject:
    facts = replace(ray_facts(kind="RayJob", retention=fields.pop("retention", KEPT)), cluster="llm")
    return an_object("ray", "job", kind="RayJob", ray=facts, uid="uid-job", **fields)


def job_gang(facts: RayFacts | None = None, job: GangObject | None = None, **fields: Any) -> Gang:
    """A RayJob on its RayCluster, bound by a Volcano group of all five pods."""
    group = an_object("volcano", "pg", minimum=5, owners=("uid-ray--llm",))
    return a_ray_gang(facts, group, job or a_job_object(), owners=("uid-job",), **fields)


def board_of(*gangs: Gang) -> Board:
    rooms = Rooms([a_room(node, used=8) for gang in gangs for node in gang.nodes])
    return read({gang.key: gang for gang in gangs}, [], rooms)


def healthy_reading(minutes: float = 0, **facts: Any) -> Any:
    nodes = tuple(a_ray_node(f"llm-{n}") for n in range(5))
    return a_reading(minutes, **{"nodes": nodes, "placement_groups": (a_placement(),), "runs": (a_run(),), **facts})


def test_a_healthy_twin_has_no_condition() -> None:
    gang = job_gang(ray_facts(autoscaling=True, head_ready=True))
    assert gang.title == "RayJob job"
    assert survey(board_of(gang), Evidence(later(60), {gang.key: healthy_reading(60)}, {"elsewhere": "Xid 79"})) == []


def test_the_post_mortem_is_told_with_the_worst_first() -> None:
    """Exact maxReplicas, a group of the head alone, a group left behind, no failure allowed, a sick node."""
    facts = ray_facts(a_group(minimum=0, maximum=4), autoscaling=True, head_ready=True, version="2.44.0")
    group = an_object("volcano", "pg", minimum=1, owners=("uid-ray--llm",))
    gang = a_ray_gang(
        facts, group, a_job_object(retention=replace(KEPT, ttl_seconds=0, history=False)), owners=("uid-job",)
    )
    left = a_placement("pg0", detached=True, name="old", job="02000000")
    reading = healthy_reading(
        placement_groups=(left,), jobs=(a_ray_job("02000000", "FAILED"),), runs=(a_run(max_failures=0, workers=(4, 4)),)
    )
    told = survey(board_of(gang), Evidence(later(1), {gang.key: reading}, {gang.nodes[0]: "Xid 79"}))
    assert {one.code for one in told} == {
        "sick_node", "evidence_lost", "guarantee_partial", "autoscaler_known_loop", "headroom_exact", "placement_stale",
        "failures_none", "elastic_missing",
    }  # fmt: skip
    assert told == sorted(told, key=rank)
    assert told[0].code == "sick_node"


def test_two_teams_in_one_pool_without_a_gang_scheduler() -> None:
    """Each has its head and two of three workers; the pool has four nodes. Whoever came later gives way."""
    gangs = {}
    head = Need(cpu_millis=4000)
    for n, team in enumerate(("red", "blue")):
        parts = (Part("head", 1, need=head), Part("gpu", 3, need=EIGHT))
        made = an_object("ray", team, wanted=4, parts=parts, ray=ray_facts(a_group(replicas=3)), created_at=later(n))
        pods = [a_member(f"{team}-head", made.ref.key, node="cpu", need=head, role="head")]
        pods += [a_member(f"{team}-{k}", made.ref.key, node=f"gpu-{2 * n + k}", need=EIGHT, role="gpu") for k in (0, 1)]
        pods += [a_member(f"{team}-2", made.ref.key, need=EIGHT, role="gpu")]
        (joined,) = join([made], pods).values()
        gangs[joined.key] = count(joined)
    rooms = Rooms([*(a_room(f"gpu-{k}", used=8) for k in range(4)), a_room("cpu", gpus=0, whole=0)])
    told = survey(read(gangs, [], rooms), Evidence(later(5)))
    assert [one.code for one in told] == ["deadlock", "deadlock", "guarantee_none", "guarantee_none"]
    with translation.override("en"):
        assert gang_words.told(told[1]).sentence == (
            "RayCluster train/red holds 16 GPUs for nothing and lacks 8; it and RayCluster train/blue hold 32. "
            "Suspending RayCluster train/blue frees 16 GPUs, and RayCluster train/red would fit."
        )


@pytest.mark.parametrize("fields", [{"finished": True, "phase": "Complete"}, {"suspended": True}])
def test_a_job_that_is_over_or_suspended_has_nothing_to_say_but_what_it_holds(fields: dict[str, Any]) -> None:
    job = a_job_object(retention=replace(KEPT, shuts_down=False), **fields)
    gang = job_gang(ray_facts(a_group(maximum=4)), job)
    told = survey(board_of(gang), Evidence(later(1), {gang.key: healthy_reading()}))
    assert [one.code for one in told if one.code != "headroom_exact"] == (["gpus_kept"] if job.finished else [])
    assert not (job.finished and len(told) > 1)


def test_equal_conditions_are_known_again_while_their_numbers_move() -> None:
    one, other = found("head_down", RAY, "warning", down=300), found("head_down", RAY, "critical", down=500)
    assert one.same == other.same != found("head_down", "else", "warning", down=300).same


# -- the words ----------------------------------------------------------------------------------------------------

KEYS = ("volcano/PodGroup/train/b",)
EVERY: list[Condition] = [
    found("deadlock", RAY, "critical", others=KEYS, held=32, own=16, missing=16, suspend=KEYS, frees=16, starts=(RAY,)),
    found("guarantee_lost", RAY, "critical", placed=2, wanted=4),
    found("guarantee_none", RAY, "warning", wanted=5),
    found("guarantee_partial", RAY, "warning", "pg", minimum=1, whole=5),
    found("guarantee_stale", RAY, "warning", "pg", minimum=3, whole=5),
    found("guarantee_unasked", RAY, "notice", wanted=5),
    found("autoscaler_swings", RAY, "warning", "gpu", times=3, minutes=10),
    found("autoscaler_churns", RAY, "warning", "gpu", times=3, minutes=10),
    found("autoscaler_known_loop", RAY, "notice", version="2.44.0"),
    found("headroom_exact", RAY, "warning", "gpu", spare=0, replicas=4, maximum=4, enough=6),
    found("headroom_low", RAY, "warning", "gpu", spare=1, replicas=4, maximum=5, enough=6),
    found("elastic_beyond_max", RAY, "notice", "run", wanted=64.0, most=48.0),
    found("placement_stale", RAY, "warning", "old", id="a", job="01", status="FAILED", gpus=8.0, state="CREATED"),
    found("placement_pending", RAY, "warning", "pg", id="a", waits=61, bundles=4, gpus=32.0, scheduling="INFEASIBLE"),
    found("head_down", RAY, "critical", down=480, budget=600, left=120),
    found("head_lost", RAY, "critical", down=480),
    found("head_unprotected", RAY, "notice"),
    found("gpus_declared", RAY, "critical", "gpu", declared=8.0, limit=4),
    found("gpus_of_node", RAY, "warning", "w1", ray=7.0, limit=8, node="n1"),
    found("gpus_infeasible", RAY, "critical", "pg", asks=16.0, most=8.0),
    found("train_too_large", RAY, "critical", "run", workers=9, per_worker=8.0, asks=72.0, most=48.0),
    found("failures_none", RAY, "warning", "run", workers=4),
    found("failures_spent", RAY, "critical", "run", failed=3, allowed=3),
    found("elastic_missing", RAY, "notice", "run", workers=4),
    found("gpus_kept", RAY, "critical", gpus=32),
    found("evidence_lost", RAY, "warning", workers=4),
    found("sick_node", RAY, "critical", "n1", reason="Xid 79", ready=2),
    found("sick_device", RAY, "critical", "train/w1", said="Unhealthy", node="n1"),
    found("spot_too_small", RAY, "critical", "run", least=8.0, model=16.0),
    found("spot_minimum", RAY, "warning", "run", least=16.0, firm=8.0),
]


def test_there_is_one_example_of_every_code() -> None:
    assert [one.code for one in EVERY] == list(CODES) == list(gang_words.CONDITIONS)


@pytest.mark.parametrize("condition", EVERY, ids=lambda one: one.code)
def test_every_condition_is_said_in_both_languages(condition: Condition) -> None:
    with translation.override("en"):
        english = gang_words.told(condition)
    with translation.override("ko"):
        korean = gang_words.told(condition)
    for said in (english.sentence, english.meaning, english.remedy):
        assert said.endswith(".")
        assert "%" not in said
        assert not re.search(r"[가-힣]", said)
    for field in ("severity", "name", "sentence", "meaning", "remedy"):
        assert re.search(r"[가-힣]", getattr(korean, field)), field


def test_the_other_templates_are_said_where_there_is_nothing_to_name() -> None:
    stuck = found("deadlock", RAY, "critical", others=KEYS, held=32, own=16, missing=16, suspend=(), frees=0, starts=())
    with translation.override("en"):
        assert gang_words.told(stuck).sentence.endswith("is not enough for another to fit.")
        asks = gang_words.told(found("gpus_infeasible", RAY, "critical", "", asks=16.0, most=8.0))
        assert asks.sentence == "A task or bundle asks for 16 GPUs at once; the largest node has 8."
        assert gang_words.told(EVERY[0]).sentence == (
            "RayCluster train/llm holds 16 GPUs for nothing and lacks 16; it and PodGroup train/b hold 32. "
            "Suspending PodGroup train/b frees 16 GPUs, and RayCluster train/llm would fit."
        )
        many = replace(EVERY[0], facts=(*EVERY[0].facts, ("others", KEYS * 7)))
        assert "and 2 more hold 32" in gang_words.told(many).sentence


def test_the_document_lists_every_condition() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [code for code in CODES if f"`{code}`" not in text] == []
    assert sorted(set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE)) - set(CODES)) == []
