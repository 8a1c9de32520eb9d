"""What test programs print: each format read rightly, and nothing that is no result taken for one."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle.validation import dcgm, judge, nccl, reading, storage
from fleet.lifecycle.validation.findings import Status
from fleet.lifecycle.validation.judge import Limit
from fleet.lifecycle.validation.logs import clean
from tests import diagnostics

ALL_GOOD = {
    "dcgm": diagnostics.dcgm4(),
    "nccl": diagnostics.nccl(),
    "storage": diagnostics.storage({"/data": (900.0, 1800.0)}),
}


def result(kind: str, log: str, succeeded: bool = True) -> str:
    report = reading.read(kind, clean(log), succeeded)
    found, text = judge.conclude(report, judge.judge(report, Limit(), {}), None if succeeded else "exit code 1", None)
    assert text
    return found


@pytest.mark.parametrize("log", [diagnostics.dcgm3(), diagnostics.dcgm4()])
def test_diagnostics_of_both_versions_pass_with_every_gpu(log: str) -> None:
    report = dcgm.parse(log)
    assert report.problem == "" and report.gpus == frozenset(range(8))
    assert {finding.status for finding in report.findings} == {Status.PASS}


@pytest.mark.parametrize("make", [diagnostics.dcgm3, diagnostics.dcgm4])
def test_a_failed_gpu_is_named_with_its_words_and_its_serial(make: object) -> None:
    report = dcgm.parse(make(failing={3: "uncorrectable memory errors"}))  # type: ignore[operator]
    (bad,) = [finding for finding in report.findings if finding.status == Status.FAIL]
    assert (bad.device, bad.place.startswith(bad.name)) == ("GPU 3", True)
    assert "uncorrectable memory errors" in bad.text and "serial 165003" in bad.text


def test_warnings_are_told_and_pass() -> None:
    log = diagnostics.dcgm4(failing={1: "clock throttled"}, status="Warn")
    report = dcgm.parse(log)
    found, text = judge.conclude(report, judge.judge(report, Limit(), {}), None, 8)
    assert found == judge.PASSED and "clock throttled" in text


@pytest.mark.parametrize("word", ["", "Passing", "Unknown", "Not tested", "42"])
def test_a_status_that_nobody_knows_is_no_pass(word: str) -> None:
    assert result("dcgm", diagnostics.dcgm4(failing={0: "?"}, status=word)) == judge.FAILED


def test_a_gpu_that_was_left_out_is_no_pass() -> None:
    report = dcgm.parse(diagnostics.dcgm4(gpus=7))
    found, text = judge.conclude(report, judge.judge(report, Limit(), {}), None, 8)
    assert found == judge.FAILED and "7 of 8" in text


def test_only_skipped_tests_are_no_result() -> None:
    everything = dict.fromkeys(range(8), "not supported")
    log = diagnostics.dcgm4(failing=everything, status="Skip").replace('"Pass"', '"Skip"')
    assert result("dcgm", log) == judge.NO_RESULT


@pytest.mark.parametrize(
    "document",
    [
        {"DCGM Diagnostic": {"runtime_error": "unable to connect to the host engine"}},
        {"DCGM GPU Diagnostic": {"Error": "no GPUs"}},
        {"DCGM Diagnostic": {"test_categories": []}, "global_errors": [{"warning": "GPU 2 is lost"}]},
    ],
)
def test_diagnostics_that_could_not_run_fail_with_their_own_words(document: dict[str, object]) -> None:
    assert result("dcgm", json.dumps(document)) == judge.FAILED


def test_rates_beside_a_status_are_kept() -> None:
    log = diagnostics.dcgm4().replace("Allocated 84000 MB (98.4%)", "GPU 1 GPU to Host bandwidth:\\t\\t54.12 GB/s")
    rates = [finding for finding in dcgm.parse(log).findings if finding.value is not None]
    assert {(finding.name, finding.value, finding.unit) for finding in rates} == {
        ("memory: gpu to host bandwidth", 54.12, "GB/s")
    }


def test_the_bandwidth_of_the_largest_message_is_the_measure() -> None:
    report = nccl.parse(diagnostics.nccl(busbw=462.5))
    assert [(f.name, f.value) for f in report.findings] == [("busbw", 462.5), ("busbw average", 323.75)]


def test_wrong_sums_fail_whatever_the_speed() -> None:
    assert result("nccl", diagnostics.nccl(busbw=480, wrong="3")) == judge.FAILED


def test_unchecked_sums_are_read() -> None:
    assert result("nccl", diagnostics.nccl(wrong="N/A")) == judge.PASSED


def test_a_collective_that_breaks_off_says_why() -> None:
    log = diagnostics.nccl(complete=False) + "node: Test CUDA failure all_reduce.cu:101 'no device'\n"
    assert result("nccl", log, succeeded=False) == judge.FAILED


def test_a_hanging_mount_is_named_by_the_line_that_lacks() -> None:
    report = storage.parse(diagnostics.storage({"/data": (900.0, 1800.0), "/home": "hangs"}))
    (bad,) = [finding for finding in report.findings if finding.status == Status.FAIL]
    assert bad.device == "/home"


@pytest.mark.parametrize("why", ["stat", "write", "read", "of something else"])
def test_a_mount_that_does_not_work_fails(why: str) -> None:
    assert result("storage", diagnostics.storage({"/data": why.replace(" ", "-")})) == judge.FAILED


def test_no_mount_is_no_result() -> None:
    assert result("storage", "muster-storage done\n") == judge.NO_RESULT


def test_a_job_that_failed_is_no_pass_whatever_its_log_says() -> None:
    for kind, log in ALL_GOOD.items():
        assert result(kind, log, succeeded=False) == judge.FAILED


@pytest.mark.parametrize("kind", sorted(ALL_GOOD))
@pytest.mark.parametrize(
    "log", ["", "\n\n", "Segmentation fault (core dumped)\n", "\x00\xff" * 900, "{" * 5000, "ok\npass\n"]
)
def test_garbage_is_no_result(kind: str, log: str) -> None:
    assert result(kind, log) == judge.NO_RESULT


@pytest.mark.parametrize("kind", sorted(ALL_GOOD))
def test_colours_and_progress_bars_change_nothing(kind: str) -> None:
    dirty = "\x1b]0;title\x07" + "".join(f"\x1b[32m{line}\x1b[0m\r\n" for line in ALL_GOOD[kind].splitlines())
    assert result(kind, "  12%\r  99%\r" + dirty) == judge.PASSED


@pytest.mark.parametrize("kind", sorted(ALL_GOOD))
def test_words_before_and_after_change_nothing(kind: str) -> None:
    assert result(kind, f"WARNING: {{ not for you }}\n{ALL_GOOD[kind]}\nbye {{\n") == judge.PASSED


@pytest.mark.parametrize("kind", sorted(ALL_GOOD))
def test_every_cut_of_a_good_log_is_no_pass_until_its_result_is_whole(kind: str) -> None:
    log = ALL_GOOD[kind].rstrip()
    closing = {"nccl": "\n# Avg bus bandwidth", "storage": "\nmuster-storage done"}
    end = log.rindex(closing[kind]) if kind in closing else len(log)
    for cut in range(0, end, 7):
        assert result(kind, log[:cut]) in (judge.NO_RESULT, judge.FAILED), log[:cut][-80:]


@given(st.sampled_from(sorted(ALL_GOOD)), st.binary(max_size=400), st.integers(0, 3000), st.integers(0, 3000))
def test_no_damage_breaks_a_parser_and_no_garbage_passes(kind: str, noise: bytes, start: int, length: int) -> None:
    log = ALL_GOOD[kind]
    damaged = log[:start] + noise.decode("latin-1") + log[start + length :]
    result(kind, damaged)
    assert result(kind, noise.decode("latin-1")) == judge.NO_RESULT


@given(
    st.sampled_from(sorted(ALL_GOOD)), st.text(alphabet='{}[]"DCGM Diagnostic:,0123#.\n muster-storage=/', max_size=600)
)
def test_what_looks_almost_like_a_result_is_none(kind: str, log: str) -> None:
    assert result(kind, log) in (judge.NO_RESULT, judge.FAILED)


@pytest.mark.parametrize(
    "log",
    [
        '{"DCGM Diagnostic": ' + '{"a":' * 200_000,
        '{"DCGM Diagnostic":' * 200_000,
        "\x1b]" * 1_000_000,
        "1 " * 2_000_000,
        "muster-storage begin path=/" + "x" * 4_000_000,
        " " * 4_000_000,
        "# Out of bounds values : " + "9" * 4_000_000,
    ],
)
@pytest.mark.parametrize("kind", sorted(ALL_GOOD))
def test_a_huge_log_costs_little(kind: str, log: str) -> None:
    begun = time.process_time()
    assert result(kind, log) in (judge.NO_RESULT, judge.FAILED)
    assert time.process_time() - begun < 5


def test_of_a_huge_log_the_end_is_read() -> None:
    assert result("nccl", "progress\n" * 1_000_000 + diagnostics.nccl()) == judge.PASSED
