"""The deployments name commands, settings and rights that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from fleet.adapters.kubernetes.jobkinds import KINDS
from fleet.adapters.kubernetes.schedulers.watching import READERS

ROOT = Path(__file__).resolve().parent.parent.parent.parent
BASE = ROOT / "deploy" / "kustomize" / "base"


def documents() -> Iterator[dict[str, Any]]:
    for name in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((BASE / name).read_text())


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (d["metadata"]["name"], d["spec"]["template"]["spec"]) for d in documents() if "template" in d.get("spec", {})
    ]


def test_everything_lies_in_a_namespace_that_is_made() -> None:
    made = {d["metadata"]["name"] for d in documents() if d["kind"] == "Namespace"} | {"default"}
    wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    assert {d["metadata"].get("namespace") for d in documents() if d["kind"] not in wide} <= made


@pytest.mark.parametrize(("name", "spec"), pods(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_is_restricted(name: str, spec: dict[str, Any]) -> None:
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"]["memory"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


def test_every_process_of_the_design_is_deployed() -> None:
    assert {name for name, _ in pods()} == {"prepare", "web", "worker", "beat", "observer"}


def test_management_commands_exist() -> None:
    texts = [path.read_text() for path in (*BASE.glob("*.yaml"), ROOT / "deploy" / "compose.yaml")]
    named = {word for text in texts for word in re.findall(r'manage\.py"?,? "?([a-z]+)', text)}
    assert named and named <= set(get_commands())


def rights(documents: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (verb, resource)
        for d in documents
        if d["kind"] in ("ClusterRole", "Role")
        for rule in d["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_right_to_delete_pods_is_given_by_its_own_component_alone() -> None:
    """Only a forced drain needs it; what is not given cannot be misused."""
    component = BASE.parent / "components" / "force-drain"
    kind = yaml.safe_load((component / "kustomization.yaml").read_text())
    assert (kind["kind"], kind["resources"]) == ("Component", ["rights.yaml"])
    added = list(yaml.safe_load_all((component / "rights.yaml").read_text()))
    assert rights(added) == {("delete", "pods")} and ("delete", "pods") not in rights(documents())
    (binding,) = [d for d in added if d["kind"] == "ClusterRoleBinding"]
    (account,) = [d["metadata"] for d in documents() if d["kind"] == "ServiceAccount"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert "components/force-drain" in (ROOT / "docs" / "drain.md").read_text()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ray-drain", {("list", "pods"), ("get", "pods/exec"), ("create", "pods/exec")}),
        ("ray-keep", {("get", "rayjobs"), ("patch", "rayjobs")}),
        (
            "suspend",
            {(verb, kind.plural) for kind in KINDS for verb in ("get", "patch")}
            | {("list", "workloads"), ("get", "rayclusters")},
        ),
    ],
)
def test_rights_in_the_namespaces_of_others_have_their_own_component(name: str, given: set[tuple[str, str]]) -> None:
    added = list(yaml.safe_load_all((BASE.parent / "components" / name / "rights.yaml").read_text()))
    base = {right for right in rights(documents()) if right[1] in ("pods/exec", "rayjobs")}
    assert rights(added) == given and base <= {("list", "rayjobs"), ("watch", "rayjobs")}
    assert {d["kind"] for d in added} == {"ClusterRole", "RoleBinding"}, "bound to every namespace it would reach all"
    (account,) = [d["metadata"] for d in documents() if d["kind"] == "ServiceAccount"]
    assert added[1]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert f"components/{name}" in (ROOT / "docs" / "drain.md").read_text()


def test_settings_of_the_deployments_are_documented() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text()
    made = yaml.safe_load((BASE / "kustomization.yaml").read_text())["configMapGenerator"][0]["literals"]
    named = {literal.split("=")[0] for literal in made}
    named |= set(yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["x-muster"]["environment"])
    assert not [name for name in named if name.removesuffix("_FILE") not in manual]


def test_the_rights_are_those_that_the_adapter_asks_for() -> None:
    """A right that `check()` misses would be told to the operator although he applied our own file."""
    granted = {
        (verb, resource)
        for d in documents()
        if d["kind"] == "ClusterRole"
        for rule in d["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    sources = [ROOT / "fleet" / "adapters" / "kubernetes" / name for name in ("reading.py", "acting.py")]
    asked = set()
    for source in sources:
        for call in re.findall(r"access\.Right\((.*?)\)", source.read_text(), re.DOTALL):
            words = re.findall(r'"([a-z]+)"', call)
            sub = re.search(r'subresource="([a-z]+)"', call)
            resource = words[0] if call.strip().startswith("verb") else words[1]
            verbs = ("create", "get", "delete") if call.strip().startswith("verb") else (words[0],)
            asked |= {(verb, f"{resource}/{sub[1]}" if sub else resource) for verb in verbs}
    assert asked and asked <= granted


def test_every_kind_that_speaks_of_gangs_may_be_watched() -> None:
    """A kind that is served and forbidden would be a stated problem although our own file was applied."""
    given = {
        (group, resource, verb)
        for d in documents()
        if d["kind"] == "ClusterRole" and d["metadata"]["name"] == "muster-reader"
        for rule in d["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    wanted = {(reader.group, reader.plural, verb) for reader in READERS for verb in ("list", "watch")}
    wanted.add(("visibility.kueue.x-k8s.io", "clusterqueues/pendingworkloads", "get"))
    assert wanted - given == set()
