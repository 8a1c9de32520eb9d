"""A real Slurm on loopback: munged, slurmctld, one slurmd for each of a few made-up GPU nodes, and slurmrestd.

Decides its configuration, its ports and when it is up; each daemon runs in the foreground as a child of ours and is
ended by its own pid. A node's "reboot" ends its slurmd and starts it again as a host that has just booted. Skips with a
sentence where the programs are missing or we are not root. Refuses to leave a process, a job or a folder behind.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.patience import PATIENCE, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmrestd", "scontrol", "sbatch", "scancel")
PLUGINS = ("auth_jwt.so", "select_cons_tres.so")
PACKAGES = "slurmctld slurmd slurmrestd slurm-client munge slurm-wlm-basic-plugins slurm-wlm-jwt-plugin"
GPUS = 8
BOOT, OLD = 1.2, 2.5
"""Seconds. slurmctld compares boots and answers by whole ones: a host is away longer than that, and one that is resumed
sooner after its boot is taken for one that has booted again."""
TRIES = 3  # somebody may take a port between our looking and a daemon's binding
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 SocketsPerBoard=2 \
CoresPerSocket=32 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:h100:8 Feature=ib State=UNKNOWN"
CONFIG = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt.key
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
SlurmdTimeout=60
ResumeTimeout=60
KillWait=2
RebootProgram={folder}/reboot
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
GresTypes=gpu
AccountingStorageType=accounting_storage/none
PartitionName=train Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
REBOOT = """#!/bin/sh
# Which of the many slurmd on this host are we? The one above us says so in its arguments.
p=$PPID
while [ "$p" -gt 1 ]; do
  case "$(tr '\\0' ' ' < "/proc/$p/cmdline")" in *slurmd*-N*)
    tr '\\0' '\\n' < "/proc/$p/cmdline" | sed -n '/^-N$/{n;p;}' > "$FOLDER/reboot-$p.part"
    mv "$FOLDER/reboot-$p.part" "$FOLDER/reboot-$p"; exit 0;; esac
  p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status")
