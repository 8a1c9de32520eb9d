"""Suites as data: what a file may say, and every mistake told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.lifecycle.validation.rack import BUILT_IN
from fleet.lifecycle.validation.suite import ALL_GPUS, BURN_IN, CONFIRM, VALIDATE
from fleet.lifecycle.validation.suite_file import BadSuites, parse

GOOD = """
version: 1
suites:
  - name: h100
    match: {pool: ["h100-*"], sku: ["*H100*"]}
    tests:
      - dcgm: {level: {validate: 1}}
      - nccl: {image: "registry.example/nccl:1", at_least: 460}
      - storage: {mounts: [/data, "/home:ro"]}
      - exit_code: {name: own, image: x, command: [check, "{gpus}"], only: [burn_in], gpus: 8}
burn_in: {pools: ["h100-*"], every: 7d, at_once: 2, from: "22:00", to: "06:00", zone: Asia/Seoul}
confirm: {pools: ["h100-train"]}
"""


def test_a_good_file_is_read_whole() -> None:
    found = parse(GOOD, "own.yaml")
    suite = found.answer("h100-train", "bare_metal", "NVIDIA H100 80GB HBM3")
    assert suite is not None and [test.name for test in suite.of(VALIDATE)] == ["dcgm", "nccl", "storage"]
    assert len(suite.of(BURN_IN)) == 4
    assert found.burn_in is not None and found.burn_in.every == timedelta(days=7) and found.burn_in.covers("h100-a")
    assert found.answer("a100", "bare_metal", "NVIDIA A100") is None
    assert found.confirms_alone("h100-train") and not found.confirms_alone("h100-serve")


def test_the_built_in_suite_answers_every_node_and_lets_no_suspicion_act_alone() -> None:
    found = parse(BUILT_IN.read_text(encoding="utf-8"), "suites.yaml")
    suite = found.answer("", "vm", "")
    assert suite is not None and found.burn_in is None and not found.confirms_alone("")
    (test,) = suite.of(CONFIRM)
    assert (test.level(VALIDATE), test.level(CONFIRM, "degraded"), test.level(CONFIRM, "unhealthy")) == (2, 2, 3)
    assert "dcgmi diag -r 3 -j" in test.argv(3, 8)[2] and test.gpus == ALL_GPUS


def test_commands_are_filled_in() -> None:
    suite = parse(GOOD, "own.yaml").suites[0]
    by_name = {test.name: test for test in suite.tests}
    assert by_name["nccl"].argv(0, 8)[-1] == "8" and by_name["own"].argv(0, 8) == ("check", "8")
    assert by_name["storage"].argv(0, 0)[-2:] == ("/data", "/home:ro")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("version: 1", "version: 2"), "version: 1"),
        (("name: h100", "name: H 100"), "lower-case"),
        (("- dcgm: {level: {validate: 1}}", "- dcgm: {level: 9}"), "from 1 to 3"),
        (("- dcgm: {level: {validate: 1}}", "- memtest"), "a test is one of"),
        (("at_least: 460", "at_least: fast"), "above 0"),
        (("at_least: 460", "of_baseline: 1.5"), "at most 1"),
        (("at_least: 460", "below: ignore"), "fail or warn"),
        (("mounts: [/data, ", "mounts: [data, "), "absolute paths"),
        (("mounts: [/data, ", "mounts: [/data/../etc, "), "absolute paths"),
        (('{mounts: [/data, "/home:ro"]}', "{}"), "needs its mounts"),
        (("only: [burn_in]", "only: [sometimes]"), "no purpose"),
        (("name: own", "name: dcgm"), "same name"),
        (("every: 7d", "every: 5m"), "at least an hour"),
        (('from: "22:00", ', ""), "belong together"),
        (('"22:00"', "22:00"), "in quotes"),
        (("Asia/Seoul", "Mars/Base"), "time zone"),
        (('burn_in: {pools: ["h100-*"]', "burn_in: {pools: []"), "name its pools"),
        (("at_once: 2", "at_once: 0"), "from 1 to 1000"),
        (("confirm: {pools", "confirm: {pool"), "no key 'pool'"),
        (("suites:", "suits:"), "no key 'suits'"),
    ],
)
def test_a_mistake_is_told(change: tuple[str, str], word: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(BadSuites) as caught:
        parse(GOOD.replace(*change), "own.yaml")
    assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "version: 1\nsuites: 3", "version: 1\nsuites: [[]]", "{{{", "a: &a [*a]"])
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(BadSuites):
        parse(text, "own.yaml")
