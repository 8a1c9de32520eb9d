"""Whatever a rule, a step or a playbook stores in English is known to the phrases, so that it can be said in Korean."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

import pytest
import yaml
from django.utils import translation

from fleet.readmodels import phrases
from tests.architecture.sources import ROOT, tree
from tests.architecture.test_korean import entries

PLACE = re.compile(r"%\(\w+\)[sd]")
PLAYBOOKS = ROOT / "fleet" / "lifecycle" / "playbooks.yaml"
CAUSES = ("its hardware", "hardware thermal protection", "the external power brake")  # put in by an f-string


def titles(path: Path) -> set[str]:
    """Every text with places in a module of the rules."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            whole = "".join(str(part) for part in parts)
            found |= {whole.replace("\0", cause) for cause in CAUSES} if PLACE.search(whole) else set()
    pieces = {piece for whole in found for cause in CAUSES for piece in whole.split(cause)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.search(node.value):
            found |= {node.value} - pieces
    return found


def test_every_title_that_a_rule_gives_is_known() -> None:
    folder = ROOT / "fleet" / "health"
    skipped = {"migrations", "wording.py"}  # `wording` says limits, which are no titles
    paths = [path for path in sorted(folder.rglob("*.py")) if not skipped & set(path.parts)]
    found = {title for path in paths for title in titles(path)}
    assert len(found) > 100, "the walk has lost its way"
    assert sorted(found - set(phrases.PHRASES)) == []


def test_every_title_of_the_own_playbooks_is_known() -> None:
    found = {one["title"] for one in yaml.safe_load(PLAYBOOKS.read_text(encoding="utf-8"))["playbooks"]}
    assert sorted(found - set(phrases.PHRASES)) == []


SLURM = [*sorted((ROOT / "fleet" / "adapters" / "slurm").glob("*.py")), ROOT / "fleet" / "wiring_slurm.py"]
FILLED = {"self._whose()": " of muster", "lacks": "none is set"}  # what is put in and is no word
IN_SLURM = {"Muster let go; somebody else keeps the node."}  # the reason that Slurm itself keeps with a node


def sentences(path: Path) -> set[str]:
    """Each that a module says, with something in its places."""
    docs = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)}
    whole = [node for node in ast.walk(tree(path)) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in whole for part in node.values}
    found = {"".join(_filled(part) for part in node.values) for node in whole}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | parts:
            found.add(node.value)
    return {text for text in found if re.fullmatch(r"\w.* .*\w\.", text)} - IN_SLURM


