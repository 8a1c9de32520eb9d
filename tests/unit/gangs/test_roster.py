"""What a change touches: a roster that is fed event by event says the same as one that is built anew."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fleet.gangs.counting import count
from fleet.gangs.joining import join
from fleet.gangs.roster import Roster
from fleet.ports.gangs import GangObject, Member, Reading, Spoken
from tests.builders import T0
from tests.gang_builders import a_member, an_object, link_to, members_of

LINKS = [link_to("volcano", name) for name in ("a", "b")]
NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])


class ARosterFollows(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.roster = Roster()
        self.objects: dict[str, GangObject] = {}
        self.members: dict[str, Member] = {}

    @rule(name=st.sampled_from(["a", "b"]), minimum=st.integers(0, 3), system=st.sampled_from(["volcano", "jobset"]))
    def object_comes(self, name: str, minimum: int, system: str) -> None:
        owners = (self.objects[f"jobset/{name}"].ref.uid,) if f"jobset/{name}" in self.objects else ()
        made = an_object(system, name, minimum=minimum, owners=owners if system == "volcano" else ())  # type: ignore[arg-type]
        self.objects[f"{system}/{name}"] = made
        self.roster.speak(system, Spoken(name, (made,)))

    @rule(name=st.sampled_from(["a", "b"]), system=st.sampled_from(["volcano", "jobset"]))
    def object_goes(self, name: str, system: str) -> None:
        self.objects.pop(f"{system}/{name}", None)
        self.roster.silence(system, name)

    @rule(name=NAMES, link=st.sampled_from([*LINKS, ""]), node=st.sampled_from(["", "n1"]), done=st.booleans())
    def member_comes(self, name: str, link: str, node: str, done: bool) -> None:
        member = a_member(name, *([link] if link else []), node=node, state="ended" if done else None, done=done)
        self.members[member.key] = member
        self.roster.member(member)

    @rule(name=NAMES)
    def member_goes(self, name: str) -> None:
        self.members.pop(f"train/{name}", None)
        self.roster.leave(f"train/{name}")

    @invariant()
    def it_says_the_same_as_one_built_anew(self) -> None:
        anew = {key: count(joined) for key, joined in join(self.objects.values(), self.members.values()).items()}
        told = dict(self.roster.gangs())
        assert {key: _loose(gang) for key, gang in told.items()} == {key: _loose(gang) for key, gang in anew.items()}
        used = sum(used.devices.total() for used in self.roster.used.values())
        assert used == sum(m.need.gpus for m in self.members.values() if m.node and not m.done)


def _loose(gang: object) -> object:
    """Members and objects in any order."""
    return {
        name: frozenset(value) if isinstance(value := getattr(gang, name), tuple) else value
        for name in gang.__slots__  # type: ignore[attr-defined]
    }


ARosterFollows.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestARosterFollows = ARosterFollows.TestCase


def test_a_pod_that_starts_leaves_the_other_gangs_as_they_were() -> None:
    roster = Roster()
    for link in LINKS:
        roster.speak("volcano", Spoken(link, (an_object("volcano", link[-1], minimum=2),)))
        for member in members_of(link, 1, 1):
            roster.member(member)
    before = dict(roster.gangs())
    roster.member(a_member("a-1", LINKS[0], node="gpu-7"))
    after = roster.gangs()
    assert after[LINKS[1]] is before[LINKS[1]]
    assert (before[LINKS[0]].state, after[LINKS[0]].state) == ("partial", "running")


def test_what_a_polled_system_does_not_say_any_more_is_gone() -> None:
    roster = Roster()
    job = an_object("slurm", "41", wanted=1)
    rank = a_member("41/0", job.ref.key, node="gpu-1")
    roster.reading(Reading(T0, (job,), (rank,)), "slurm")
    assert list(roster.gangs()) == [job.ref.key]
    roster.reading(Reading(T0), "slurm")
    assert not roster.gangs()
    assert not roster.used["gpu-1"].devices.total()


def test_a_full_list_of_one_kind_settles_only_that_kind() -> None:
    roster = Roster()
    roster.speak("volcano", Spoken("train/a", (an_object("volcano", "a"),)))
    roster.speak("jobset", Spoken("train/a", (an_object("jobset", "a"),)))
    roster.keep_only("volcano", frozenset())
    assert [one.ref.system for one in roster.objects()] == ["jobset"]


def test_pods_that_ended_well_hold_no_room_and_make_no_gang_of_their_own() -> None:
    roster = Roster()
    for member in members_of(LINKS[0], 2, state="ended", done=True):
        roster.member(member)
    assert (dict(roster.gangs()), roster.used) == ({}, {})
    roster.speak("volcano", Spoken("a", (an_object("volcano", "a", minimum=3),)))
    roster.member(a_member("last", LINKS[0], node="n1"))
    (gang,) = roster.gangs().values()
    assert (gang.state, gang.minimum, set(roster.used)) == ("running", 1, {"n1"})
    roster.silence("volcano", "a")
    roster.leave("train/last")
    assert dict(roster.gangs()) == {}
