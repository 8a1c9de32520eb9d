"""Stored sentences that are no reasons, said in the reader's language: titles of faults, ends of steps, refusals.

Decides which template a stored English sentence was made from, and says that template in the reader's language with the
same numbers and names; a text of several sentences is told sentence by sentence. Refuses to guess: what fits no
template stays as it was stored.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from django.utils.translation import get_language
from django.utils.translation import gettext as _

from fleet.readmodels import reasons
from fleet.readmodels.phrases.gangs import GANGS
from fleet.readmodels.phrases.outcomes import OUTCOMES
from fleet.readmodels.phrases.plans import PLANS
from fleet.readmodels.phrases.refusals import REFUSALS
from fleet.readmodels.phrases.slurm import SLURM
from fleet.readmodels.phrases.titles import SHARED, TITLES

PLACE = re.compile(r"%\((\w+)\)s")
END = re.compile(r"(?<=[.;]) (?=[A-Z0-9])")
LONGEST = 1000
"""Longer texts are logs of other programs, which nobody translates."""
MOST, JOINED = 8, 3
"""Sentences that are told one by one, and how many of them one template may span."""
QUOTED = ("rest", "why")
"""Places that hold whole sentences."""
PHRASES: tuple[str, ...] = (*GANGS, *OUTCOMES, *PLANS, *REFUSALS, *SLURM, *TITLES, *SHARED)


def told(stored: str) -> str:
    """`stored` in the reader's language, as far as its sentences are known."""
    language = get_language() or "en"
    if not stored or language.startswith("en") or len(stored) > LONGEST:
        return stored
    return _told_in(language, stored)


@lru_cache(maxsize=8192)
def _told_in(_language: str, stored: str) -> str:
    return _one(stored) or _some(stored)


def _some(stored: str) -> str:
    """Sentence by sentence; one that is split in vain is joined again with what follows."""
    parts, told_parts = END.split(stored), []
    if len(parts) > MOST:
        return stored
    while parts:
        for length in range(min(JOINED, len(parts)), 0, -1):
            said = _one(" ".join(parts[:length]))
            if said or length == 1:
                told_parts.append(said or parts[0])
                parts = parts[length:]
                break
    return " ".join(told_parts)


def _one(sentence: str) -> str:
    """The whole of `sentence` by one template; "" where none fits."""
    for reason in reasons.CATALOGUE.values():
        parts = reasons.parts_of(reason, sentence)
        if parts is not None:
            return _quoting(reasons.told(reason, sentence), parts[1])
    for template, pattern in _patterns():
        found = pattern.fullmatch(sentence)
        if found is not None and not _spans(found):
            return _(template).replace("%%", "%") if not found.groupdict() else _(template) % _filled(found)
    if sentence.endswith("."):  # a title that stands as a sentence
        said = _one(sentence[:-1])
        return f"{said}." if said else ""
    return ""


def _quoting(said: str, filled: dict[str, str]) -> str:
    """A reason may end with a sentence of another kind, which is told in its own right."""
    for name in QUOTED:
        quoted = filled.get(name, "")
        if quoted and said.endswith(quoted):
            said = said.removesuffix(quoted) + told(quoted)
    return said


def _spans(found: re.Match[str]) -> bool:
    """Does a name or number hold the end of a sentence? Then the template has swallowed the next one."""
    return any(END.search(value) for name, value in found.groupdict().items() if name not in QUOTED)


def _filled(found: re.Match[str]) -> dict[str, str]:
    """What a template was filled with; what it quotes whole may be a known sentence itself."""
    filled = found.groupdict()
    for name in QUOTED:
        if name in filled:
            filled[name] = told(filled[name])
    return {name: reasons.names(value) for name, value in filled.items()}


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The templates with most words of their own first, so that a general one does not swallow a special one."""
    by_words = sorted(PHRASES, key=lambda template: -len(PLACE.sub("", template)))
    return tuple((template, _pattern(template)) for template in by_words)


def _pattern(template: str) -> re.Pattern[str]:
    parts = PLACE.split(template)
    text = "".join(
        re.escape(part.replace("%%", "%")) if n % 2 == 0 else f"(?P<{part}>.+?)" for n, part in enumerate(parts)
    )
    return re.compile(text, re.DOTALL)