def _filled(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return FILLED.get(ast.unparse(part.value), "x7")
    return str(part.value) if isinstance(part, ast.Constant) else ""


@pytest.mark.parametrize("path", SLURM, ids=lambda path: str(path.stem))
def test_whatever_the_adapter_of_slurm_says_is_known(path: Path) -> None:
    known = re.compile(
        "|".join(re.sub(r"\(\?P<\w+>", "(?:", each.pattern) for _, each in phrases._patterns()), re.DOTALL
    )
    unknown = [
        text for text in sentences(path) if not known.fullmatch(text) and not all(map(known.fullmatch, _split(text)))
    ]
    assert unknown == []


def _split(text: str) -> list[str]:
    return phrases.END.split(text)


def test_the_walk_through_the_adapter_of_slurm_has_not_lost_its_way() -> None:
    assert sum(len(sentences(path)) for path in SLURM) > 45


ASKED = [ROOT / "fleet" / "lifecycle" / f"{name}.py" for name in (
    "approving", "asked", "ballots", "bulk", "bulk_foresee", "maintenance", "maintenance_pace", "manual", "services",
    "skipping",
)]  # fmt: skip
OF_STATES = {"The request is x7 already.", "x7, and kept until it is released.", "x7: a number from 1 to x7."}


@pytest.mark.parametrize("path", ASKED, ids=lambda path: str(path.stem))
def test_whatever_is_said_to_people_who_ask_is_known(path: Path) -> None:
    with translation.override("ko"):
        assert [text for text in sentences(path) - OF_STATES if phrases.told(text) == text] == []


def test_every_phrase_is_in_korean() -> None:
    assert [phrase for phrase in phrases.PHRASES if not entries().get(phrase)] == []


TOLD = {
    "GPU 5 reported Xid 48: uncorrectable memory error": "GPU 5 Xid 48 보고: uncorrectable memory error",
    "Watched for 10 s without a sign of the fault.": "10초 동안 지켜봤으며 장애의 조짐이 없었습니다.",
    "Passed: dcgm: 32 results good. Not compared, for the pool has no common value: driver.": (
        "통과: dcgm: 결과 32개 양호. 풀에 공통 값이 없어 비교하지 않음: driver."
    ),
    "Reset in 6 s: GPU-6eb733c5 of gpu-r03-03. The tests that follow must agree.": (
        "6초 만에 리셋: GPU-6eb733c5 of gpu-r03-03. 이어지는 시험도 통과해야 합니다."
    ),
    "Disk nvme0 has used 91 % of its life": "디스크 nvme0 수명의 91 % 사용",
    "Rack r07: 2 of 2 in flight (gpu-r07-03).": "랙 r07: 동시 작업 2대 중 2대(gpu-r07-03).",
    "Muster keeps no hold on gpu-r03-03.": "Muster가 gpu-r03-03을(를) 격리하고 있지 않습니다.",
    "GPU 3 is gone from the bus.": "GPU 3이(가) PCIe 버스에서 사라짐.",
    "Waits for TKT-11: Mount /data does not answer": "TKT-11 대기: 마운트 /data이(가) 응답하지 않음",
    "No data from dcgm for 38 s.": "dcgm 데이터가 38초 동안 없음.",
    "slurmrestd does not accept the token of muster: it ended at 2026-12-01 10:00 UTC.": (
        "slurmrestd가 muster의 토큰을 받아들이지 않습니다: 2026-12-01 10:00 UTC에 만료되었습니다."
    ),
    "Slurm knows no node/gpu-99: Failure to query node gpu-99.": (
        "Slurm에 node/gpu-99이(가) 없습니다: Failure to query node gpu-99."
    ),
    "The reservation muster-hold.1.a.b does not keep gpu-02 for its tests: it covers gpu-01, gpu-02.": (
        "예약 muster-hold.1.a.b이(가) gpu-02을(를) 시험 전용으로 지켜 주지 못합니다: gpu-01, gpu-02을(를) 포함합니다."
    ),
    "Slurm: Resources.": "Slurm: Resources.",
    "keeps it from work (DRAIN by root: new cable. Ask kim)": (
        "작업을 받지 않게 하고 있습니다(DRAIN by root: new cable. Ask kim)"
    ),
    "RayJob ml/train is not suspended: it keeps its Ray cluster at its end (shutdownAfterJobFinishes), and KubeRay "
    "suspends no such job.": (
        "RayJob ml/train은(는) 일시 중지되지 않습니다. 끝난 뒤에도 Ray 클러스터를 유지하며(shutdownAfterJobFinishes), "
        "KubeRay는 그런 작업을 일시 중지하지 않습니다."
    ),
    "RayJob ml/train is not suspended: it runs on a Ray cluster of others (clusterSelector), and KubeRay suspends no "
    "such job.": (
        "RayJob ml/train은(는) 일시 중지되지 않습니다. 다른 소유의 Ray 클러스터에서 실행되며(clusterSelector), "
        "KubeRay는 그런 작업을 일시 중지하지 않습니다."
    ),
    "Rack r07: 5 of 5 in flight (gpu-r07-03, gpu-r07-04 and 3 more).": (
        "랙 r07: 동시 작업 5대 중 5대(gpu-r07-03, gpu-r07-04 외 3)."
    ),
    "Work ends on a, b and more": "Work ends on a, b and more",
    "Something that no template fits": "Something that no template fits",
    "": "",
}


@pytest.mark.parametrize(("stored", "korean"), TOLD.items())
def test_a_stored_sentence_is_told_in_the_readers_words(stored: str, korean: str) -> None:
    with translation.override("ko"):
        assert phrases.told(stored) == korean
    with translation.override("en"):
        assert phrases.told(stored) == stored


@pytest.mark.parametrize("text", ["A. " * 300, "%(name)s %s %% {x}", "GPU " * 240, "GPU 1 reported Xid " * 50])
def test_a_hostile_text_is_left_as_it_is_at_once(text: str) -> None:
    begun = time.perf_counter()
    with translation.override("ko"):
        assert phrases.told(text) == text
    assert time.perf_counter() - begun < 1
