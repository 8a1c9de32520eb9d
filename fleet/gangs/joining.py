"""Which objects speak of one gang, and which members are its.

Decides by owner references and names alone: a scheduler's group is a gang; where no scheduler groups, the object
nearest to the pods is (a RayCluster, not its RayJob); what admits (Kueue's Workload) belongs to every gang of the
job that it admits. Pods without any object are grouped by who made them. Refuses to guess from name prefixes, and to
drop a member because its object is not there: such a gang is shown, and its object is said to be missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleet.ports.gangs import GangObject, Member, key_of

ADMITTING = frozenset({"kueue"})
NO_GANG = frozenset({"DaemonSet", "Node"})  # makers whose pods never wait for each other


@dataclass(slots=True)
class Joined:
    """One gang before it is counted: its objects, the anchor first, and its members."""

    key: str
    objects: tuple[GangObject, ...]
    members: list[Member] = field(default_factory=list)

    @property
    def gone(self) -> bool:
        """Of its objects none is there, and all of its members ended well."""
        return not self.objects and all(member.done for member in self.members)


Naming = tuple[tuple[str, ...], str, str]  # links, owner's UID, owner: members alike in these are of one gang
Alike = Mapping[Naming, Mapping[str, Member]]


def join(objects: Iterable[GangObject], members: Iterable[Member]) -> dict[str, Joined]:
    """Gangs by key. Linear in objects and members; for a cluster that changes see `fleet.gangs.roster`."""
    alike: dict[Naming, dict[str, Member]] = defaultdict(dict)
    for member in members:
        alike[naming_of(member)][member.key] = member
    return {key: one for key, one in assign(ObjectBook(objects), alike)[0].items() if not one.gone}


def naming_of(member: Member) -> Naming:
    """Bare pods that name nothing are each their own."""
    return member.links, member.owner_uid, member.key if member.alone else member.owner or member.key


def assign(book: ObjectBook, alike: Alike) -> tuple[dict[str, Joined], dict[Naming, str]]:
    """Gangs by key, and the key for each naming ("" for pods that are nobody's)."""
    found = {key: Joined(key, book.spoken_of(key)) for key in book.anchors}
    home: dict[Naming, str] = {}
    also: dict[str, str] = {}  # an object that members name besides -> their gang
    for naming, members in alike.items():
        key = home[naming] = book.gang_of(next(iter(members.values())))
        if not key:
            continue
        gang = found.get(key)
        if gang is None:
            gang = found[key] = Joined(key, ())
        gang.members.extend(members.values())
        for link in naming[0]:
            if link != key and link in found:
                also.setdefault(link, key)
    for link, key in also.items():
        if link in found and not found[link].members and key in found:
            _give(found.pop(link), found[key])
    return found, home


def _give(empty: Joined, gang: Joined) -> None:
    """No reference joins these objects, but the pods name both: they speak of the same gang."""
    gang.objects = tuple(dict.fromkeys((*gang.objects, *empty.objects)))


def joins(one: GangObject) -> tuple[object, ...]:
    """All of an object that decides what it is joined with."""
    return one.ref, one.places, one.owners, one.links, one.ref.system in ADMITTING and one.finished


class ObjectBook:
    """The objects of a cluster joined; looked up for each member. Built anew when an object comes, goes or moves."""

    def __init__(self, objects: Iterable[GangObject]) -> None:
        self.by_key = {one.ref.key: one for one in objects}
        by_uid = {one.ref.uid: one.ref.key for one in self.by_key.values() if one.ref.uid}
        self._made_for = self._unread(by_uid)
        self._above = {key: self._parents(one, by_uid) for key, one in self.by_key.items()}
        below = _turned(self._above)
        self._admits: dict[str, list[str]] = defaultdict(list)  # what is admitted -> the admitting objects
        for key, one in self.by_key.items():
            if one.ref.system in ADMITTING:
                for parent in self._above[key]:
                    self._admits[parent].append(key)
        self.anchors = self._anchors(below)
        self._by_uid = by_uid
        self._gangs: dict[str, list[str]] = defaultdict(list)  # object -> the gangs it speaks of
        self._spoken: dict[str, tuple[GangObject, ...]] = {}
        for anchor in self.anchors:
            keys = self._closure(anchor)
            self._spoken[anchor] = tuple(self.by_key[key] for key in keys)
            for key in keys:
                self._gangs[key].append(anchor)

    def renew(self, objects: Iterable[GangObject]) -> None:
        """Objects that are in it and join what they joined (`joins`), with what they say now."""
        objects = list(objects)
        self.by_key.update((one.ref.key, one) for one in objects)
        for anchor in {anchor for one in objects for anchor in self._gangs.get(one.ref.key, ())}:
            self._spoken[anchor] = tuple(self.by_key[key] for key in self._closure(anchor))

    def spoken_of(self, anchor: str) -> tuple[GangObject, ...]:
        return self._spoken[anchor]

    def gang_of(self, member: Member) -> str:
        """The key of the member's gang, "" for pods that wait for nobody and need no GPU."""
        for link in member.links:
            gangs = self._gangs.get(link)
            if gangs and len(gangs) == 1:
                return gangs[0]
        for uid in filter(None, (member.uid, member.owner_uid)):
            owner = self._by_uid.get(uid) or self._made_for.get(uid, "")
            if owner and len(self._gangs.get(owner, ())) == 1:
                return self._gangs[owner][0]
        if member.links:
            return member.links[0]
        return _by_maker(member)

    def _unread(self, by_uid: Mapping[str, str]) -> dict[str, str]:
        """UID of a maker that no reader knows (a Job, a single pod) -> the object made for it: a group before what
        admits it, and an admission before one that is over. Where a maker has several (replicas), nothing is told."""
        made: dict[str, dict[int, list[str]]] = {}
        for one in self.by_key.values():
            rank = (1 + one.finished) if one.ref.system in ADMITTING else 0
            for uid in one.owners:
                if uid not in by_uid:
                    made.setdefault(uid, {}).setdefault(rank, []).append(one.ref.key)
        nearest = {uid: by_rank[min(by_rank)] for uid, by_rank in made.items()}
        return {uid: keys[0] for uid, keys in nearest.items() if len(keys) == 1}

    def _parents(self, one: GangObject, by_uid: Mapping[str, str]) -> list[str]:
        """Keys of the objects it belongs to: those that own it, those that it names, and for what admits, the group
        of the same maker."""
        owners = (by_uid[uid] for uid in one.owners if uid in by_uid)
        named = (key for key in one.links if key in self.by_key)
        admits = one.ref.system in ADMITTING
        beside = (self._made_for[uid] for uid in one.owners if admits and uid in self._made_for)
        return list(dict.fromkeys(key for key in (*owners, *named, *beside) if key != one.ref.key))

    def _anchors(self, below: Mapping[str, list[str]]) -> list[str]:
        """Groups of placing schedulers; then whatever has nothing below it and is not spoken of by such a group."""
        placing = [key for key, one in self.by_key.items() if one.places and one.ref.system not in ADMITTING]
        covered = {key for anchor in placing for key in self._upwards(anchor)}
        rest = []
        for key, one in self.by_key.items():
            children = [child for child in below.get(key, ()) if self.by_key[child].ref.system not in ADMITTING]
            admits_known = one.ref.system in ADMITTING and bool(self._above[key])
            if key not in covered and not children and not admits_known:
                rest.append(key)
        return placing + rest

    def _upwards(self, key: str) -> list[str]:
        """The object, then what it belongs to, nearest first; a circle of references ends."""
        seen = {key: None}
        queue = [key]
        for here in queue:
            for parent in self._above.get(here, ()):
                if parent not in seen:
                    seen[parent] = None
                    queue.append(parent)
        return list(seen)

    def _closure(self, anchor: str) -> list[str]:
        keys = self._upwards(anchor)
        admitting = [key for here in keys for key in self._admits.get(here, ())]
        going_on = [key for key in admitting if not self.by_key[key].finished]  # an attempt of before says nothing
        return list(dict.fromkeys([*keys, *(going_on or admitting)]))


def _turned(above: Mapping[str, list[str]]) -> dict[str, list[str]]:
    below: dict[str, list[str]] = defaultdict(list)
    for key, parents in above.items():
        for parent in parents:
            below[parent].append(key)
    return below


def _by_maker(member: Member) -> str:
    """Pods that ask for GPUs and name no gang, by their controlling owner; a bare pod is alone."""
    kind, _, name = member.owner.partition("/")
    if not member.need.gpus or kind in NO_GANG:
        return ""
    namespace, _, pod = member.key.partition("/")
    return key_of("pods", kind or "Pod", namespace, name or pod)
