"""A thousand small clusters: what-ifs and blockers say what trying every way says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

import pytest

from fleet.gangs.counting import count
from fleet.gangs.diagnosis.blocking import blockers
from fleet.gangs.diagnosis.order import Turn, turns
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Out, Room, Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.diagnosis.whatif import draining, returning, suspending
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import Need, Part, QueueObject, Ref, Toleration, Topology
from tests.gang_builders import a_member, an_object, later
from tests.unit.gangs import brute
from tests.unit.gangs.brute import GPU, LEVEL, OTHER, Node, Waiting, Wants

CLUSTERS, AT_ONCE = 1000, 100


@dataclass
class Cluster:
    nodes: list[Node]
    waiting: list[Waiting]
    running: list[str]  # gangs that hold members and lack none
    strict: set[str]

    @property
    def held(self) -> brute.Held:
        held: brute.Held = {}
        for node in self.nodes:
            for gang, wants in node.members:
                if wants.in_domain and gang not in node.ending:
                    held.setdefault(gang, set()).add(node.rack)
        return held


def drawn(seed: int) -> Cluster:
    """Two to six nodes, none to eight GPUs on each, one to six gangs of one to three missing members."""
    rng = Random(seed)
    judged_by_cpu, mixed, domains = rng.random() < 0.3, rng.random() < 0.4, rng.random() < 0.3
    nodes = []
    for n in range(rng.randint(2, 6)):
        whole = rng.choice((8, 8, 8, 4, 2, 0))
        nodes.append(
            Node(
                f"n{n}",
                gpus=whole - (rng.random() < 0.15 and whole > 0),
                whole=whole,
                cpu=rng.randint(2, 12) if judged_by_cpu and rng.random() < 0.8 else None,
                memory=rng.randint(2, 12) if judged_by_cpu and rng.random() < 0.8 else None,
                resource=OTHER if mixed and rng.random() < 0.2 else GPU,
                label=rng.choice(("", "", "fast")),
                taint=rng.choice(("", "", "", "team")),
                rack=rng.choice(("r1", "r1", "r2")) if domains else "",
                out=rng.random() < 0.35,
            )
        )
    waiting = [_waiting(rng, n, judged_by_cpu, mixed, domains) for n in range(rng.randint(1, 6))]
    running = [f"run{n}" for n in range(rng.randint(0, 2))]
    for gang in [*running, *(gang.name for gang in waiting if rng.random() < 0.3)]:
        _hold(rng, nodes, gang, next((one for one in waiting if one.name == gang), None))
    strict = {queue for queue in "ab" if rng.random() < 0.4}
    return Cluster(nodes, waiting, [gang for gang in running if any(_holds(node, gang) for node in nodes)], strict)


def _waiting(rng: Random, n: int, judged_by_cpu: bool, mixed: bool, domains: bool) -> Waiting:
    bound = domains and rng.random() < 0.5
    kinds = [_wants(rng, judged_by_cpu, mixed, bound) for _ in range(2 if mixed and rng.random() < 0.5 else 1)]
    if mixed and rng.random() < 0.3:
        kinds = [Wants(cpu=kinds[0].cpu), *kinds[:1]]  # a head without GPUs, wherever it likes
    wants = [kind for kind in dict.fromkeys(kinds) for _ in range(rng.randint(1, 2 if len(kinds) > 1 else 3))]
    return Waiting(f"g{n}", rng.choice("ab"), rng.choice((0, 0, 5)), rng.randint(0, 9), wants, rng.random() > 0.1)


def _wants(rng: Random, judged_by_cpu: bool, mixed: bool, bound: bool) -> Wants:
    return Wants(
        gpus=rng.choice((1, 2, 2, 4, 4, 8, 8)),
        cpu=rng.randint(1, 4) if judged_by_cpu else 1,
        memory=rng.randint(0, 4) if judged_by_cpu else 0,
        resource=OTHER if mixed and rng.random() < 0.15 else GPU,
        key=rng.choice(("", "", "", "fast")),
        tolerates=rng.choice(("", "team")),
        whole_node=rng.random() < 0.08,
        in_domain=bound,
    )


def _hold(rng: Random, nodes: list[Node], gang: str, waiting: Waiting | None) -> None:
    """Members that lie somewhere already, of the kind that the gang still lacks."""
    kind = waiting.wants[-1] if waiting else Wants(gpus=rng.choice((1, 2, 4, 8)), cpu=1)
    rack = rng.choice(("r1", "r2"))
    for node in rng.sample(nodes, min(2, len(nodes))):
        inside = not kind.in_domain or node.rack == rack
        shared = all(not wants.whole_node for _, wants in node.members) and not (kind.whole_node and node.members)
        if inside and shared and node.resource == kind.resource and node.whole - node.used >= kind.gpus:
            node.members.append((gang, kind))
            node.used += kind.gpus
            if rng.random() < 0.15:
                node.ending.add(gang)


def _holds(node: Node, gang: str) -> bool:
    return any(name == gang for name, _ in node.members)


# -- the same cluster in the words of the product -----------------------------------------------------------------


def a_need(wants: Wants) -> Need:
    return Need(
        wants.gpus,
        wants.cpu * 1000,
        wants.memory * 1024,
        resource=wants.resource,
        selector=(("speed", wants.key),) if wants.key else (),
        tolerations=(Toleration(wants.tolerates, "Exists", "", ""),) if wants.tolerates else (),
        whole_node=wants.whole_node,
    )


def a_room(node: Node) -> Room:
    labels = {"speed": node.label} if node.label else {}
    cordon = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
    taints = ([(node.taint, "", "NoSchedule")] if node.taint else []) + ([cordon] if node.out else [])
    return Room(
        node.name,
        gpus=((node.resource, node.gpus),),
        used=((node.resource, node.used),),
        whole=((node.resource, node.whole),),
        cpu_left=None if node.cpu is None else node.cpu * 1000,
        memory_left=None if node.memory is None else node.memory * 1024,
        cpu_used=1000 * sum(wants.cpu for _, wants in node.members),
        labels=labels | ({LEVEL: node.rack} if node.rack else {}),
        taints=(*taints, ("wish", "", "PreferNoSchedule")),
        out=Out("cordoned") if node.out else None,
    )


def a_gang(name: str, cluster: Cluster) -> Gang:
    """As counting makes it of a group and its pods; a running one lacks nothing."""
    waiting = next((gang for gang in cluster.waiting if gang.name == name), None)
    wants = waiting.wants if waiting else []
    there = [(node.name, kind, name in node.ending) for node in cluster.nodes for g, kind in node.members if g == name]
    count_of = len(wants) + sum(not ending for _, _, ending in there)
    link = f"volcano/PodGroup/train/{name}"
    roles = Counter([*wants, *(kind for _, kind, ending in there if not ending)])
    parts = tuple(
        Part(str(n), many, need=a_need(kind), topology=Topology(LEVEL, kind.in_domain))
        for n, (kind, many) in enumerate(roles.items())
    )
    role = {kind: str(n) for n, kind in enumerate(dict.fromkeys([*roles, *(kind for _, kind, _ in there)]))}
    members = [
        a_member(f"{name}-{n}", link, node=node, need=a_need(kind), role=role[kind], ending=ending)
        for n, (node, kind, ending) in enumerate(there)
    ]
    group = an_object(
        "volcano",
        name,
        minimum=count_of,
        wanted=count_of,
        parts=parts,
        queue=waiting.queue if waiting else "",
        priority=waiting.priority if waiting else 0,
        created_at=later(waiting.age if waiting else 0),
    )
    (joined,) = join([group], members).values()
    return count(joined)


@dataclass
class Scene:
    starter: Starter
    space: Space
    gangs: dict[str, Gang]
    turns: list[Turn]


def a_scene(cluster: Cluster) -> Scene:
    rooms = Rooms(a_room(node) for node in cluster.nodes)
    names = [*(gang.name for gang in cluster.waiting), *cluster.running]
    gangs = {name: a_gang(name, cluster) for name in names}
    queues = {name: QueueObject(Ref("volcano", "Queue", "", name), head_blocks=True) for name in cluster.strict}
    later_on = {gang.name for gang in cluster.waiting if not gang.by_room}
    line = [replace(turn, by_room=turn.gang.name not in later_on) for turn in turns(gangs.values(), queues)]
    return Scene(Starter(rooms), Space.now(rooms), gangs, line)


def names_of(keys: tuple[str, ...]) -> list[str]:
    return [key.rpartition("/")[2] for key in keys]


def difference(cluster: Cluster, then: brute.World, waiting: list[Waiting]) -> tuple[list[str], list[str]]:
    held, now = cluster.held, brute.world(cluster.nodes)
    before = brute.starts(cluster.nodes, now, waiting, cluster.strict, held)
    after = brute.starts(cluster.nodes, then, waiting, cluster.strict, held)
    return [name for name in after if name not in before], [name for name in before if name not in after]


def some(rng: Random, nodes: list[Node], *, out: bool) -> list[str]:
    names = [node.name for node in nodes if not out or node.out or node.gpus < node.whole]
    return sorted(rng.sample(names, min(len(names), rng.randint(1, 2))))


# -- held against each other --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_a_what_if_says_what_trying_every_way_says(first: int) -> None:
    told = 0
    for seed in range(first, first + AT_ONCE):
        cluster, rng = drawn(seed), Random(-1 - seed)
        scene = a_scene(cluster)
        assert [turn.gang.name for turn in scene.turns] == [gang.name for gang in brute.line(cluster.waiting)], seed
        told += agree_on_returns(cluster, scene, some(rng, cluster.nodes, out=True), seed)
        told += agree_on_drains(cluster, scene, some(rng, cluster.nodes, out=False), seed)
        told += agree_on_suspensions(cluster, scene, seed)
    assert told > AT_ONCE / 4  # the drawn clusters have something to tell


def agree_on_returns(cluster: Cluster, scene: Scene, nodes: list[str], seed: int) -> bool:
    found = returning(scene.starter, scene.space, scene.turns, nodes)
    expected = difference(cluster, brute.world(cluster.nodes, back=nodes), cluster.waiting)
    assert (names_of(found.starts), names_of(found.no_longer)) == expected, (seed, "return", nodes)
    return bool(expected[0])


def agree_on_drains(cluster: Cluster, scene: Scene, nodes: list[str], seed: int) -> bool:
    found = draining(scene.starter, scene.space, scene.turns, scene.gangs.values(), nodes)
    rest = brute.world(cluster.nodes, gone=nodes)
    expected = difference(cluster, rest, cluster.waiting)
    assert (names_of(found.starts), names_of(found.no_longer)) == expected, (seed, "drain", nodes)
    broken = {one.key.rpartition("/")[2]: (one.loses, one.left, one.again) for one in found.broken}
    assert broken == dict(broken_by(cluster, rest, nodes)), (seed, "drain", nodes)
    return bool(broken)


def broken_by(cluster: Cluster, rest: brute.World, gone: list[str]) -> Iterator[tuple[str, tuple[int, int, bool]]]:
    """Who loses members, how many are left, and whether what is lacking then has room elsewhere."""
    for name in {gang for node in cluster.nodes if node.name in gone for gang, _ in node.members}:
        lost = [wants for node in cluster.nodes if node.name in gone for wants in node.counted(name)]
        left = [node for node in cluster.nodes if node.name not in gone for _ in node.counted(name)]
        waits = next((gang for gang in cluster.waiting if gang.name == name), Waiting(name, "", 0, 0, []))
        held = {node.rack for node in left if any(wants.in_domain for wants in node.counted(name))}
        asks = replace(waits, wants=[*lost, *waits.wants])
        yield name, (len(lost), len(left), brute.exists(cluster.nodes, rest, [asks], {name: held}))


def agree_on_suspensions(cluster: Cluster, scene: Scene, seed: int) -> bool:
    holding = sorted({gang for node in cluster.nodes for gang, _ in node.members})
    for name in holding:
        found = suspending(scene.starter, scene.space, scene.turns, scene.gangs[name])
        others = [gang for gang in cluster.waiting if gang.name != name]
        expected = difference(cluster, brute.world(cluster.nodes, without=name), others)
        assert (names_of(found.starts), names_of(found.no_longer)) == expected, (seed, "suspend", name)
    return bool(holding)


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_the_nodes_to_blame_are_enough_and_of_one_kind_the_fewest(first: int) -> None:
    blamed = 0
    for seed in range(first, first + AT_ONCE):
        cluster = drawn(seed)
        scene, held = a_scene(cluster), cluster.held
        for waits in cluster.waiting:
            gang = scene.gangs[waits.name]
            if scene.starter.could(gang, scene.space):
                assert brute.exists(cluster.nodes, brute.world(cluster.nodes), [waits], held), seed
                continue
            found = [blocker.node for blocker in blockers(scene.starter, gang, scene.space)]
            sick = [node.name for node in cluster.nodes if node.out or node.gpus < node.whole]
            fewest = next(
                (n for n in range(len(sick) + 1) if any(does(cluster, waits, back) for back in combinations(sick, n))),
                None,
            )
            assert not found or does(cluster, waits, found), (seed, waits.name, found)
            if len(set(waits.wants)) == 1:
                assert len(found) == (fewest or 0), (seed, waits.name, found, fewest)
            else:
                assert bool(found) == bool(fewest), (seed, waits.name)
                assert not any(does(cluster, waits, [n for n in found if n != name]) for name in found), seed
            blamed += bool(found)
    assert blamed > AT_ONCE / 10


def does(cluster: Cluster, waits: Waiting, back: list[str] | tuple[str, ...]) -> bool:
    return brute.exists(cluster.nodes, brute.world(cluster.nodes, back=list(back)), [waits], cluster.held)
