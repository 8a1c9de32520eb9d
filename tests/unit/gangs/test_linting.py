"""Manifests before they are submitted: what they run into, and on which line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import wiring
from fleet.gangs import linting
from fleet.ports import plainyaml

GOOD_GROUP: dict[str, Any] = {
    "groupName": "gpu",
    "replicas": 4,
    "minReplicas": 4,
    "maxReplicas": 6,
    "rayStartParams": {},
    "template": {"spec": {"containers": [{"name": "w", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}},
}
GOOD_SPEC: dict[str, Any] = {
    "rayVersion": "2.60.0",
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h"}]}}},
    "workerGroupSpecs": [GOOD_GROUP],
}
LABELLED = {"name": "llm", "namespace": "train", "labels": {"ray.io/gang-scheduling-enabled": "true"}}


HEAD_ALONE: dict[str, Any] = {
    **GOOD_SPEC,
    "headGroupSpec": {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
    "workerGroupSpecs": [],
}


def a_cluster(group: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    groups = {"workerGroupSpecs": [{**GOOD_GROUP, **(group or {})}]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": LABELLED if meta is None else meta,
        "spec": {**GOOD_SPEC, **groups, **spec},
    }


def a_job(**spec: Any) -> dict[str, Any]:
    kept = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": LABELLED,
        "spec": {"rayClusterSpec": GOOD_SPEC, **kept, **spec},
    }


def both(success: str, failure: str) -> dict[str, Any]:
    return {"onSuccess": {"policy": success}, "onFailure": {"policy": failure}}


def check(*documents: Any) -> linting.Report:
    return linting.check(yaml.safe_dump_all(documents, sort_keys=False), wiring.gang_manifest)


def codes(report: linting.Report) -> list[str]:
    assert not report.wrong, report.wrong
    return [one.condition.code for one in report.found]


def a_service(**cluster: Any) -> dict[str, Any]:
    meta = {"name": "chat", "namespace": "serve"}
    spec = {"serveConfigV2": "applications: []", "rayClusterConfig": {**GOOD_SPEC, **cluster}}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": meta, "spec": spec}


def test_the_cluster_of_a_service_is_judged_and_not_as_a_gang() -> None:
    assert codes(check(a_service())) == []
    group = {**GOOD_GROUP, "maxReplicas": 4, "minReplicas": 0}
    report = check(a_service(workerGroupSpecs=[group], gcsFaultToleranceOptions=None, enableInTreeAutoscaling=True))
    assert codes(report) == ["headroom_exact", "head_unprotected"]
    assert report.found[0].path == "spec.rayClusterConfig.workerGroupSpecs[0].maxReplicas"


def test_good_manifests_are_good() -> None:
    report = check(a_cluster(), a_job())
    assert codes(report) == []
    assert report.looked == ("ray/RayCluster/train/llm", "ray/RayJob/train/llm")


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (a_cluster({"maxReplicas": 4}), ["headroom_exact"]),
        (a_cluster({"maxReplicas": 5}), ["headroom_low"]),
        (a_cluster({"maxReplicas": None}), []),
        (a_cluster({"rayStartParams": {"num-gpus": "4"}}), ["gpus_declared"]),
        (a_cluster({"rayStartParams": {"num-gpus": 8}}), []),
        (a_cluster({"minReplicas": 0}, enableInTreeAutoscaling=True), ["guarantee_partial"]),
        (a_cluster(enableInTreeAutoscaling=True, rayVersion="2.44.1"), ["autoscaler_known_loop"]),
        (a_cluster(gcsFaultToleranceOptions=None), ["head_unprotected"]),
        (a_cluster(meta={"name": "llm"}), ["guarantee_unasked"]),
        (a_job(shutdownAfterJobFinishes=False), ["gpus_kept"]),
        (a_job(shutdownAfterJobFinishes=False, deletionPolicy="DeleteCluster"), []),
        (a_job(shutdownAfterJobFinishes=False, deletionPolicy="DeleteNone"), ["gpus_kept"]),
        (a_job(shutdownAfterJobFinishes=False, deletionStrategy=both("DeleteWorkers", "DeleteSelf")), []),
        (a_job(shutdownAfterJobFinishes=False, deletionStrategy=both("DeleteCluster", "DeleteNone")), ["gpus_kept"]),
        (a_job(shutdownAfterJobFinishes=False, deletionStrategy={"onSuccess": None}), ["gpus_kept"]),
        (a_job(ttlSecondsAfterFinished=0), ["evidence_lost"]),
        (a_job(ttlSecondsAfterFinished=0, rayClusterSpec={**GOOD_SPEC, "historyServerOptions": {"a": 1}}), []),
        ({**a_job(), "spec": {"clusterSelector": {"ray.io/cluster": "llm"}}}, []),
        (a_cluster({"rayStartParams": {"num-gpus": '"8"'}}), []),
        (a_cluster({"rayStartParams": {"num-gpus": "'4'"}}), ["gpus_declared"]),
        (a_cluster({"rayStartParams": {"num-gpus": "$GPUS"}}), []),
        (a_cluster({"resources": {"GPU": "0"}}), ["gpus_declared"]),
        (a_cluster({"replicas": 0, "minReplicas": 0, "maxReplicas": 1}), []),
        (a_job(shutdownAfterJobFinishes=False, rayClusterSpec=HEAD_ALONE), ["gpus_kept"]),
        (a_job(ttlSecondsAfterFinished=0, rayClusterSpec=HEAD_ALONE), ["evidence_lost"]),
    ],
)
def test_each_condition_of_a_manifest_is_found_alone(manifest: dict[str, Any], expected: list[str]) -> None:
    assert codes(check(manifest)) == expected


@pytest.mark.parametrize(
    ("label", "value", "asked"),
    [
        ("kueue.x-k8s.io/queue-name", "team-a", True),
        ("kai.scheduler/queue", "team-a", True),
        ("volcano.sh/queue-name", "team-a", True),
        ("ray.io/scheduler-name", "volcano", True),
        ("ray.io/scheduler-name", "yunikorn", False),
        ("yunikorn.apache.org/queue", "root.a", False),
        ("team", "a", False),
    ],
)
def test_who_places_or_admits_a_gang_whole_need_not_be_asked_by_another_label(
    label: str, value: str, asked: bool
) -> None:
    meta = {"name": "llm", "labels": {label: value}}
    assert codes(check(a_cluster(meta=meta))) == ([] if asked else ["guarantee_unasked"])


def test_the_gpus_that_stay_are_those_of_the_head_too() -> None:
    group = {**GOOD_GROUP, "replicas": 2, "minReplicas": 2}
    report = check(a_job(shutdownAfterJobFinishes=False, rayClusterSpec={**HEAD_ALONE, "workerGroupSpecs": [group]}))
    assert [one.condition.values["gpus"] for one in report.found] == [17]


def test_a_manifest_without_a_name_is_told_by_what_its_name_is_made_of() -> None:
    report = check(a_cluster({"maxReplicas": 4}, {**LABELLED, "name": None, "generateName": "llm-"}))
    assert [one.condition.gang for one in report.found] == ["ray/RayCluster/train/llm-*"]


def test_spot_groups_that_may_shrink_below_the_model_are_found() -> None:
    group = {**GOOD_GROUP, "minReplicas": 1}
    group["template"] = {
        "spec": {**GOOD_GROUP["template"]["spec"], "nodeSelector": {"karpenter.sh/capacity-type": "spot"}}
    }
    meta = {**LABELLED, "annotations": {"muster.dev/model-gpus": "16"}}
    report = check(a_cluster(group, meta, enableInTreeAutoscaling=True))
    assert codes(report) == ["spot_too_small", "guarantee_partial"]


TEXT = """\
# two teams
apiVersion: v1
kind: ConfigMap
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: llm, labels: {ray.io/gang-scheduling-enabled: ''}}
spec:
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    gcsFaultToleranceOptions: {redisAddress: 'r:1'}
    headGroupSpec:
      rayStartParams: {num-gpus: '1'}
    workerGroupSpecs:
    - groupName: cpu
      replicas: 1
      maxReplicas: 9
      template: {}
    - groupName: gpu
      replicas: 4
      maxReplicas: 4
      template: {}
