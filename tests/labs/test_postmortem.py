"""The post-mortem replayed: the GPUs were there, and they never gathered. And its twin, in which every remedy is taken.

Simulated fleet and observer run at the speed of life, for what Muster waits for is told in seconds of the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from fleet.simulator.gangs.drivers import Ray
from fleet.simulator.store import Event
from tests.watched_gangs import Watched, watching

pytestmark = pytest.mark.django_db
BOUND = 30.0  # seconds from a condition's arising to its name
GRACE = 20.0  # for which a placement group waits before that is a condition
TEAMS = tuple(f"RayJob {name}" for name in ("sweep", "tune", "vision", "speech"))
AT_ONCE = (  # what is true as soon as the job is there
    ("guarantee_none", "RayJob vision"),
    ("guarantee_none", "RayJob speech"),
    ("guarantee_none", "RayJob sweep"),
    ("headroom_exact", "RayJob vision"),
    ("headroom_exact", "RayJob speech"),
    ("headroom_exact", "RayJob tune"),
    ("evidence_lost", "RayJob vision"),
    ("gpus_kept", "RayJob speech"),
    ("autoscaler_known_loop", "RayJob sweep"),
)


@pytest.fixture
def sick(tmp_path: Path) -> Iterator[Watched]:
    with watching(tmp_path, nodes=24, scenario="postmortem") as watched:
        yield watched


@pytest.fixture
def healthy(tmp_path: Path) -> Iterator[Watched]:
    with watching(tmp_path, nodes=24, scenario="postmortem_healthy") as watched:
        yield watched


class Scaled:
    """When the replicas of a team's workers turned, as the API server stored it."""

    def __init__(self, watched: Watched, team: str) -> None:
        self.team, self.seen = team, list[tuple[float, int]]()
        assert watched.simulator.world is not None
        watched.simulator.world.store["rayclusters"].listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        if event.record.name.startswith(self.team):
            replicas = orjson.loads(event.record.body)["spec"]["workerGroupSpecs"][0]["replicas"]
            if not self.seen or self.seen[-1][1] != replicas:
                self.seen.append((time.monotonic(), replicas))

    def third_alternation(self) -> float | None:
        """The fourth change, after the first look."""
        return self.seen[4][0] if len(self.seen) > 4 else None


def test_every_condition_is_named_soon_and_the_way_out_is_right(sick: Watched) -> None:
    scaled, began = Scaled(sick, "sweep"), time.monotonic()
    sick.until(lambda: all(team in sick.states() for team in TEAMS))
    named_since(sick, AT_ONCE, began)

    apart = sick.until(lambda: placed(sick, "vision") == placed(sick, "speech") == 3 and time.monotonic())
    named_since(sick, [("deadlock", "RayJob vision"), ("deadlock", "RayJob speech")], apart)
    held = {name: sick.gang(f"RayJob {name}").gpus_held_idle for name in ("vision", "speech")}
    assert held == {"vision": 24, "speech": 24}

    died = sick.until(lambda: driver_failed(sick, "tune") and time.monotonic())
    named_since(sick, [("placement_stale", "RayJob tune")], died)
    named_since(sick, [("failures_none", "RayJob sweep")], began)
    waits = sick.until(lambda: drivers(sick, "tune") == 2 and time.monotonic())
    named_since(sick, [("placement_pending", "RayJob tune"), ("placement_pending", "RayJob sweep")], waits + GRACE)

    swung = sick.until(scaled.third_alternation, 120)
    named_since(sick, [("autoscaler_swings", "RayJob sweep")], swung)
    assert set(TEAMS) == {title for _, title in sick.named if title.startswith("RayJob")}

    leave_the_deadlock(sick)


def leave_the_deadlock(sick: Watched) -> None:
    """Suspend whom the condition names: whom it says to start then does, and is found sick when its node is."""
    way = sick.condition("deadlock", "RayJob vision").values
    suspend, start = way["suspend"], way["starts"]
    assert isinstance(suspend, tuple) and isinstance(start, tuple)
    (given_up,), (starts,) = suspend, start
    assert {sick.title(given_up), sick.title(starts)} == {"RayJob vision", "RayJob speech"} and way["frees"] == 24
    title, name = sick.title(starts), sick.title(given_up).removeprefix("RayJob ")
    sick.suspend(f"team-{name}/{name}")
    sick.until(lambda: sick.gang(title).state == "running")
    sick.until(lambda: not any(code == "deadlock" for code, _ in sick.named))
    node = next(member.node for member in sick.gang(title).members if member.need.gpus)
    assert sick.fleet.inject("nfs_hang", node).status == 200  # its pods stay Ready
    sick.sick[node] = "mount_hung"
    named_since(sick, [("sick_node", title)], time.monotonic())


def named_since(watched: Watched, wanted: tuple[tuple[str, str], ...] | list[tuple[str, str]], arose: float) -> None:
    watched.until(lambda: all(key in watched.named for key in wanted), BOUND + 30)
    late = {key: round(watched.named[key] - arose, 1) for key in wanted if watched.named[key] - arose > BOUND}
    assert not late, late


def placed(watched: Watched, team: str) -> int:
    """Workers that lie on nodes."""
    return sum(bool(m.node) and m.need.gpus > 0 for m in watched.gang(f"RayJob {team}").members)


def drivers(watched: Watched, team: str) -> int:
    return len(next(ray.drivers for ray in inside(watched) if ray.team.name == team))


def driver_failed(watched: Watched, team: str) -> bool:
    return any(d.status == "FAILED" for ray in inside(watched) if ray.team.name == team for d in ray.drivers)


def inside(watched: Watched) -> list[Ray]:
    """The Ray clusters as the simulator has them: what is so, whatever Muster says of it."""
    assert watched.simulator.world is not None
    return list(watched.simulator.world.stage.drivers.rays.values())


def test_the_healthy_twin_has_nothing_to_be_warned_of(healthy: Watched) -> None:
    """One waits whole for the other, a worker dies and is replaced, and then the other starts."""
    warned: set[tuple[str, str]] = set()

    def until(holds: Callable[[], bool], seconds: float = BOUND) -> None:
        def look() -> bool:
            worse = (one for one in healthy.watch.conditions if one.severity != "notice")
            warned.update((one.code, healthy.title(one.gang)) for one in worse)
            return holds()

        healthy.until(look, seconds + 30)

    until(lambda: all(team in healthy.states() for team in TEAMS))
    until(lambda: healthy.gang("RayJob vision").state == "running")
    assert healthy.gang("RayJob speech").state == "waiting" and not healthy.gang("RayJob speech").gpus_held
    until(lambda: any(d.attempts > 1 for ray in inside(healthy) for d in ray.drivers))
    until(lambda: healthy.gang("RayJob tune").state == "running")
    until(lambda: healthy.states().get("RayJob speech") == "running", 60)
    ran = time.monotonic()
    until(lambda: time.monotonic() - ran > 10.0)
    assert warned == set()
    assert healthy.ray.readings(), "its dashboards were read"
