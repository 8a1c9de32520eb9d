"""The process of the quality replay that has a database: faults of many nodes, each in a cluster of its own.

Decides the faults, when each node shows its part of them, and what the one right answer is: one shared incident with
this scope, this place and these nodes, and no plan; or no incident at all. One node alone with a dead GPU is among
them, which must be planned, so that "no plan" means something. Run as `python -m`; prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import django

XID = "NVRM: Xid (PCI:0000:1b:00): {code}, pid='<unknown>', name=<unknown>, something happened"
WARM = 300.0
Script = Callable[[Any, Sequence[int], float], None]  # the room, the nodes, seconds since the fault began


@dataclass(frozen=True)
class Case:
    """`answer` is (scope, place, blamed node) of the one shared incident; None where there must be none."""

    name: str
    nodes: Sequence[int]
    script: Script
    seconds: float = 300.0
    answer: tuple[str, str, str] | None = None
    plans: int = 0
    singles: int = 0
    warm: float = WARM


def _set(metric: str, value: float, part: int = 0, spread: float = 20.0) -> Script:
    """A value of one part, on one node after the other within `spread` seconds."""

    def act(room: Any, nodes: Sequence[int], since: float) -> None:
        for order, number in enumerate(nodes):
            if since >= spread * order / len(nodes):
                room.fleet.values[number, room.fleet.at[metric][part]] = value

    return act


def _port(room: Any, nodes: Sequence[int], since: float) -> None:
    from fleet.telemetry import names

    _set(names.IB_STATE, 1, 2)(room, nodes, since)
    _set(names.IB_PHYSICAL, 2, 2)(room, nodes, since)


def _lines(plan: Sequence[tuple[float, float, Sequence[int], Sequence[int]]]) -> Script:
    """Codes that nodes write between two times, each node once: (from, to, codes, places in the list of nodes)."""
    told: set[tuple[int, int]] = set()

    def act(room: Any, nodes: Sequence[int], since: float) -> None:
        for entry, (begin, end, codes, places) in enumerate(plan):
            for order, place in enumerate(places):
                due = begin + (end - begin) * order / len(places)
                if since >= due and (entry, place) not in told:
                    told.add((entry, place))
                    room.say([nodes[place]], *(XID.format(code=code) for code in codes))

    return act


def _silent(until: float, kubelet_only: int = 0) -> Script:
    """Nothing is heard of the nodes until then; the last `kubelet_only` of them lose their kubelet alone."""

    def act(room: Any, nodes: Sequence[int], since: float) -> None:
        mute = list(nodes)[: len(nodes) - kubelet_only]
        room.fleet.silent[mute] = since < until
        if since >= until:
            room.ready(nodes, True)
        else:
            room.ready(nodes if since >= 40 else list(nodes)[len(mute) :], None)

    return act


def _mounts(room: Any, nodes: Sequence[int], since: float) -> None:
    from fleet.telemetry import names

    _set(names.MOUNT_ERROR, 1, 1)(room, nodes, since)
    if since < 1:
        room.say(nodes, "nfs: server nfs-1 not responding, still trying")


def cases(size: int, calm: float) -> list[Case]:
    """`calm` is for how many seconds nothing happens in the first of them."""
    from fleet.telemetry import names

    storm = [n for n in range(size) if n * 27 // 100 != (n - 1) * 27 // 100]
    every = range(len(storm))
    burst = [(begin, begin + 29, (31 if k else 94, 43, 45), list(every)[k::2]) for begin in (0, 300) for k in (0, 1)]
    third = range(size * 3 // 10)
    domain = range(36, 54)
    return [
        Case("healthy", (), lambda *_: None, calm),
        Case("one dead GPU", (5,), _lines([(0, 0, (79,), (0,))]), plans=1, singles=1),
        Case("leaf", range(32, 64), _port, answer=("leaf", "leaf-1", "")),
        Case("NVLink domain", domain, _lines([(0, 3, (74,), range(18))]), answer=("nvlink_domain", "nvl-2", "")),
        Case("NVLink domain, one sick GPU", domain,
             _lines([(0, 0, (79,), (4,)), (1, 4, (74,), range(18))]),
             answer=("nvlink_domain", "nvl-2", "n00040"), plans=1, singles=1),
        Case("mount server", third, _mounts, answer=("mount_server", "nfs-1", "")),
        Case("power shelf", range(16, 32), _set(names.REDFISH_PSU, 3), answer=("power", "rack-1", "")),
        Case("detector", range(0, size, 9), _set(names.HEALTH_STATUS, 20),
             answer=("detector", "dcgm-health-fail", "")),
        Case("absence", range(64, 96), _silent(600.0), answer=("detector", "absent", "")),
        Case("blink", range(32, 46), _silent(100.0, 7), answer=("detector", "absent", "")),
        Case("blink right after the start", range(32, 46), _silent(100.0, 7), answer=("detector", "absent", ""),
             warm=15.0),
        Case("Xid storm, twice", storm, _lines(burst), 900.0),
    ]  # fmt: skip


def play(case: Case, size: int, seed: int) -> dict[str, Any]:
    """One case in a cluster of its own."""
    from fleet.ops.bench._together import Room

    room = Room(f"c{seed}", size, seed)
    room.live(case.warm)
    onset = room.clock.mono
    room.most_open = 0
    began = room.clock.now()
    room.live(case.seconds, lambda: case.script(room, case.nodes, room.clock.mono - onset))
    shared = list(room.incidents().filter(node=None).order_by("id"))
    singles = list(room.incidents().exclude(node=None).filter(part_of=None))
    right = len(shared) == (case.answer is not None)
    members: set[str] = set()
    if right and shared:
        found, answer = shared[0], case.answer
        blamed = (found.evidence.get("blamed") or {}).get("node", "")
        right = (found.scope, found.place, blamed) == answer
        members = set(found.members.values_list("node__name", flat=True))
    wanted = {room.fleet.names[n] for n in case.nodes} if case.answer else set()
    return {
        "case": case.name,
        "nodes": len(case.nodes),
        "shared": len(shared),
        "named": bool(right),
        "listed": len(members & wanted),
        "others_listed": len(members - wanted),
        "singles": len(singles),
        "open_at_once": room.most_open,
        "plans": room.planned(),
        "after_s": round((shared[0].detected_at - began).total_seconds(), 1) if shared else None,
        "right": bool(right and room.planned() == case.plans and len(singles) == case.singles),
    }


def main(size: int, calm: float) -> None:
    listed = [play(case, size, seed) for seed, case in enumerate(cases(size, calm))]
    sys.stdout.write(json.dumps(listed))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), float(sys.argv[2]))