done
"""


def _free_port() -> int:
    """Below those that the kernel gives to connections: a daemon that starts again finds its port still free."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def missing() -> str:
    """Why there can be no Slurm here; "" when there can."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    lacking += [name for name in PLUGINS if not any(Path("/usr/lib").glob(f"*/slurm*/{name}"))] if not lacking else []
    if lacking:
        return f"Slurm is not installed here ({', '.join(lacking)}): apt-get install {PACKAGES}"
    return "" if os.geteuid() == 0 else "a real Slurm needs root: its daemons change users"


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Slurm:
    """The running one. `url` is slurmrestd's address; `config` what `SLURM_CONF` must name for scontrol."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.config = folder, folder / "slurm.conf"
        self.names = [f"gpu-{n:02}" for n in range(1, nodes + 1)]
        self.environment = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(self.config), "FOLDER": str(folder)}
        self.rest_port = _free_port()
        self.url = f"http://127.0.0.1:{self.rest_port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ends = threading.Event()
        self._booted = float("-inf")

    # -- what tests ask of it ------------------------------------------------------------------------------------

    def scontrol(self, *words: str) -> str:
        return self.run("scontrol", *words)

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def token(self, user: str = "root", seconds: int = 3600) -> str:
        return self.scontrol("token", f"username={user}", f"lifespan={seconds}").partition("=")[2]

    def submit(self, nodes: int, *options: str, name: str = "llm", seconds: int = 600, gpus: int = GPUS) -> int:
        """A job over whole nodes that sleeps; its number."""
        words = ["sbatch", "--parsable", f"--job-name={name}", f"--nodes={nodes}", f"--gres=gpu:h100:{gpus}"]
        words += ["--output=/dev/null", "--requeue", *options, f"--wrap=exec sleep {seconds}"]
        return int(self.run(*words).partition(";")[0])

    def starts_now(self, nodes: int, *options: str, gpus: int = GPUS) -> bool:
        """By Slurm's own foresight, within seconds of now. Nothing is submitted."""
        words = ["sbatch", "--test-only", f"--nodes={nodes}", f"--gres=gpu:h100:{gpus}", *options, "--wrap=true"]
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=30)
        at = re.search(r"to start at (\S+)", done.stderr)
        return at is not None and datetime.fromisoformat(at[1]) < datetime.now() + timedelta(seconds=15)  # noqa: DTZ005

    def cancel(self, *jobs: int) -> None:
        """Without numbers: every job. Waits until nothing of them is left on a node."""
        every = jobs or tuple(self.jobs())
        if every:
            self.run("scancel", *map(str, every))
        until(lambda: not (set(self.jobs()) & set(jobs) if jobs else self.jobs()))

    def jobs(self) -> dict[int, str]:
        """Those that are not over, with their states."""
        lines = self.run("squeue", "--noheader", "--format=%A %T").splitlines()
        return {int(number): state for number, state in (line.split() for line in lines)}

    def state(self, node: str) -> str:
        """Such as `MIXED+DRAIN`."""
        return self._shown(node)["State"]

    def reservations(self) -> list[str]:
        told = self.scontrol("--oneliner", "show", "reservation").split()
        return [word.partition("=")[2] for word in told if word.startswith("ReservationName=")]

    def reserve(self, name: str, node: str, user: str) -> None:
        words = (f"reservation={name}", f"nodes={node}", f"users={user}", "starttime=now", "duration=infinite")
        self.scontrol("create", "reservation", *words, "flags=maint,ignore_jobs")

    def unreserve(self, name: str) -> None:
        self.scontrol("delete", f"reservation={name}")

    def people_submit(self, node: str) -> int:
        return self.submit(1, f"--nodelist={node}", "--uid=nobody")

    def reason(self, node: str) -> str:
        found = re.search(r"Reason=(.*?) \[", self.scontrol("--oneliner", "show", "node", node))
        return found[1] if found else ""

    def boot_time(self, node: str) -> str:
        return self._shown(node)["BootTime"]

    def _shown(self, node: str) -> dict[str, str]:
        words = self.scontrol("--oneliner", "show", "node", node).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def in_service(self) -> bool:
        return all(self.state(name) in ("IDLE", "MIXED", "ALLOCATED") for name in self.names)

    def story(self) -> str:
        """What its nodes are and its daemons said last, for a test that cannot go on."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        logs = [
            f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}" for path in sorted(self.folder.glob("*.out"))
        ]
        return "\n".join([self.scontrol("--oneliner", "show", "nodes"), f"ended: {ended}", *logs])

    def restart(self, node: str) -> None:
        """As if the host had booted: its slurmd ends, and a new one says that the host is young."""
        _end(self._processes.pop(node))
        time.sleep(BOOT)
        self._slurmd(node, "-b")
        self._booted = time.monotonic()
        self.rest()

    def rest(self) -> None:
        """Until the last host that has booted is old enough to be resumed."""
        time.sleep(max(0.0, self._booted + OLD - time.monotonic()))

    def stop(self, node: str) -> None:
        """As if the host had died."""
        _end(self._processes.pop(node))

    # -- starting and ending -------------------------------------------------------------------------------------

    def up(self) -> None:
        self.folder.chmod(0o755)
        self._write()
        start, folder = self._start, self.folder
        files = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log"}
        files |= {"seed-file": "munged.seed"}
        start("munged", "--foreground", "--force", *(f"--{key}={folder}/{name}" for key, name in files.items()))
        until((folder / "munge.sock").exists)
        start("slurmctld", "-D", "-f", str(self.config))
        for name in self.names:
            (folder / f"spool-{name}").mkdir()
            self._slurmd(name)
        threading.Thread(target=self._tend, daemon=True).start()
        nobody = pwd.getpwnam("nobody")  # it refuses root, and whoever runs slurmctld
        start("slurmrestd", "-f", str(self.config), "-a", "rest_auth/jwt",
              "-s", "openapi/v0.0.38", f"127.0.0.1:{self.rest_port}",
              user=nobody.pw_uid, group=nobody.pw_gid, SLURM_JWT="daemon")  # fmt: skip
        until(self._all_up, PATIENCE, 0.1)

    def down(self) -> None:
        self._ends.set()
        if "slurmctld" in self._processes and self._processes["slurmctld"].poll() is None:
            with contextlib.suppress(AssertionError, subprocess.SubprocessError):
                self.cancel()
        for process in reversed(self._processes.values()):
            _end(process)

    def _all_up(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, f"{name}: {(self.folder / f'{name}.out').read_text()[-2000:]}"
        with contextlib.suppress(AssertionError, OSError):
            if self.in_service():
                socket.create_connection(("127.0.0.1", self.rest_port), 1).close()
                return True
        return False

    def _write(self) -> None:
        folder, host = self.folder, socket.gethostname().partition(".")[0]
        for name in ("munge.key", "jwt.key"):
            (folder / name).write_text(secrets.token_hex(64))
            (folder / name).chmod(0o600)
        (folder / "state").mkdir()
        for device in range(GPUS):
            with contextlib.suppress(PermissionError):  # a plain file counts as well, with a warning
                os.mknod(folder / f"nvidia{device}", 0o600 | stat.S_IFCHR, os.makedev(195, device))
            (folder / f"nvidia{device}").touch()
        names = ",".join(self.names)
        lines = [NODE.format(name=name, host=host, port=_free_port()) for name in self.names]
        config = CONFIG.format(host=host, port=_free_port(), folder=folder, names=names)
        head, _, partition = config.rpartition("PartitionName")
        self.config.write_text("\n".join([head, *lines, f"PartitionName{partition}"]))
        (folder / "gres.conf").write_text(f"NodeName={names} Name=gpu Type=h100 File={folder}/nvidia[0-{GPUS - 1}]\n")
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        (folder / "reboot").write_text(REBOOT.replace("$FOLDER", str(folder)))
        (folder / "reboot").chmod(0o755)

    def _slurmd(self, node: str, *more: str) -> None:
        self._start("slurmd", "-D", "-N", node, "-f", str(self.config), *more, named=node)

    def _start(
        self, *words: str, named: str = "", user: int | None = None, group: int | None = None, **more: str
    ) -> None:
        name = named or words[0]
        program = shutil.which(words[0], path=_PATH) or words[0]
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                env={**self.environment, **more}, user=user, group=group, extra_groups=None if user is None else [],
            )  # fmt: skip

    def _tend(self) -> None:
        """Carries out the reboots that slurmd asked RebootProgram for."""
        while not self._ends.wait(0.1):
            for asked in self.folder.glob("reboot-*[0-9]"):
                node = asked.read_text().strip()
                asked.unlink()
                self.restart(node)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(nodes: int = 4) -> Iterator[Slurm]:
    """Up, with all nodes in service. Its folder is below /tmp: slurmrestd's user must be able to read it."""
    if why := missing():
        pytest.skip(why)
    with contextlib.ExitStack() as stack:
        for left in range(TRIES, 0, -1):
            slurm = Slurm(Path(tempfile.mkdtemp(prefix="muster-slurm-")), nodes)
            stack.callback(shutil.rmtree, slurm.folder, ignore_errors=True)
            stack.callback(slurm.down)
            try:
                slurm.up()
                break
            except AssertionError:
                if left == 1:
                    raise
        yield slurm
