"""What a test asks Slurm for, in every version of its API."""

from __future__ import annotations

import json

import pytest

from fleet.adapters.slurm import Space
from fleet.adapters.slurm.client import VERSIONS
from fleet.adapters.slurm.submitting import payload, said
from fleet.ports.cluster import JobRequest

EVERY = [int(version.rsplit(".", 1)[1]) for version in VERSIONS]
NAME, BOOKED, MARK = "muster-validate-7-1-dcgm.m", "muster-hold.17.ab.m", "Muster hold 17/ab by m: Xid 79"


def asked(version: int, gpus: int = 8, space: Space | None = None) -> dict[str, object]:
    request = JobRequest("t", "default", "gpu-02", "", ("dcgmi", "diag", "-r", "2", "-j"), 1150, gpus=gpus)
    body = payload(request, NAME, BOOKED, "train", MARK, space or Space("/shared/muster/"), version)
    assert body["script"].startswith("#!/bin/sh\n") and "dcgmi diag -r 2 -j\n" in body["script"]
    found: dict[str, object] = body["job"]
    return found


@pytest.mark.parametrize("version", EVERY)
def test_every_version_is_asked_for_the_whole_node_of_the_reservation(version: int) -> None:
    job = asked(version)
    assert (job["name"], job["reservation"], job["partition"]) == (NAME, BOOKED, "train")
    assert job["standard_output"] == f"/shared/muster/{NAME}-%j.out"
    assert job["dependency"] == "singleton" and job["requeue"] is False
    shown = [job.get(key) for key in ("time_limit", "gres", "tres_per_node", "exclusive", "shared")]
    minutes = {"set": True, "infinite": False, "number": 20}
    whole = (["true"], None) if version == 39 else (None, ["none"])
    assert shown == ([20, "gpu:8", None, "exclusive", None] if version == 38 else [minutes, None, "gres/gpu:8", *whole])


@pytest.mark.parametrize("version", EVERY)
def test_nothing_of_ours_is_in_its_environment(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "secret")
    assert "secret" not in json.dumps(asked(version))
    told = asked(version)["environment"]
    assert set(told if isinstance(told, dict) else [one.partition("=")[0] for one in told]) == {"PATH"}  # type: ignore[attr-defined]


def test_a_test_without_gpus_asks_for_none() -> None:
    assert not {"gres", "tres_per_node"} & {*asked(38, gpus=0), *asked(45, gpus=0)}


def test_the_site_says_as_what_it_runs() -> None:
    job = asked(42, space=Space("/shared", account="ops", partition="maint", qos="test"))
    assert (job["account"], job["partition"], job["qos"]) == ("ops", "maint", "test")


@pytest.mark.parametrize("told", ["Muster tests gpu-02. {}", {"job": "Muster tests gpu-02. {}", "system": ""}])
def test_its_comment_tells_node_and_hold_in_both_forms(told: object) -> None:
    raw = json.loads(json.dumps({"comment": told}).replace("{}", MARK))
    assert said(raw) == ("gpu-02", MARK)


@pytest.mark.parametrize("told", ["", None, 7, "Muster tests", "my job: Muster tests gpu-02. x", {"job": None}])
def test_other_comments_are_nobody_s_of_ours(told: object) -> None:
    assert said({"comment": told}) == ("", "")
