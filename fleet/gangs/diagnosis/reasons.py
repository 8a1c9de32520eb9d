"""Why a gang does not start: one code, the numbers behind it, the scheduler's own words, and the nodes to blame.

Decides by the order of `fleet.ports.gangs.ReasonCode`: what its queue says outranks arithmetic, and arithmetic outranks
a scheduler's "insufficient resources", which never names the node that is missing. Refuses a guess: where neither the
system nor the arithmetic tells, it is UNKNOWN and says so, with the raw text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fleet.gangs.diagnosis.answers import Answer, Answers
from fleet.gangs.diagnosis.blocking import Blocker
from fleet.gangs.diagnosis.ceilings import beyond, kept_out
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.starting import Starter, level_of
from fleet.gangs.form import Gang
from fleet.ports.gangs import QueueObject, ReasonCode, Said

BEFORE_ROOM: tuple[ReasonCode, ...] = ("SUSPENDED", "QUEUE_STOPPED", "QUOTA", "EXCEEDS_MAX")
AFTER_ROOM: tuple[ReasonCode, ...] = ("PRIORITY_BEHIND", "ADMISSION_CHECK", "BIND_FAILED", "IMAGE_OR_INIT")
OF_ROOM: tuple[ReasonCode, ...] = ("NODE_UNHEALTHY", "TOPOLOGY", "FRAGMENTATION", "CAPACITY")


@dataclass(frozen=True, slots=True)
class Reason:
    """`needs` GPUs to reach its minimum, `free` on nodes it may use, `slots` members that would fit there now.

    `fits`: by arithmetic it could start now; None where the arithmetic cannot tell. `ahead`: keys of gangs in front of
    it, the nearest last. `raw` keeps the system's text whatever the code. `placed`: its minimum has nodes, so that no
    word of before about quota or room counts any more.
    """

    code: ReasonCode
    raw: str = ""
    source: str = ""
    since: datetime | None = None
    fits: bool | None = None
    needs: int = 0
    free: int = 0
    slots: int = 0
    lacking: int = 0  # members
    unmade: int = 0  # members of its minimum that nobody has made yet, where nothing else is known to keep it
    kept_out: bool = False  # its queue has not let it in, and nobody says why
    level: str = ""
    blockers: tuple[Blocker, ...] = ()
    ahead: tuple[str, ...] = ()
    placed: bool = False


def diagnose(
    gang: Gang, starter: Starter, space: Space, queue: QueueObject | None = None, ahead: Sequence[str] = ()
) -> Reason:
    """Of one gang by itself."""
    return judge(gang, Answers(starter, space), queue, ahead)


def judge(gang: Gang, answers: Answers, queue: QueueObject | None = None, ahead: Sequence[str] = ()) -> Reason:
    """Of a gang that waits or starts; others have no reason to be asked for."""
    said = {one.code: one for one in reversed(gang.said)}
    early = _before_room(gang, said, queue)
    if early is not None:
        return early
    if gang.state == "starting":
        return _after_room(gang, said)
    if not answers.starter.judged(gang):
        return _in_its_words(gang, said, ahead)
    answer = answers.of(gang)
    if not answers.ever(gang):
        checked = "ADMISSION_CHECK" in said  # what is asked there may add nodes
        return _of_room("ADMISSION_CHECK" if checked else "EXCEEDS_MAX", gang, answer, said)
    if answer.fits:
        return _has_room(gang, answer, said, ahead)
    return _lacks_room(gang, answer, said)


def _before_room(gang: Gang, said: dict[ReasonCode, Said], queue: QueueObject | None) -> Reason | None:
    if gang.state == "suspended":
        return _words("SUSPENDED", said)
    if queue is not None and queue.stopped and not gang.placed:
        stated = next((one for one in queue.said if one.code == "QUEUE_STOPPED"), None)
        return _words("QUEUE_STOPPED", {"QUEUE_STOPPED": stated} if stated else said)
    codes = BEFORE_ROOM[:1] if gang.state == "starting" else BEFORE_ROOM  # what is placed has its quota
    code = next((code for code in codes if code in said), None)
    if code is not None:
        return _words(code, said)
    over = beyond(gang, queue)
    return None if over is None else _words(over.code, {over.code: over})


def _after_room(gang: Gang, said: dict[ReasonCode, Said]) -> Reason:
    """Its minimum is placed: what keeps the members from running."""
    stuck = sorted({f"{member.key}: {member.stuck}" for member in gang.members if member.node and member.stuck})
    if stuck:
        return Reason("IMAGE_OR_INIT", "; ".join(stuck[:3]), "container state", fits=True, placed=True)
    code = next((code for code in reversed(AFTER_ROOM) if code in said), None)
    inits = sorted({f"{member.key}: Init:{member.init}" for member in gang.members if member.node and member.init})
    if code is None and inits:
        return Reason("IMAGE_OR_INIT", "; ".join(inits[:3]), "container state", fits=True, placed=True)
    return replace(_words(code or "UNKNOWN", said if code else {}), placed=True)


def _in_its_words(gang: Gang, said: dict[ReasonCode, Said], ahead: Sequence[str]) -> Reason:
    code = next((code for code in (*OF_ROOM, *AFTER_ROOM) if code in said), None)
    if code is None and ahead:
        code = "PRIORITY_BEHIND"
    return _untold(gang, _words(code or "UNKNOWN", said, ahead=ahead))


def _has_room(gang: Gang, answer: Answer, said: dict[ReasonCode, Said], ahead: Sequence[str]) -> Reason:
    """There is room and it does not start: somebody is in front, a check is open, or a topology that we do not see."""
    code = next((code for code in (*AFTER_ROOM, "TOPOLOGY") if code in said), None)
    if code in (None, "TOPOLOGY") and ahead:
        code = "PRIORITY_BEHIND"
    return _untold(gang, _of_room(code or "UNKNOWN", gang, answer, said, fits=True, ahead=ahead))


def _untold(gang: Gang, reason: Reason) -> Reason:
    """Where nothing else is known to keep it: that its queue has not let it in, or that it is not whole yet. Schedulers
    of gangs do not look for room for such a one; some say nothing of it, and some that there is no room."""
    no_room = reason.code == "CAPACITY" and reason.fits is None
    if not (reason.code == "UNKNOWN" or no_room):
        return reason
    if kept_out(gang):
        return replace(reason, code="UNKNOWN", kept_out=True)
    unmade = gang.minimum - sum(not member.ending for member in gang.members)
    if unmade <= 0 or any(one.admitted is False for one in gang.objects):
        return reason
    return replace(reason, code="UNKNOWN", unmade=unmade)


def _lacks_room(gang: Gang, answer: Answer, said: dict[ReasonCode, Said]) -> Reason:
    if answer.blockers or "NODE_UNHEALTHY" in said:
        return _of_room("NODE_UNHEALTHY", gang, answer, said, blockers=answer.blockers)
    if level_of(gang) and answer.fits_anywhere:
        return _of_room("TOPOLOGY", gang, answer, said)
    if answer.needs and answer.free >= answer.needs:
        return _of_room("FRAGMENTATION", gang, answer, said)
    return _of_room("CAPACITY", gang, answer, said)


def _words(code: ReasonCode, said: dict[ReasonCode, Said], *, ahead: Sequence[str] = ()) -> Reason:
    one = said.get(code) or next(iter(said.values()), None)
    if one is None:
        return Reason(code, ahead=tuple(ahead))
    return Reason(code, one.text, one.source, one.at, ahead=tuple(ahead))


def _of_room(
    code: ReasonCode,
    gang: Gang,
    answer: Answer,
    said: dict[ReasonCode, Said],
    *,
    fits: bool = False,
    blockers: tuple[Blocker, ...] = (),
    ahead: Sequence[str] = (),
) -> Reason:
    words = _words(code, said)
    return replace(
        words,
        fits=fits,
        needs=answer.needs,
        free=answer.free,
        slots=answer.slots,
        lacking=sum(count for _, count in answer.asks),
        level=level_of(gang),
        blockers=blockers,
        ahead=tuple(ahead),
    )
