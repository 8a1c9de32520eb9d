"""What-ifs in words: what comes of it when nodes return or are drained, or when a gang is suspended.

Decides the sentence of an answer and whether it helps. Refuses to say "will start": what the arithmetic tells is "would
fit"; and to guess where the observer does not answer: then it is not known yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.gangs.asking import ask
from fleet.gangs.form import called_by
from fleet.gangs.models import GangRow
from fleet.gangs.questions import Answer, Answers, Loses, Named, Question
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels.gang_reasons import gpus, members
from fleet.readmodels.gang_words import called

NODES_NAMED = 3
NO_NAMES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question with its answer. `helps`: some gang would fit by it, or nobody breaks. `known` False: not yet."""

    question: Question
    title: str
    sentence: str
    known: bool
    helps: bool
    starts: tuple[Named, ...] = ()
    no_longer: tuple[Named, ...] = ()
    broken: tuple[Loses, ...] = ()


def outcomes(cluster: Cluster, questions: Sequence[Question]) -> list[Outcome]:
    """In the order of the questions. Waits a moment for the observer; not at all where there is none."""
    told, so_called = answers(cluster, questions), names(cluster, questions)
    if told is None:
        return [Outcome(one, title(one, so_called), _unknown(cluster), False, False) for one in questions]
    return [outcome(one, found, so_called) for one, found in zip(questions, told.answers, strict=False)]


def names(cluster: Cluster, questions: Sequence[Question]) -> dict[str, str]:
    """Key -> what people call it, of the gangs that are asked about."""
    keys = {one.gang for one in questions if one.gang}
    if not keys:
        return {}
    rows = GangRow.objects.filter(cluster=cluster, key__in=keys).values_list("key", "title", "namespace")
    return {key: called_by(title, namespace) for key, title, namespace in rows}


def answers(cluster: Cluster, questions: Sequence[Question]) -> Answers | None:
    if not questions or not watched(cluster):
        return None
    return ask(cluster.pk, questions)


def watched(cluster: Cluster) -> bool:
    until = cluster.observer_until
    return until is not None and until >= SYSTEM_CLOCK.now()


def _unknown(cluster: Cluster) -> str:
    if not watched(cluster):
        return _("Not known: no observer watches %(cluster)s.") % {"cluster": cluster.name}
    return _("Not known yet: the observer of %(cluster)s did not answer in time. Ask again.") % {
        "cluster": cluster.name
    }


def title(question: Question, names: Mapping[str, str] = NO_NAMES) -> str:
    """`names` by key; a gang that is not among them is called by its key."""
    nodes = ", ".join(question.nodes[:NODES_NAMED])
    rest = len(question.nodes) - NODES_NAMED
    if rest > 0:
        nodes = _("%(names)s and %(n)d more") % {"names": nodes, "n": rest}
    match question.kind:
        case "return":
            text = ngettext("%(nodes)s returns", "%(nodes)s return", len(question.nodes))
            return text % {"nodes": nodes}
        case "drain":
            text = ngettext("%(nodes)s is drained", "%(nodes)s are drained", len(question.nodes))
            return text % {"nodes": nodes}
        case "suspend":
            plain = called(question.gang) if question.gang.count("/") >= 3 else question.gang
            name = names.get(question.gang, plain)
            return _("%(gang)s is suspended") % {"gang": name}
    return question.kind


def outcome(question: Question, found: Answer, names: Mapping[str, str] = NO_NAMES) -> Outcome:
    if found.late:
        text = _("Not known yet: there was no time for it. Ask again.")
        return Outcome(question, title(question, names), text, False, False)
    asked = question.nodes if question.kind != "suspend" else (question.gang,)
    if found.unknown and len(found.unknown) == len(asked):
        text = _("The observer knows nothing of that name.")
        return Outcome(question, title(question, names), text, False, False)
    parts = _drain(found) if question.kind == "drain" else [_frees(question, found), _starts(found)]
    if found.unknown:
        parts.append(_("Not known: %(names)s.") % {"names": ", ".join(found.unknown[:NODES_NAMED])})
    helps = bool(found.starts) if question.kind != "drain" else not _breaks(found) and not found.no_longer
    return Outcome(
        question, title(question, names), " ".join(part for part in parts if part), True, helps,
        found.starts, found.no_longer, found.broken,
    )  # fmt: skip


def _frees(question: Question, found: Answer) -> str:
    if question.kind == "suspend":
        return _("It frees %(gpus)s.") % {"gpus": gpus(found.gpus)}
    return _("It brings %(gpus)s.") % {"gpus": gpus(found.gpus)}


def _starts(found: Answer) -> str:
    if not found.starts_count:
        return _("No gang that waits would fit by it.")
    first = found.starts[0].title
    if found.starts_count == 1:
        return _("%(gang)s would fit.") % {"gang": first}
    text = ngettext("%(gang)s and %(n)s more would fit.", "%(gang)s and %(n)s more would fit.", found.starts_count - 1)
    return text % {"gang": first, "n": found.starts_count - 1}


def _breaks(found: Answer) -> list[Loses]:
    return [one for one in found.broken if one.breaks]


def _drain(found: Answer) -> list[str]:
    broken = _breaks(found)
    parts = []
    if not found.broken:
        parts.append(_("No gang runs there."))
    for one in broken[:NODES_NAMED]:
        facts = {"gang": one.title, "members": members(one.loses), "left": one.left, "minimum": one.minimum}
        if one.again:
            text = _("%(gang)s loses %(members)s and breaks (%(left)s of %(minimum)s), and could form again elsewhere.")
        else:
            text = _("%(gang)s loses %(members)s and breaks (%(left)s of %(minimum)s): there is no room elsewhere.")
        parts.append(text % facts)
    if len(broken) > NODES_NAMED:
        more = len(broken) - NODES_NAMED
        parts.append(ngettext("%(n)s more breaks.", "%(n)s more break.", more) % {"n": more})
    shrinks = len(found.broken) - len(broken)
    if shrinks:
        text = ngettext("%(n)s goes on with fewer members.", "%(n)s go on with fewer members.", shrinks)
        parts.append(text % {"n": shrinks})
    if found.no_longer_count:
        text = ngettext(
            "%(n)s gang that would fit now would not any more.",
            "%(n)s gangs that would fit now would not any more.",
            found.no_longer_count,
        )
        parts.append(text % {"n": found.no_longer_count})
    parts.append(
        _("Left free: %(gpus)s, %(nodes)s.")
        % {
            "gpus": gpus(found.free),
            "nodes": ngettext("%(n)s whole node", "%(n)s whole nodes", found.whole) % {"n": found.whole},
        }
    )
    return parts
