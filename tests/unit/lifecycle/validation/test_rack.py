"""The built-in suite with what the installation adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.lifecycle.validation import rack
from fleet.lifecycle.validation.suite import ALL_GPUS, VALIDATE
from fleet.lifecycle.validation.suite_file import BadSuites


def names(settings: Any, **told: Any) -> list[str]:
    for key, value in told.items():
        setattr(settings, key, value)
    return [test.name for test in rack.built_in().suites[0].of(VALIDATE)]


def test_without_settings_there_is_dcgm_alone(settings: Any) -> None:
    assert names(settings, NCCL_IMAGE="", STORAGE_MOUNTS=()) == ["dcgm"]


def test_an_image_adds_the_all_reduce_test_with_its_floor(settings: Any) -> None:
    assert names(settings, NCCL_IMAGE="registry.example/nccl:2", NCCL_AT_LEAST=460.0) == ["dcgm", "nccl"]
    test = rack.built_in().suites[0].tests[1]
    assert test.image == "registry.example/nccl:2" and test.argv(2, 8) == (
        "all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "8",
    )  # fmt: skip
    assert (test.gpus, test.limit.measure, test.limit.at_least) == (ALL_GPUS, "busbw", 460.0)


def test_mounts_add_the_storage_probe(settings: Any) -> None:
    assert names(settings, STORAGE_MOUNTS=("/data", "/home:ro"), STORAGE_IMAGE="b:1") == ["dcgm", "storage"]
    test = rack.built_in().suites[0].tests[1]
    assert test.image == "b:1" and test.argv(2, 8)[-2:] == ("/data", "/home:ro") and test.gpus == 0


def test_a_mount_that_is_no_absolute_path_is_refused(settings: Any) -> None:
    with pytest.raises(BadSuites, match="absolute paths"):
        names(settings, STORAGE_MOUNTS=("data/../etc",))


def test_a_sites_own_file_keeps_ours_behind_it(settings: Any, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("version: 1\nsuites:\n  - {name: h100, match: {sku: ['*H100*']}, tests: [dcgm]}\n", encoding="utf-8")
    settings.SUITES_FILE, settings.NCCL_IMAGE = str(own), "n:1"
    found = rack.suites()
    assert [(suite.name, len(suite.tests)) for suite in found.suites] == [("h100", 1), ("default", 2)]
