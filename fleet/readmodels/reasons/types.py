"""What the catalogue of reasons says about one code.

Decides the shape of an entry, and how a stored sentence is recognised by its template so that it can be said in another
language with the same numbers and names. Refuses an entry without a person's way out: each says what one can do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

Word = str | Promise
PLACE = re.compile(r"%\((\w+)\)s")
AND_MORE = re.compile(r"(.+) and (\d+) more")

GUARD = lazy("the guard")
PEOPLE = lazy("a person")
BMC = lazy("the node's BMC")
API = lazy("the API server")
METRICS = lazy("the metrics API")
FABRIC = lazy("the fabric's manager")
SLURM = lazy("Slurm's REST server")
ADMIN = lazy("an admin")
DATA = lazy("fresh data")
NODE = lazy("the node")
OWNER = lazy("another owner of a hold")
WORK = lazy("the work that runs")
PROVIDER = lazy("the provider of the machine")


@dataclass(frozen=True, slots=True)
class Reason:
    """One code. `says` are the templates of the sentences with numbers; `person`: time alone never clears it.

    `link` is the name of the page where one can act on it, "" where that is the workflow's own page.
    """

    name: Word  # what is waited for, in a few words
    text: Word  # in general, without numbers
    who: Word
    clears: Word
    do: Word
    says: tuple[str, ...] = ()
    link: str = ""
    person: bool = False


@lru_cache(maxsize=512)
def _pattern(template: str) -> re.Pattern[str]:
    parts = PLACE.split(template)
    text = "".join(re.escape(part) if n % 2 == 0 else f"(?P<{part}>.+?)" for n, part in enumerate(parts))
    return re.compile(text, re.DOTALL)


def parts_of(reason: Reason, stored: str) -> tuple[str, dict[str, str]] | None:
    """The template that `stored` was made from, with what it was filled with."""
    for template in reason.says:
        found = _pattern(template).fullmatch(stored)
        if found is not None:
            return template, found.groupdict()
    return None


def told(reason: Reason, stored: str) -> str:
    """`stored` in the reader's language where its template is known; else as it is, or the general sentence."""
    found = parts_of(reason, stored)
    if found is None:
        return stored or str(reason.text)
    template, filled = found
    if "where" in filled:
        filled["where"] = _where(filled["where"])
    return _(template) % {name: names(value) for name, value in filled.items()}


def names(stored: str) -> str:
    """`a, b and 2 more` in the reader's language; anything else as it is."""
    found = AND_MORE.fullmatch(stored)
    return _("%(names)s and %(n)d more") % {"names": found[1], "n": int(found[2])} if found else stored


def _where(stored: str) -> str:
    """`Rack r07` in the reader's language."""
    scope, _space, key = stored.partition(" ")
    word = SCOPES.get(scope)
    return f"{word} {key}".strip() if word is not None else stored


SCOPES: dict[str, Word] = {
    "Fleet": lazy("Fleet"),
    "Cluster": lazy("Cluster"),
    "Tenant": lazy("Tenant"),
    "Pool": lazy("Pool"),
    "Rack": lazy("Rack"),
    "Leaf": lazy("Leaf"),
    "Nvlink": lazy("NVLink domain"),
}
