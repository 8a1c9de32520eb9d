"""Everything that speaks of gangs in one cluster, in memory: objects by kind, members, what pods use of each node.

Decides what a change touches, so that a pod that starts costs its own gang and not two thousand. Members that name the
same objects are looked up together. Refuses to judge, and to read a clock. Fed by the watches and the polls, one thread
at a time (its user holds the lock).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fleet.gangs.counting import count
from fleet.gangs.form import Gang
from fleet.gangs.joining import Joined, Naming, ObjectBook, assign, joins, naming_of
from fleet.ports.gangs import Domain, GangObject, Member, Offer, QueueObject, Reading, Said, Spoken

SLURMD = "NodeSet/"  # how the owner of a pod begins that is a node of Slurm
SaidOf = tuple[tuple[str, Said], ...]


@dataclass(slots=True)
class Used:
    """What living pods ask of one node, CPU in thousandths of a core, memory in MiB."""

    devices: Counter[str] = field(default_factory=Counter)
    lent: Counter[str] = field(default_factory=Counter)  # of `devices`: what pods have that are nodes of Slurm (Slinky)
    cpu_millis: int = 0
    memory_mib: int = 0

    def add(self, member: Member, sign: int) -> None:
        need = member.need
        if need.gpus:
            self.devices[need.resource] += sign * need.gpus
            if member.owner.startswith(SLURMD):
                self.lent[need.resource] += sign * need.gpus
        self.cpu_millis += sign * need.cpu_millis
        self.memory_mib += sign * need.memory_mib


class Roster:
    def __init__(self) -> None:
        self._spoken: dict[str, dict[str, Spoken]] = {}  # source (a kind or a polled system) -> by its own key
        self._of_members: dict[str, Said] = {}  # what objects say of members, by the member's key
        self._positions: dict[str, tuple[tuple[str, int], ...]] = {}  # by source: places of others' objects
        self._members: dict[str, tuple[str, Member]] = {}  # key -> (source, member)
        self._alike: dict[Naming, dict[str, Member]] = {}
        self._book: ObjectBook | None = None
        self._joined: dict[str, Joined] = {}
        self._gangs: dict[str, Gang] = {}
        self._home: dict[Naming, str] = {}
        self._namings: dict[str, list[Naming]] = {}
        self._touched: set[Naming] = set()
        self._renewed = False  # objects say something new, and join what they joined
        self._starved: frozenset[str] = frozenset()
        self.used: dict[str, Used] = {}
        self.offers: dict[str, tuple[Offer, ...]] = {}
        self.changed_nodes: set[str] = set()  # whose use changed; the reader empties it

    # -- what the watches and polls tell -------------------------------------------------------------------------

    def speak(self, source: str, spoken: Spoken) -> None:
        old = self._spoken.setdefault(source, {}).get(spoken.key)
        if old == spoken:
            return
        self._spoken[source][spoken.key] = spoken
        self._say_of_members(() if old is None else old.of_members, spoken.of_members)
        before = () if old is None else old.objects
        if before == spoken.objects:
            return  # a queue alone: it joins nothing
        if self._book is not None and [joins(one) for one in before] == [joins(one) for one in spoken.objects]:
            self._book.renew(spoken.objects)
            self._renewed = True
        else:
            self._book = None

    def silence(self, source: str, key: str) -> None:
        gone = self._spoken.get(source, {}).pop(key, None)
        if gone is not None:
            self._say_of_members(gone.of_members, ())
            if gone.objects:
                self._book = None

    def keep_only(self, source: str, names: frozenset[str]) -> None:
        """After a full list: what is not in it is gone."""
        for key in [key for key in self._spoken.get(source, {}) if key not in names]:
            self.silence(source, key)

    def member(self, member: Member, source: str = "pods") -> None:
        old = self._members.get(member.key)
        if old is not None and old[1] == member:
            return
        self.leave(member.key)
        if member.state == "ended" and not (member.done and member.links):
            return  # of those that ended well the gang they name is told: they are not waited for
        self._members[member.key] = source, member
        self._place(member)
        if member.node and not member.done:
            self.used.setdefault(member.node, Used()).add(member, 1)
            self.changed_nodes.add(member.node)

    def _place(self, member: Member) -> None:
        naming, said = naming_of(member), self._of_members.get(member.key)
        told = member if said is None or member.node else replace(member, waits=said)
        self._alike.setdefault(naming, {})[member.key] = told
        self._touched.add(naming)

    def _say_of_members(self, before: SaidOf, now: SaidOf) -> None:
        for key, _ in before:
            self._of_members.pop(key, None)
        self._of_members.update(now)
        for key in {key for key, _ in (*before, *now)} & self._members.keys():
            self._place(self._members[key][1])

    def leave(self, key: str) -> None:
        old = self._members.pop(key, None)
        if old is not None:
            self._remove(old[1])

    def members_only(self, names: frozenset[str], source: str = "pods") -> None:
        for key in [key for key, (told_by, _) in self._members.items() if told_by == source and key not in names]:
            self.leave(key)

    def reading(self, reading: Reading, source: str) -> None:
        """All that a polled system says: what it does not say any more is gone."""
        spoken = [Spoken(one.ref.key, (one,)) for one in reading.objects]
        spoken += [Spoken(one.ref.key, queues=(one,)) for one in reading.queues]
        for one in spoken:
            self.speak(source, one)
        self.keep_only(source, frozenset(one.key for one in spoken))
        for member in reading.members:
            self.member(member, source)
        self.members_only(frozenset(member.key for member in reading.members), source)
        self.offers[source] = reading.offers
        if self._positions.get(source, ()) != reading.positions:
            self._positions[source] = reading.positions
            self._book = None

    def starved(self, keys: Iterable[str]) -> None:
        """Gangs that wait although their members are placed (a pending placement group inside them)."""
        now = frozenset(keys)
        for key in now ^ self._starved:
            self._gangs.pop(key, None)
        self._starved = now

    def _remove(self, member: Member) -> None:
        naming = naming_of(member)
        self._alike[naming].pop(member.key)
        if not self._alike[naming]:
            del self._alike[naming]
        self._touched.add(naming)
        if member.node and not member.done and (used := self.used.get(member.node)) is not None:
            used.add(member, -1)
            self.changed_nodes.add(member.node)

    # -- what follows from it ------------------------------------------------------------------------------------

    def queues(self) -> list[QueueObject]:
        return [queue for by_key in self._spoken.values() for one in by_key.values() for queue in one.queues]

    def domains(self) -> tuple[Domain, ...]:
        return tuple(domain for by_key in self._spoken.values() for one in by_key.values() for domain in one.domains)

    def objects(self) -> list[GangObject]:
        found = [thing for by_key in self._spoken.values() for one in by_key.values() for thing in one.objects]
        places = {key: place for told in self._positions.values() for key, place in told}
        if not places:
            return found
        return [replace(one, position=places[one.ref.key]) if one.ref.key in places else one for one in found]

    def gangs(self) -> Mapping[str, Gang]:
        """Every gang in its normal form; only what changed since the last call is counted anew."""
        if self._book is None:
            self._rejoin(ObjectBook(self.objects()))
        elif self._renewed or any((naming in self._home) != (naming in self._alike) for naming in self._touched):
            self._rejoin(self._book)
        elif self._touched:
            self._regroup()
        for key in [key for key in self._gangs if key not in self._joined]:
            del self._gangs[key]
        for key, joined in self._joined.items():
            if key not in self._gangs and not joined.gone:
                self._gangs[key] = count(joined, key in self._starved)
        return self._gangs

    def _rejoin(self, book: ObjectBook) -> None:
        """Objects or namings changed: place all again, and keep the counts of gangs in which nothing differs."""
        before, touched = self._joined, self._touched
        self._book, self._touched, self._renewed = book, set(), False
        self._joined, self._home = assign(book, self._alike)
        self._namings = {}
        for naming, key in self._home.items():
            self._namings.setdefault(key, []).append(naming)
        changed = {self._home.get(naming) for naming in touched}
        for key, joined in self._joined.items():
            old = before.get(key)
            same = old is not None and old.objects == joined.objects and old.members == joined.members
            if key in changed or not same:
                self._gangs.pop(key, None)

    def _regroup(self) -> None:
        """Only members of known namings changed: their gangs alone."""
        for key in {self._home[naming] for naming in self._touched} - {""}:
            self._joined[key].members = [m for naming in self._namings[key] for m in self._alike[naming].values()]
            self._gangs.pop(key, None)
        self._touched = set()