"""


def test_each_finding_has_its_line_and_path_in_its_own_document() -> None:
    report = linting.check(TEXT, wiring.gang_manifest)
    lines = TEXT.splitlines()
    assert report.skipped == ("ConfigMap",)
    found = {one.condition.code: (lines[one.line - 1].strip(), one.path) for one in report.found}
    group = "spec.rayClusterSpec.workerGroupSpecs[1]"
    assert found == {
        "headroom_exact": ("maxReplicas: 4", f"{group}.maxReplicas"),
        "gpus_declared": (
            "rayStartParams: {num-gpus: '1'}",
            "spec.rayClusterSpec.headGroupSpec.rayStartParams.num-gpus",
        ),
        "evidence_lost": ("spec:", "spec.ttlSecondsAfterFinished"),
    }


def test_a_list_of_manifests_is_read_like_documents() -> None:
    report = check({"kind": "List", "items": [a_cluster({"maxReplicas": 4}), a_job(), {"kind": "Pod"}]})
    assert codes(report) == ["headroom_exact"]
    assert (len(report.looked), report.skipped) == (2, ("Pod",))


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        ({**a_cluster(), "apiVersion": "ray.io/v2"}, "apiVersion"),
        ({**a_cluster(), "metadata": {}}, "metadata"),
        ({**a_cluster(), "spec": None}, "spec"),
        (a_job(rayClusterSpec=[]), "spec.rayClusterSpec"),
        (a_cluster(headGroupSpec="x"), "spec.headGroupSpec"),
        (a_cluster(workerGroupSpecs={}), "spec.workerGroupSpecs"),
        (a_cluster(workerGroupSpecs=["x"]), "spec.workerGroupSpecs[0]"),
        (a_cluster(workerGroupSpecs=[GOOD_GROUP, GOOD_GROUP]), "spec.workerGroupSpecs"),
        (a_cluster({"groupName": ""}), "spec.workerGroupSpecs[0].groupName"),
        (a_cluster({"template": None}), "spec.workerGroupSpecs[0].template"),
        (a_cluster({"replicas": "4"}), "spec.workerGroupSpecs[0].replicas"),
        (a_cluster({"replicas": True}), "spec.workerGroupSpecs[0].replicas"),
        (a_cluster({"numOfHosts": 0}), "spec.workerGroupSpecs[0].numOfHosts"),
        (a_cluster({"minReplicas": 7, "replicas": 5}), "spec.workerGroupSpecs[0].minReplicas"),
        (a_cluster({"replicas": 7}), "spec.workerGroupSpecs[0].replicas"),
        (a_cluster({"suspend": True}, enableInTreeAutoscaling=True), "spec.workerGroupSpecs[0].suspend"),
        (
            a_cluster({"resources": {"GPU": "8"}, "rayStartParams": {"num-cpus": "4"}}),
            "spec.workerGroupSpecs[0].resources",
        ),
        (
            a_cluster(
                headGroupSpec={"resources": {"CPU": "1"}, "rayStartParams": {"num-cpus": "0"}}, workerGroupSpecs=None
            ),
            "spec.headGroupSpec.resources",
        ),
        (a_cluster(meta={**LABELLED, "annotations": {"ray.io/ft-enabled": "true"}}), "spec.gcsFaultToleranceOptions"),
        (a_job(suspend=True, shutdownAfterJobFinishes=False), "spec.suspend"),
        (a_job(backoffLimit=-1), "spec.backoffLimit"),
        (a_service(workerGroupSpecs={}), "spec.rayClusterConfig.workerGroupSpecs"),
        ({**a_service(), "spec": {"serveConfigV2": ""}}, "spec.rayClusterConfig"),
        (a_job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished"),
        (a_job(deletionStrategy={"deletionRules": [{"policy": "DeleteSelf"}]}), "spec.deletionStrategy.deletionRules"),
    ],
)
def test_a_manifest_that_would_be_refused_is_told_with_its_path_and_judged_no_further(
    manifest: dict[str, Any], path: str
) -> None:
    report = check(manifest)
    assert [one.path for one in report.wrong] == [path]
    assert report.found == ()
    assert all(one.text.endswith(".") for one in report.wrong)


@pytest.mark.parametrize(("text", "line"), [("a: [1\nb: 2", 2), ("kind: A\nkind: B", 2), ("a: 1\n---\nb: {c: 1\n", 4),
                         ("\ta: 1", 1), ("a: &a [*a]", 1)])  # fmt: skip
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int) -> None:
    (wrong,) = linting.check(text, wiring.gang_manifest).wrong
    assert (wrong.line, wrong.text.startswith("This is no YAML")) == (line, True)


@pytest.mark.parametrize("text", ["metadata:\n  name: {{ .Values.name }}\n", "{% if gpus %}\na: 1\n{% endif %}\n"])
def test_a_template_that_was_not_rendered_is_told_to_be_one(text: str) -> None:
    (wrong,) = linting.check(text, wiring.gang_manifest).wrong
    assert "template" in wrong.text and "render" in wrong.text


@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("after", ["\n", "\r\n"])
def test_json_with_tabs_marks_and_foreign_line_ends_is_read(before: str, after: str) -> None:
    text = before + json.dumps(a_cluster({"maxReplicas": 4}), indent="\t").replace("\n", after)
    report = linting.check(text, wiring.gang_manifest)
    (found,) = report.found
    assert (found.condition.code, "maxReplicas" in text.splitlines()[found.line - 1]) == ("headroom_exact", True)


def test_a_list_of_one_kind_is_read_like_a_list() -> None:
    report = check({"kind": "RayClusterList", "items": [a_cluster({"maxReplicas": 4})]})
    assert codes(report) == ["headroom_exact"]


def test_a_file_that_is_too_long_is_not_read() -> None:
    (wrong,) = linting.check("a" * (linting.MAX_CHARS + 1), wiring.gang_manifest).wrong
    assert "longer" in wrong.text


def test_every_document_of_a_stream_has_its_own_lines() -> None:
    (first, lines), (second, more) = plainyaml.documents("a: 1\n---\n- b: 2\n  c: 3\n")
    assert (first, second) == ({"a": 1}, [{"b": 2, "c": 3}])
    assert (lines[("a",)], more[(0, "c")]) == (1, 4)
    assert plainyaml.documents("") == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**40) | st.text(max_size=4) | st.floats(allow_nan=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SPOTS = (
    "metadata", "labels", "spec", "rayClusterSpec", "headGroupSpec", "workerGroupSpecs", "template", "rayStartParams",
    "resources", "maxReplicas", "containers", "limits",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SPOTS), anything, st.booleans())
def test_whatever_stands_in_a_manifest_is_found_wrong_or_judged_and_never_raises(
    spot: str, value: Any, job: bool
) -> None:
    def put(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value if key == spot else put(inner) for key, inner in data.items()}
        return [put(inner) for inner in data] if isinstance(data, list) else data

    report = check(put(a_job() if job else a_cluster()))
    assert len(report.looked) == 1 or report.wrong


# -- the command --------------------------------------------------------------------------------------------------


def lint(path: Path, *options: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("gangs", "lint", str(path), *options, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def a_file(folder: Path, *documents: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
    return path


def test_the_command_ends_well_only_where_nothing_was_found(tmp_path: Path) -> None:
    path = a_file(tmp_path, a_cluster())
    assert lint(path)[:2] == (0, f"{path}: good. 1 looked at.\n")
    code, out, _ = lint(a_file(tmp_path, a_cluster({"maxReplicas": 4})))
    assert code == 1
    assert "Group gpu may have 4 replicas and wants 4: none to spare; 6 is enough." in out
    assert "Set maxReplicas two above the need." in out


def test_the_command_leaves_out_what_is_less_severe_than_asked_for(tmp_path: Path) -> None:
    path = a_file(tmp_path, a_cluster(gcsFaultToleranceOptions=None))
    assert (lint(path)[0], lint(path, "--least", "warning")[0]) == (1, 0)


def test_the_command_speaks_to_machines(tmp_path: Path) -> None:
    code, out, _ = lint(a_file(tmp_path, a_cluster({"maxReplicas": 5}), {"kind": "Pod"}), "--json")
    shown = json.loads(out)
    (found,) = shown["found"]
    assert (code, shown["skipped"], found["code"], found["severity"]) == (1, ["Pod"], "headroom_low", "warning")
    assert found["facts"] == {"spare": 1, "replicas": 4, "maximum": 5, "enough": 6}
    assert (found["key"], found["about"]) == ("ray/RayCluster/train/llm", "gpu")


def test_the_command_tells_mistakes_by_line_and_files_without_a_manifest(tmp_path: Path) -> None:
    code, _, err = lint(a_file(tmp_path, a_cluster({"replicas": "x"})))
    assert code == 1
    assert "spec.workerGroupSpecs[0].replicas: replicas must be a whole number" in err
    with pytest.raises(CommandError, match="no RayCluster"):
        lint(a_file(tmp_path, {"kind": "Pod"}))
    with pytest.raises(CommandError, match="cannot be read"):
        lint(tmp_path / "none.yaml")
