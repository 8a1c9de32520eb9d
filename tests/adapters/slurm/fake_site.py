"""A slurmrestd of 25.05 whose nodes take jobs: reservations, submissions, a scheduler that runs at each request.

It holds every request against what must be true at each instant: a node that people are kept from is drained or in a
maintenance of one user, and no job of anybody else starts on it. `cut_at` breaks the answer of one write off, before or
after its effect, and tells the client so by closing the line. The same tests run on it and on a real Slurm.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.adapters.slurm.fake_rest import Cut, FakeRest

US, OPEN = "muster", ("PENDING", "RUNNING")
GONE = {"error_number": 2017, "description": "Invalid job id specified"}


@dataclass
class FakeSite(FakeRest):
    version: int = 43
    writes: int = 0
    cut_at: tuple[int, str] = (0, "")  # (which write, "before" or "after" its effect)
    kept: str = ""  # a node that nobody but us may get
    broken: list[str] = field(default_factory=list)
    runs: int = 2  # requests that a job takes
    submitted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.data |= {"jobs": [], "reservations": []}

    # -- what tests ask of it, as of the real one ----------------------------------------------------------------

    def people_submit(self, node: str) -> int:
        return self._add({"name": "llm", "user_name": "kim", "required_nodes": node, "script": "true"})

    def jobs(self) -> dict[int, str]:
        self._schedule()
        return {j["job_id"]: j["job_state"][0] for j in self.data["jobs"] if j["job_state"][0] in OPEN}

    def reservations(self) -> list[str]:
        return [one["name"] for one in self.data["reservations"]]

    def reserve(self, name: str, node: str, user: str) -> None:
        self._reserve({"name": name, "node_list": [node], "users": [user], "flags": ["MAINT"]})

    def unreserve(self, name: str) -> None:
        self.data["reservations"] = [one for one in self.data["reservations"] if one["name"] != name]

    def state(self, node: str) -> str:
        return "+".join(sorted(self.words(node)))

    def reason(self, node: str) -> str:
        return str(self.node(node)["reason"])

    def forget_jobs(self) -> None:
        """As slurmctld does minutes after their end."""
        self.data["jobs"] = [job for job in self.data["jobs"] if job["job_state"][0] in OPEN]

    # -- its REST server -----------------------------------------------------------------------------------------

    def get(self, what: str) -> tuple[int, dict[str, Any]]:
        self._schedule()
        if what.startswith("job/") and not any(str(job["job_id"]) == what[4:] for job in self.data["jobs"]):
            return 200, {"jobs": [], "errors": [GONE]}
        return super().get(what)

    def post(self, what: str, body: Any) -> tuple[int, dict[str, Any]]:
        self._written("before")
        answer: tuple[int, dict[str, Any]] = (200, {"errors": []})
        if what == "job/submit":
            job = body["job"]
            self.submitted.append(job["name"])
            answer[1]["job_id"] = self._add({**job, "user_name": US, "script": body["script"]})
        elif what == "reservation":
            self._reserve(body)
        else:
            answer = super().post(what, body)
            if body.get("state") == ["RESUME"]:
                self.node(what.partition("/")[2])["reason"] = ""  # as the versions do that keep none
        self._schedule()
        self._written("after")
        return answer

    def delete(self, what: str) -> tuple[int, dict[str, Any]]:
        self._written("before")
        kind, _, name = what.partition("/")
        if kind == "reservation":
            busy = [job for job in self.data["jobs"] if job["resv_name"] == name and job["job_state"] == ["RUNNING"]]
            if busy:
                return 500, {"errors": [{"error_number": 2051, "description": "Requested reservation is in use"}]}
            self.unreserve(name)
        else:
            for job in self.data["jobs"]:
                if str(job["job_id"]) == name and job["job_state"][0] in OPEN:
                    job["job_state"] = ["CANCELLED"]
        self._schedule()
        self._written("after")
        return 200, {"errors": []}

    def _written(self, when: str) -> None:
        self.writes += when == "before"
        if self.cut_at == (self.writes, when):
            raise Cut

    def _reserve(self, body: dict[str, Any]) -> None:
        now = int(time.time())
        raw = {"name": body["name"], "node_list": ",".join(body["node_list"]), "users": ",".join(body["users"])}
        raw |= {"flags": [*body["flags"], "SPEC_NODES"], "start_time": now, "end_time": now + 365 * 86400}
        self.data["reservations"].append(raw)

    def _add(self, job: dict[str, Any]) -> int:
        number = 1 + max((one["job_id"] for one in self.data["jobs"]), default=0)
        raw = {"job_id": number, "name": job["name"], "user_name": job["user_name"], "job_state": ["PENDING"]}
        raw |= {
            "partition": "train",
            "state_reason": "Resources",
            "left": self.runs,
            "resv_name": job.get("reservation", ""),
        }
        raw |= {
            "required_nodes": job.get("required_nodes", ""),
            "nodes": "",
            "comment": {"job": job.get("comment", "")},
        }
        raw |= {"script": job["script"], "standard_output": job.get("standard_output", ""), "end_time": 0}
        self.data["jobs"].append(raw)
        return number

    # -- its scheduler -------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self.kept and "DRAIN" not in self.words(self.kept) and not self._booked(self.kept):
            self.broken.append(f"{self.kept} is open to everybody: {self.told[-3:]}")
        for job in self.data["jobs"]:
            if job["job_state"] == ["RUNNING"]:
                job["left"] -= 1
                if job["left"] <= 0 and job["user_name"] == US and "sleep" not in job["script"]:
                    self._finish(job)
            elif job["job_state"] == ["PENDING"]:
                self._try(job)

    def _try(self, job: dict[str, Any]) -> None:
        mine = next((one for one in self.data["reservations"] if one["name"] == job["resv_name"]), None)
        node = mine["node_list"].partition(",")[0] if mine else job["required_nodes"]
        busy = any(one["nodes"] == node and one["job_state"] == ["RUNNING"] for one in self.data["jobs"])
        if (job["resv_name"] and mine is None) or busy or self.words(node) & {"DRAIN", "DOWN"}:
            return
        if any(one is not mine for one in self._booked(node)) and not (mine and "MAINT" in mine["flags"]):
            return
        if node == self.kept and job["user_name"] != US:
            self.broken.append(f"job {job['job_id']} of {job['user_name']} starts on {node}")
        job |= {"job_state": ["RUNNING"], "nodes": node}

    def _booked(self, node: str) -> list[dict[str, Any]]:
        return [one for one in self.data["reservations"] if one["node_list"] == node]

    def _finish(self, job: dict[str, Any]) -> None:
        done = subprocess.run(
            ["sh", "-s"], input=job["script"], capture_output=True, text=True, timeout=30, check=False
        )
        Path(job["standard_output"].replace("%j", str(job["job_id"]))).write_text(done.stdout + done.stderr)
        job |= {"job_state": ["COMPLETED" if done.returncode == 0 else "FAILED"], "end_time": int(time.time())}
