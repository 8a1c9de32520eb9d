"""The configurations for other programs ship what is read here, and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.inventory import targets
from fleet.telemetry import names
from fleet.telemetry.kernelsignals import match
from tests.unit.telemetry.test_kernellog import test_a_line_says, test_most_lines_say_nothing

AGENTS = Path(__file__).resolve().parent.parent.parent.parent / "deploy" / "agents"
PROMTOOL, AMTOOL = "/usr/bin/promtool", "/usr/bin/amtool"


def read(name: str) -> Any:
    return yaml.safe_load((AGENTS / name).read_text())


def cases(test: Any) -> list[str]:
    given = test.pytestmark[0].args[1]
    return [case[0] if isinstance(case, tuple) else case for case in given]


def fluent_bit() -> str:
    (grep,) = [f for f in read("fluent-bit/fluent-bit.yaml")["pipeline"]["filters"] if f["name"] == "grep"]
    return str(grep["regex"]).removeprefix("MESSAGE ")


def vector() -> str:
    found = re.search(r"r'(.*)'", read("vector/vector.yaml")["transforms"]["hardware"]["condition"])
    assert found
    return found[1]


@pytest.mark.parametrize("pattern", [fluent_bit(), vector()], ids=["fluent-bit", "vector"])
def test_every_line_that_says_something_is_shipped(pattern: str) -> None:
    lines = cases(test_a_line_says)
    assert len(lines) > 25 and all(match(line) for line in lines)
    assert [line for line in lines if not re.search(pattern, line)] == []


def test_lines_that_say_nothing_stay_where_they_are() -> None:
    quiet = [*cases(test_most_lines_say_nothing), "eth0: Link is Up", "audit: type=1400", "systemd[1]: Started x"]
    shipped = [line for line in quiet if re.search(fluent_bit(), line)]
    assert set(shipped) <= {"NVRM: loading NVIDIA UNIX", "NVRM: Xid (PCI:"}


def test_prometheus_writes_every_metric_that_is_read() -> None:
    config = read("prometheus/prometheus.yml")
    (rule,) = config["remote_write"][0]["write_relabel_configs"]
    unwritten = {*names.OF_SWITCHES}  # of no node, so nobody can write them
    known = {*names.METRICS, *names.ALIASES, *names.SCALED} - unwritten
    assert [name for name in known if not re.fullmatch(rule["regex"], name)] == []
    assert not re.fullmatch(rule["regex"], "go_goroutines")


def test_the_list_of_targets_is_one_and_knows_every_key() -> None:
    text = (AGENTS / "targets/targets.yml").read_text()
    found = targets.parse(text)
    assert set(found.nodes) == {"gpu-001", "gpu-002"} and found.fabric[0].url
    spelled = {key for key in (*targets.NODE_KEYS, *targets.UFM_KEYS, "exporter") if f"{key}:" in text}
    assert spelled == {*targets.NODE_KEYS, *targets.UFM_KEYS, "exporter"}


def test_dcgm_exporter_counts_what_the_rules_read() -> None:
    lines = [line for line in (AGENTS / "dcgm-exporter/counters.csv").read_text().splitlines() if line[:1] != "#"]
    rows = [[field.strip() for field in line.split(",", 2)] for line in lines]
    assert {kind for _, kind, _ in rows} == {"gauge", "counter", "label"}
    newer = {names.XID_TOTAL}  # an older exporter does not start with it
    assert {name for name in names.METRICS if name.startswith("DCGM")} - newer <= {name for name, _, _ in rows}
    assert len({name for name, _, _ in rows}) == len(rows)


def test_node_exporter_and_alertmanager_say_what_is_needed() -> None:
    args = read("node-exporter/args.yaml")["args"]
    assert {"--collector.mountstats", "--collector.processes", "--collector.ethtool"} <= set(args)
    (muster,) = [r for r in read("alertmanager/alertmanager.yml")["receivers"] if r["name"] == "muster"]
    assert muster["webhook_configs"][0]["send_resolved"] is True


@pytest.mark.skipif(shutil.which(PROMTOOL) is None, reason=f"{PROMTOOL} is not installed (Debian: prometheus)")
def test_prometheus_itself_accepts_the_file(tmp_path: Path) -> None:
    text = (AGENTS / "prometheus/prometheus.yml").read_text().replace("/etc/muster/push.token", str(tmp_path / "t"))
    (tmp_path / "t").write_text("x")
    (tmp_path / "prometheus.yml").write_text(text)
    done = subprocess.run(
        [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which(AMTOOL) is None, reason=f"{AMTOOL} is not installed (Debian: prometheus-alertmanager)")
def test_alertmanager_itself_accepts_the_file() -> None:
    given = str(AGENTS / "alertmanager/alertmanager.yml")
    done = subprocess.run([AMTOOL, "check-config", given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("prometheus/prometheus.yml", ("ca_file", "cert_file", "key_file")),
        ("alertmanager/alertmanager.yml", ("ca_file", "cert_file", "key_file")),
        ("vector/vector.yaml", ("ca_file", "crt_file", "key_file")),
        ("fluent-bit/fluent-bit.yaml", ("tls.ca_file", "tls.crt_file", "tls.key_file")),
    ],
)
def test_every_sender_shows_how_it_brings_its_certificate(file: str, keys: tuple[str, ...]) -> None:
    """The lines are comments; with the marks taken away the file is still one."""
    lines = (AGENTS / file).read_text().splitlines()
    shown = [re.sub(r"# (?=tls)", "", line) for line in lines]
    assert shown != lines and all(any(f"{key}: " in line for line in shown) for key in keys)
    assert yaml.safe_load("\n".join(shown)) != yaml.safe_load("\n".join(lines))
