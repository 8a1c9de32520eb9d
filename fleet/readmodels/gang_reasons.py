"""Why a gang does not start, as people read it: a name, a sentence with its numbers, what it waits for, what to do.

Decides the words for every reason code (`fleet.ports.gangs.ReasonCode`). Refuses to judge: the code and the numbers are
read as they were stored, and the scheduler's own text stands beside the sentence wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext

from fleet.ports.gangs import SENT, ReasonCode
from fleet.readmodels import phrases
from fleet.readmodels.gang_words import called

Word = str | Promise
NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Words:
    """`waits` is what clears it, `do` what a person can do."""

    name: Word
    waits: Word
    do: Word


@dataclass(frozen=True, slots=True)
class Told:
    """In the reader's language. `raw` and `source` are the scheduler's own, "" where it said nothing; what it told by a
    field alone is in ours."""

    code: str
    name: str
    sentence: str
    waits: str
    do: str
    raw: str
    source: str


REASONS: Mapping[ReasonCode, Words] = {
    "SUSPENDED": Words(
        lazy("Suspended"),
        lazy("Whoever suspended it resumes it."),
        lazy("Resume it, or ask its owner whether it is still wanted."),
    ),
    "QUEUE_STOPPED": Words(
        lazy("Queue stopped"),
        lazy("Its queue takes work again."),
        lazy("See what its queue says; whoever stopped it starts it again."),
    ),
    "QUOTA": Words(
        lazy("Quota"),
        lazy("Work of its queue ends, or the queue may have more."),
        lazy("See what the queue uses of its quota; raise it, let it borrow, or use another queue."),
    ),
    "EXCEEDS_MAX": Words(
        lazy("Never fits"),
        lazy("Nothing clears it: it asks for more than there is."),
        lazy("Ask for less, or add nodes of that kind or quota."),
    ),
    "NODE_UNHEALTHY": Words(
        lazy("Nodes are out"),
        lazy("The nodes that are named come back."),
        lazy("See the workflow or ticket of each node, and what its return would start."),
    ),
    "TOPOLOGY": Words(
        lazy("Topology"),
        lazy("Enough room becomes free inside one domain."),
        lazy("Let it span two domains, or see which small work could move away."),
    ),
    "FRAGMENTATION": Words(
        lazy("Fragmentation"),
        lazy("Work that uses a part of a node ends or moves."),
        lazy("Pack small work onto fewer nodes, or make the members smaller."),
    ),
    "CAPACITY": Words(
        lazy("No room"),
        lazy("Work that runs ends, or nodes are added."),
        lazy("See what runs with a lower priority, and which gangs hold GPUs for nothing."),
    ),
    "PRIORITY_BEHIND": Words(
        lazy("Behind others"),
        lazy("Those before it start or leave."),
        lazy("See why those before it wait: their reason is the true one."),
    ),
    "ADMISSION_CHECK": Words(
        lazy("Admission check"),
        lazy("The check passes."),
        lazy("See the check's controller: a provisioning request, a budget, another cluster."),
    ),
    "BIND_FAILED": Words(
        lazy("Binding failed"),
        lazy("Its scheduler tries again."),
        lazy("See the nodes it was given and the scheduler's log."),
    ),
    "IMAGE_OR_INIT": Words(
        lazy("Members do not start"),
        lazy("Its images are pulled, its init containers end, and its members stay up."),
        lazy("See the members that are stuck: image, secret, volume, init container, or a program that crashes."),
    ),
    "UNKNOWN": Words(
        lazy("No reason known"),
        lazy("Nobody says."),
        lazy("See the scheduler's own log, and whether it reads this gang at all."),
    ),
}


@dataclass(frozen=True, slots=True)
class _Other:
    """What is said where a code stands for something else than it mostly does."""

    sentence: Word
    waits: Word
    do: Word


_SENT = _Other(
    lazy("It was sent to another cluster, and nothing of it waits for room here."),
    lazy("Nothing here: it starts and ends there."),
    lazy("See it in the cluster that it was sent to."),
)
_HELD = _Other(
    lazy("It may not start yet: a check, a gate, another job or a time that it waits for has not come."),
    lazy("What it waits for comes, or whoever holds it back lets it go."),
    lazy("See in its system's own words what it waits for, and who has to let it go."),
)
_CHECKED = ("Workload admission check", "Workload condition Admitted")  # sources of one that has its quota


def _other(code: ReasonCode, source: str) -> _Other | None:
    if code == "SUSPENDED" and source == SENT:
        return _SENT
    return _HELD if code == "ADMISSION_CHECK" and not source.startswith(_CHECKED) else None


def told(code: str, facts: Mapping[str, Any], blockers: Sequence[Mapping[str, Any]] = (), queue: str = "") -> Told:
    """`facts` and `blockers` as the row keeps them. A code that is not known is told as the unknown one."""
    known: ReasonCode = code if code in REASONS else "UNKNOWN"  # type: ignore[assignment]
    words, other = REASONS[known], _other(known, str(facts.get("source") or ""))
    return Told(
        known,
        str(words.name),
        str(other.sentence) if other else _sentence(known, facts, blockers, queue),
        str(other.waits if other else words.waits),
        str(other.do if other else words.do),
        phrases.told(str(facts.get("raw") or "")),
        str(facts.get("source") or ""),
    )


def members(count: int) -> str:
    return ngettext("%(n)s member", "%(n)s members", count) % {"n": f"{count:,}"}


def gpus(count: float) -> str:
    return ngettext("%(n)s GPU", "%(n)s GPUs", round(count)) % {"n": f"{count:,.10g}"}


def _sentence(code: ReasonCode, facts: Mapping[str, Any], blockers: Sequence[Mapping[str, Any]], queue: str) -> str:
    if code == "NODE_UNHEALTHY":
        return _of_nodes(facts, blockers)
    if code in ("TOPOLOGY", "FRAGMENTATION", "CAPACITY"):
        return _of_room(code, facts)
    if code == "PRIORITY_BEHIND":
        return _behind(facts)
    if code == "EXCEEDS_MAX" and facts.get("needs"):
        return _("It needs %(gpus)s more, which it could not have if every node were whole and empty.") % {
            "gpus": gpus(facts["needs"])
        }
    if code == "EXCEEDS_MAX" and facts.get("fits") is False:
        return _("Its members would not fit if every node were whole and empty: see what they ask of a node.")
    if code == "UNKNOWN":
        return _unknown(facts)
    if code in ("QUOTA", "QUEUE_STOPPED") and queue:
        return str(_OF_QUEUE[code]) % {"queue": queue}
    return str(_PLAIN[code])


def _unknown(facts: Mapping[str, Any]) -> str:
    """Nothing that is known keeps it; what its scheduler says is told as being said."""
    if facts.get("placed"):
        return _("Its minimum has nodes and has not started yet; nothing is known to keep it.")
    if facts.get("kept_out"):
        return _("Its queue has not let it in yet and does not say why.")
    if facts.get("unmade"):
        return _("Not all of it is there: it lacks %(members)s that nobody has made yet.") % {
            "members": members(facts["unmade"])
        }
    if facts.get("raw") and facts.get("fits"):
        return _("By GPUs, CPU and memory it would fit now; what its scheduler says stands in its own words.")
    if facts.get("fits"):
        return _("By the arithmetic it would fit now, and nothing says why it does not start.")
    if facts.get("raw"):
        return _("Its scheduler says why in words that are not known here.")
    return str(_PLAIN["UNKNOWN"])


def _of_nodes(facts: Mapping[str, Any], blockers: Sequence[Mapping[str, Any]]) -> str:
    lacks = members(facts.get("lacking") or 0)
    if not blockers:
        return _("Its scheduler says that nodes it needs are unhealthy.")
    names = _names([str(one.get("node", "")) for one in blockers])
    if len(blockers) == 1:
        return _("It lacks %(members)s, and would fit if %(node)s came back.") % {"members": lacks, "node": names}
    return _("It lacks %(members)s, and would fit if these %(n)s nodes came back: %(nodes)s.") % {
        "members": lacks, "n": len(blockers), "nodes": names,
    }  # fmt: skip


def _of_room(code: ReasonCode, facts: Mapping[str, Any]) -> str:
    if not facts.get("needs") or (code == "TOPOLOGY" and not facts.get("level")):
        return str(_PLAIN[code])
    filled = {
        "members": members(facts.get("lacking") or 0),
        "needs": gpus(facts.get("needs") or 0),
        "free": gpus(facts.get("free") or 0),
        "slots": f"{facts.get('slots') or 0:,}",
        "level": facts.get("level"),
    }
    if code == "TOPOLOGY":
        text = _("It lacks %(members)s. There is room, but not inside one domain of %(level)s.")
    elif code == "FRAGMENTATION":
        text = _(
            "It lacks %(members)s with %(needs)s. %(free)s are free where it may run, but scattered: "
            "only %(slots)s would fit."
        )
    else:
        text = _("It lacks %(members)s with %(needs)s; where it may run, %(free)s are free and %(slots)s would fit.")
    return text % filled


def _behind(facts: Mapping[str, Any]) -> str:
    ahead = [name for _key, name in before(facts)]
    if not ahead:
        return _("It waits its turn: others are before it.")
    nearest = ahead[-1]
    if len(ahead) == 1:
        return _("It waits its turn behind %(gang)s.") % {"gang": nearest}
    return _("It waits its turn behind %(gang)s and %(n)s more.") % {"gang": nearest, "n": len(ahead) - 1}


def before(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(key, what people call it) of each gang in front of it, the nearest last. Older rows tell the keys alone."""
    keys = [str(key) for key in facts.get("ahead") or ()]
    names = [str(name) for name in facts.get("ahead_called") or ()]
    names = names if len(names) == len(keys) else [""] * len(keys)
    plain = [called(key) if key.count("/") >= 3 else key for key in keys]
    return [(key, name or other) for key, name, other in zip(keys, names, plain, strict=True)]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_AT_MOST])
    if len(names) <= NAMED_AT_MOST:
        return shown
    return _("%(names)s and %(n)d more") % {"names": shown, "n": len(names) - NAMED_AT_MOST}


