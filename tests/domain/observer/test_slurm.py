"""A cluster that only Slurm tells of: registered, looked at, watched; and what its registration says is missing."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from fleet import wiring, wiring_slurm
from fleet.gangs.models import GangRow, QueueRow
from fleet.inventory.models import Alias, Cluster, Node
from fleet.observer import once
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PermanentError
from tests.builders import T0, a_cluster, a_node
from tests.domain.observer.test_process import command, var  # noqa: F401 - fixtures
from tests.labs.slurm import Slurm
from tests.labs.slurm_fixtures import one_slurm, real  # noqa: F401 - fixtures
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.django_db(transaction=True)
OBSERVE = """
import sys, django
django.setup()
from django.core.management import execute_from_command_line
from fleet.observer import process
process.POLL_EVERY = process.TURN_EVERY = 0.5  # seconds; the observer of a hall takes its time
execute_from_command_line(sys.argv)
"""


def test_its_nodes_jobs_and_drains_are_seen(var: Path, real: Slurm) -> None:  # noqa: F811
    real.scontrol("update", "nodename=gpu-02", "state=drain", "reason=kim: new cable")
    job = real.submit(2, "--nodelist=gpu-03,gpu-04")
    until(lambda: real.jobs().get(job) == "RUNNING")
    token = var / "token"
    token.write_text(f"SLURM_JWT={real.token()}\n")
    options = ["--slurm", real.url, "--slurm-token", f"file:{token}", "--selector", "partition=train"]
    said = io.StringIO()
    call_command("cluster", "add", "hall", *options, "--label", "pool=partition", stdout=said)
    assert "No acting token of Slurm is set (--slurm-act-token): its nodes are never drained." in said.getvalue()
    told = once.one_pass(Cluster.objects.get(name="hall"), SYSTEM_CLOCK, var / "run", 2.0)
    assert (told["nodes"], told["pods"], told["incidents"]) == (4, 2, 0)
    nodes = {node.name: node for node in Node.objects.select_related("pool")}
    assert {node.gpu_capacity for node in nodes.values()} == {8}
    assert all(node.managed and node.ready and node.boot_id and node.pool.name == "train" for node in nodes.values())
    assert [name for name, node in nodes.items() if node.unschedulable] == ["gpu-02"]
    (owner,) = nodes["gpu-02"].owners
    assert (owner["name"], owner["doing"]) == ("Slurm", "keeps it from work (DRAIN by root: kim: new cable)")
    assert (nodes["gpu-03"].pods, nodes["gpu-03"].gang) == (1, f"train/{job}")


def test_an_observer_tells_why_its_jobs_wait_and_which_node_they_wait_for(var: Path, real: Slurm) -> None:  # noqa: F811
    real.scontrol("update", "nodename=gpu-02", "state=drain", "reason=kim: new cable")
    (var / "token").write_text(real.token())
    cluster = a_cluster("hall", mode="observe", observer="", observer_until=None, connected_at=None, selector="*",
                        slurm_url=real.url, slurm_token=f"file:{var / 'token'}")  # fmt: skip
    job = real.submit(4)
    _, env = command(var)
    process = subprocess.Popen(
        [sys.executable, "-c", OBSERVE, "observe", "hall"],
        env=env,
        cwd=settings.BASE_DIR,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rows = GangRow.objects.filter(cluster=cluster, name=str(job))
    try:
        until(rows.filter(state="waiting", reason_code="NODE_UNHEALTHY").exists, every=0.2)
        (blocker,) = rows.get().blockers
        assert (blocker["node"], rows.get().queue, rows.get().gpus_wanted) == ("gpu-02", "train", 32)
        assert QueueRow.objects.get(cluster=cluster, system="slurm").name == "train"
        real.scontrol("update", "nodename=gpu-02", "state=resume")
        until(rows.filter(state="running").exists, every=0.2)
        assert rows.get().blockers == [] and rows.get().nodes == real.names
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)


def test_a_registration_that_writes_a_token_down_is_refused() -> None:
    for options in (
        ["--slurm", "http://127.0.0.1:6820", "--slurm-token", "eyJhbGciOi.e30.x"],
        ["--slurm", "http://root:secret@127.0.0.1:6820"],
        ["--slurm", "127.0.0.1:6820"],
    ):
        with pytest.raises(CommandError) as refused:
            call_command("cluster", "add", "hall", *options)
        said = str(refused.value)
        assert said and "eyJhbGciOi" not in said and "secret" not in said
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "none is named: --slurm-token"),
        ({"slurm_token": "file:/nowhere"}, "file:/nowhere cannot be read"),
    ],
)
def test_a_token_that_cannot_be_read_is_named_by_its_place(fields: dict[str, str], sentence: str) -> None:
    cluster = Cluster(name="hall", slurm_url="http://127.0.0.1:9", **fields)
    with pytest.raises(PermanentError, match=sentence) as caught:
        wiring.reader(cluster).check()
    assert caught.value.code == "slurm_token"
    with pytest.raises(PermanentError) as caught:
        wiring.actor(cluster)
    assert caught.value.code == "no_credential"


def test_a_renewed_token_is_used_at_once(tmp_path: Path, real: Slurm) -> None:  # noqa: F811
    place = tmp_path / "token"
    cluster = Cluster(name="hall", slurm_url=real.url, slurm_token=f"file:{place}")
    reader = wiring.reader(cluster)
    for _ in range(2):
        place.write_text(real.token(seconds=60))
        assert reader.check() == []
        place.write_text("")
        with pytest.raises(PermanentError):
            reader.check()


def test_beside_kubernetes_slurm_is_asked_for_its_jobs_alone_and_goes_by_the_cluster_s_names() -> None:
    cluster = a_cluster(kubeconfig="/etc/muster/kubeconfig", slurm_url="http://127.0.0.1:9", slurm_act_token="file:/x")
    node = a_node(cluster, "ip-10-0-0-7")
    Alias.objects.create(cluster=cluster, node=node, kind="slurm", value="gpu-07")
    poll = wiring_slurm.poll(cluster)
    assert poll.system == "slurm" and wiring_slurm.poll(cluster) is poll
    assert wiring_slurm.names(cluster.pk) == {"gpu-07": "ip-10-0-0-7"}
    assert not wiring_slurm.may_act(cluster)
    assert wiring.gang_polls(Cluster(name="plain", created_at=T0)) == []
