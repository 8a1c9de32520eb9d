"""The pure core as a whole, without a database: plans, states, limits, breaker, windows, votes and the ladder.

A model fleet asks, is granted, acts, fails and is interfered with. Everything that decides is the product's; everything
that counts whether it decided rightly is written here anew, from sets of nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta

from fleet.lifecycle.ladder import Effect, first_rung, next_rung
from fleet.lifecycle.machine import OUT_STATES, NodeState, check_node_edge
from fleet.lifecycle.playbooks import (
    CLAIMS,
    DISRUPTIVE,
    DRAIN,
    HOLD,
    RETURN,
    SOAK,
    VALIDATE,
    Case,
    PlannedStep,
    faults_of,
    plan_for,
    remedy_index,
)
from fleet.lifecycle.shelf import Shelf
from fleet.policy import windows
from fleet.policy.approvals import Ask, Vote, answer, may_vote, plan_hash
from fleet.policy.breaker import Counts, TripRule, trips
from fleet.policy.rules import (
    FLEET,
    FLOOR,
    IN_FLIGHT,
    RATE,
    TAKE_OUT,
    CapRule,
    Decision,
    Place,
    ScopeKey,
    Tally,
    decide,
)

NOW = datetime(2026, 11, 30, 3, tzinfo=UTC)
BOOK = Shelf("").book()
NODES = 10
STATE_OF = {
    HOLD: NodeState.HELD,
    DRAIN: NodeState.DRAINING,
    VALIDATE: NodeState.VALIDATING,
    SOAK: NodeState.SOAKING,
    RETURN: NodeState.IN_SERVICE,
}
RULE = TripRule(percent=10, least=5, window=300, failed=4, failed_percent=50, failed_window=900)


class Violation(AssertionError):
    """An invariant of the core does not hold."""


@dataclass(slots=True)
class Work:
    """One workflow of the model."""

    plan: list[dict[str, object]]
    attempts: int
    began: datetime
    step: int = 0
    attempt: int = 1
    granted: bool = False
    ask: Ask | None = None
    votes: list[Vote] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    proved: set[str] = field(default_factory=set)

    @property
    def verb(self) -> str:
        return str(self.plan[self.step]["verb"])


@dataclass(slots=True)
class Spot:
    """One node of the model."""

    place: Place
    state: NodeState = NodeState.IN_SERVICE
    cordoned: bool = False
    unknown: bool = False
    work: Work | None = None
    claims: set[str] = field(default_factory=set)


def _scopes(number: int) -> tuple[ScopeKey, ...]:
    return (
        FLEET,
        ("cluster", "c", "c"),
        ("rack", "c", f"r{number // 4}"),
        ("leaf", "c", f"l{number // 6}"),
        *((("tenant", "c", "vision"),) if number % 3 == 0 else ()),
    )


class Model:
    """Every operation is possible at every moment. Raises Violation, or whatever the core raises."""

    def __init__(self) -> None:
        self.now = NOW
        self.spots = [Spot(Place(n, f"n{n}", _scopes(n))) for n in range(NODES)]
        self.caps = [
            CapRule("hold", "fleet", 8, 60.0),
            CapRule("take_out", "rack", 2, None),
            CapRule("take_out", "fleet", None, 45.0),
            CapRule(IN_FLIGHT, "rack", 1, None),
            CapRule(IN_FLIGHT, "leaf", None, 34.0),
            CapRule(IN_FLIGHT, "fleet", 3, None),
            CapRule(RATE, "fleet", 4, None, 1800.0),
            CapRule(FLOOR, "tenant", None, 50.0),
        ]
        self.begun: list[tuple[int, datetime]] = []
        self.held_at: list[tuple[int, datetime]] = []
        self.ended: list[tuple[datetime, bool]] = []
        self.effects: dict[str, Effect] = {}
        self.stopped = self.open = self.half_open = False
        self.known = NOW - timedelta(days=1)
        self.frozen: windows.Window | None = None
        self.granted = 0

    # -- the world --------------------------------------------------------------------------------------------------

    def fault(self, number: int, action: str, approval: bool) -> None:
        spot = self.spots[number]
        if spot.work is not None or spot.state not in (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED):
            return
        chosen = plan_for(Case(action), BOOK)
        if not chosen.playbook:
            return
        if told := faults_of(chosen.steps, ("bare_metal",)):
            raise Violation(f"{chosen.playbook}: {told}")
        work = Work(chosen.as_json(), chosen.attempts, self.now)
        index = remedy_index(work.plan)
        if index is not None and work.plan[index].get("ladder"):
            rungs = list(work.plan[index]["ladder"])  # type: ignore[call-overload]
            work.plan[index]["verb"] = first_rung(rungs, self.effects)
        if approval:
            work.ask = Ask(self._hash(work), "ann", 1, self.now + timedelta(minutes=30))
        spot.work = work

    def time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def cordon(self, number: int, on: bool) -> None:
        self.spots[number].cordoned = on

    def unknown(self, number: int, on: bool) -> None:
        self.spots[number].unknown = on

    def empty(self, number: int, serves: bool) -> None:
        self.spots[number].place = replace(self.spots[number].place, serves=serves)

    def cap(self, index: int, most: int) -> None:
        index %= len(self.caps)
        self.caps[index] = replace(self.caps[index], absolute=most)

    def stop(self, on: bool) -> None:
        self.stopped = on

    def freeze(self, on: bool, minutes: int) -> None:
        start = self.now - timedelta(minutes=1)
        daily = frozenset(range(1, 8))
        self.frozen = (
            windows.Window(windows.FREEZE, "works", "UTC", daily, time(start.hour, start.minute), minutes)
            if on
            else None
        )

    def close_breaker(self) -> None:
        if self.open:
            self.open, self.half_open, self.known = False, True, self.now

    # -- people -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _hash(work: Work) -> str:
        steps = [{**step, "verb": step["ladder"][0]} if step.get("ladder") else step for step in work.plan]  # type: ignore[index]
        return plan_hash({"steps": steps})

    def vote(self, number: int, person: str, yes: bool) -> None:
        work = self.spots[number].work
        if work is None or work.ask is None:
            return
        if not may_vote(work.ask, work.votes, person, self._hash(work), self.now):
            work.votes.append(Vote(person, yes))

    def edit(self, number: int) -> None:
        work = self.spots[number].work
        if work is not None:
            work.plan[-1] = {**work.plan[-1], "deadline": 60 + work.step}

    def abort(self, number: int) -> None:
        spot = self.spots[number]
        if spot.work is not None and spot.work.verb not in DISRUPTIVE:
            self._end(spot, NodeState.RELEASED if spot.state != NodeState.IN_SERVICE else spot.state)

    # -- grants: as the engine puts the pure parts together ------------------------------------------------------------

    def tally(self) -> Tally:
        sizes: dict[ScopeKey, int] = {}
        for spot in self.spots:
            for key in spot.place.scopes:
                sizes[key] = sizes.get(key, 0) + 1
        tally = Tally(sizes)
        for spot in self.spots:
            for kind in spot.claims:
                tally.add(kind, spot.place)
            if self.is_out(spot):
                tally.add(TAKE_OUT, spot.place)
        for node, at in self.begun:
            tally.begin(self.spots[node].place, at)
        return tally

    @staticmethod
    def is_out(spot: Spot) -> bool:
        return spot.cordoned or spot.unknown or spot.state in OUT_STATES

    def grant(self) -> None:
        """Answer everybody who asks."""
        asking = [spot for spot in self.spots if spot.work and not spot.work.granted and spot.work.verb in CLAIMS]
        asking.sort(key=lambda spot: (-(spot.work.step if spot.work else 0), spot.place.node_id))
        self._look(asking)
        tally = self.tally()
        caps = list(self.caps)
        if self.half_open:
            caps = [CapRule(TAKE_OUT, "cluster", 1, None), CapRule(IN_FLIGHT, "cluster", 1, None), *caps]
        for spot in asking:
            work = spot.work
            assert work is not None
            kind = CLAIMS[work.verb]
            decision = self._decide(spot, work, kind, caps, tally)
            if decision.allowed:
                self.judge(spot, kind, caps)
                spot.claims.add(kind)
                tally.add(kind, spot.place)
                work.granted = True
                self.granted += 1
                if kind == "hold":
                    self.held_at.append((spot.place.node_id, self.now))
                if kind == IN_FLIGHT:
                    self.begun.append((spot.place.node_id, self.now))
                    tally.begin(spot.place, self.now)
            elif not (decision.code and decision.text):
                raise Violation("blocked without a reason")

    def _decide(self, spot: Spot, work: Work, kind: str, caps: list[CapRule], tally: Tally) -> Decision:
        if self.stopped or self.open:
            return Decision("stopped", "Stopped.")
        if work.ask is not None:
            said = answer(work.ask, work.votes, self._hash(work), self.now)
            if not said.allowed:
                return said
        if kind != "hold" and self.frozen is not None:
            said = windows.decide([self.frozen], "", False, self.now)
            if not said.allowed:
                return said
        return decide(kind, spot.place, caps, tally, self.now)

    def _look(self, asking: list[Spot]) -> None:
        held = {node for node, at in self.held_at if at > max(self.known, self.now - timedelta(seconds=RULE.window))}
        more = {s.place.node_id for s in asking if s.work and s.work.verb == HOLD and s.work.began > self.known} - held
        recent = [bad for at, bad in self.ended if at > max(self.known, self.now - timedelta(seconds=900))]
        if trips(RULE, Counts(NODES, len(held), len(recent), sum(recent)), len(more)):
            self.open = True

    # -- steps --------------------------------------------------------------------------------------------------------

    def act(self, number: int, works: bool, again: bool = False) -> None:
        """The current step ends, well or in vain; `again` is a message that came twice or late."""
        spot = self.spots[number]
        work = spot.work
        if work is None or (work.verb in CLAIMS and not work.granted) or again:
            return
        verb = work.verb
        if verb in DISRUPTIVE:
            self._move(spot, NodeState.REMEDIATING)
            work.proved -= {VALIDATE, SOAK}
        elif verb in STATE_OF and verb != RETURN:
            self._move(spot, STATE_OF[verb])
        if not works and verb not in (HOLD, DRAIN, RETURN):
            self._failed(spot, work)
            return
        if verb == DRAIN:
            self._move(spot, NodeState.DRAINED)
        if verb == "wait_repair":
            self._move(spot, NodeState.AWAITING_REPAIR)
        work.proved.add(verb)
        if CLAIMS.get(verb) == IN_FLIGHT:
            spot.claims.discard(IN_FLIGHT)
            self.ended.append((self.now, False))
        if verb == RETURN:
            self._return(spot, work)
            return
        work.step, work.granted = work.step + 1, False

    def _return(self, spot: Spot, work: Work) -> None:
        if not {VALIDATE, SOAK} <= work.proved:
            raise Violation(f"{spot.place.name} returned without { ({VALIDATE, SOAK} - work.proved) }")
        self._end(spot, NodeState.IN_SERVICE)
        self.half_open = False

    def _failed(self, spot: Spot, work: Work) -> None:
        spot.claims.discard(IN_FLIGHT)
        self.ended.append((self.now, True))
        planned = PlannedStep.of(work.plan[work.step])
        index = remedy_index(work.plan)
        if planned.on_failure == "next" and index is not None and work.step >= index and work.attempt < work.attempts:
            remedy = work.plan[index]
            rungs = list(remedy.get("ladder") or [])  # type: ignore[call-overload]
            before = str(remedy["verb"])
            work.tried.append(before)
            known = self.effects.get(before, Effect(0, 0))
            self.effects[before] = Effect(known.tries + 1, known.held)
            if rungs:
                after = next_rung(rungs, before, self.effects)
                if rungs.index(after) < rungs.index(before):
                    raise Violation(f"the ladder went down from {before} to {after}")
                remedy["verb"] = after
            work.step, work.attempt, work.granted = index, work.attempt + 1, False
            self._move(spot, NodeState.DRAINED)
            if work.attempt > work.attempts:
                raise Violation("more attempts than the playbook allows")
            return
        verbs = [str(step["verb"]) for step in work.plan]
        self._move(spot, NodeState.AWAITING_REPAIR)
        self._move(spot, NodeState.VALIDATING)
        work.step, work.granted = verbs.index(VALIDATE), False
        work.proved -= {VALIDATE, SOAK}

    def _move(self, spot: Spot, state: NodeState) -> None:
        if spot.state != state:
            check_node_edge(spot.state, state)
            spot.state = state

    def _end(self, spot: Spot, state: NodeState) -> None:
        self._move(spot, state)
        spot.work = None
        spot.claims.clear()

    # -- counting anew ----------------------------------------------------------------------------------------------

    def judge(self, spot: Spot, kind: str, caps: list[CapRule]) -> None:
        """Called before a claim is written."""
        if self.stopped or self.open:
            raise Violation(f"{kind} was granted while everything is stopped")
        work = spot.work
        assert work is not None
        if work.ask is not None:
            others = {vote.by for vote in work.votes if vote.yes} - {"ann"}
            if not others or any(not vote.yes for vote in work.votes) or work.ask.plan_hash != self._hash(work):
                raise Violation(f"{kind} was granted without another person's yes on this plan")
        if kind == TAKE_OUT and not spot.place.serves:
            return
        for cap in caps:
            for key in spot.place.scopes:
                if key[0] == cap.scope:
                    self._count(cap, kind, key, spot)

    def _count(self, cap: CapRule, kind: str, key: ScopeKey, spot: Spot) -> None:
        inside = [other for other in self.spots if key in other.place.scopes]
        out = {o.place.node_id for o in inside if TAKE_OUT in o.claims or self.is_out(o)} | {spot.place.node_id}
        if cap.kind == FLOOR and kind == TAKE_OUT:
            least = max(cap.absolute or 0, math.ceil(len(inside) * (cap.percent or 0) / 100))
            if len(inside) - len(out) < least:
                raise Violation(f"{len(inside) - len(out)} of {least} stay in {key}")
        if cap.kind == RATE and kind == IN_FLIGHT:
            span = timedelta(seconds=cap.window or 3600)
            if sum(at > self.now - span for _, at in self.begun) + 1 > max(1, cap.absolute or 0):
                raise Violation("more disruptive verbs begun than the rate allows")
        if cap.kind != kind:
            return
        mine = out if kind == TAKE_OUT else {o.place.node_id for o in inside if kind in o.claims} | {spot.place.node_id}
        parts = [n for n in (cap.absolute, self._share(cap.percent, len(inside))) if n is not None]
        if parts and len(mine) > max(1, min(parts)):
            raise Violation(f"{kind}: {len(mine)} in {key}, {min(parts)} may")

    @staticmethod
    def _share(percent: float | None, size: int) -> int | None:
        return None if percent is None else int(size * percent / 100)

    def look(self) -> None:
        for spot in self.spots:
            if spot.claims and spot.work is None:
                raise Violation(f"a claim outlived its workflow on {spot.place.name}")
            if spot.state == NodeState.IN_SERVICE and spot.work is not None and spot.work.verb in DISRUPTIVE:
                raise Violation(f"{spot.place.name} is in service while it is disrupted")