_OF_QUEUE: Mapping[ReasonCode, Word] = {
    "QUOTA": lazy("The quota of its queue %(queue)s does not let it in."),
    "QUEUE_STOPPED": lazy("Its queue %(queue)s lets nothing in: it is stopped, is not ready or does not exist."),
}
_PLAIN: Mapping[ReasonCode, Word] = {
    "SUSPENDED": lazy("It is suspended: it is not to start now."),
    "QUEUE_STOPPED": lazy("Its queue lets nothing in: it is stopped, is not ready or does not exist."),
    "QUOTA": lazy("Its quota does not let it in."),
    "EXCEEDS_MAX": lazy("It asks for more than its queue may ever use."),
    "TOPOLOGY": lazy("Its scheduler finds no domain of the topology that holds all of it."),
    "FRAGMENTATION": lazy("Enough GPUs are free, but scattered over too many nodes."),
    "CAPACITY": lazy("Its scheduler finds no room for it."),
    "ADMISSION_CHECK": lazy("It has its quota; a check of its queue has not passed yet."),
    "BIND_FAILED": lazy("It was given nodes, and binding it to them failed."),
    "IMAGE_OR_INIT": lazy("Its members have nodes and do not start there."),
    "UNKNOWN": lazy("Neither its scheduler nor the arithmetic says why it waits."),
}
