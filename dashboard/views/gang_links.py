"""Where the parts of a gang lead: its page, its nodes, their workflows and tickets.

Decides the addresses, and how a blocking node is told. Refuses queries: the rows carry what is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from dashboard.words import STATE_WORD, Word
from fleet.readmodels import phrases
from fleet.readmodels.node_page import instant

TICKET = re.compile(r"^TKT-(\d{1,18})$")
OUT_WORD: dict[str, Word] = {
    "cordoned": lazy("cordoned"),
    "not_ready": lazy("not ready"),
    "short_of_gpus": lazy("short of GPUs"),
    "unhealthy": lazy("unhealthy"),
}


@dataclass(frozen=True, slots=True)
class OutNode:
    """A node that is out, as a list tells it. `members`: how many of the gang it would hold."""

    name: str
    href: str
    state: str
    text: str
    since: datetime | None
    back_at: datetime | None
    workflow: str
    workflow_href: str
    ticket: str
    ticket_href: str
    members: int

    @property
    def returns(self) -> SafeString:
        text = _('<a class="name mono" href="%(href)s">%(name)s</a> returns')
        return SafeString(text % {"href": escape(self.href), "name": escape(self.name)})


@lru_cache(maxsize=4096)
def node_href(name: str, cluster: str) -> str:
    """The node's page; the fleet filtered by it for a name that no page can have (a scheduler may tell any text)."""
    if not name or "/" in name:
        return f"{reverse('fleet')}?{urlencode({'cluster': cluster, 'q': name})}"
    return f"{reverse('node', args=[name])}?{urlencode({'cluster': cluster})}"


def out_node(told: Mapping[str, Any], cluster: str, name: str = "") -> OutNode:
    """From what a gang's row keeps of one of its blockers."""
    node, code = name or str(told.get("node", "")), str(told.get("code", ""))
    workflow, ticket = told.get("workflow"), str(told.get("ticket") or "")
    number = TICKET.match(ticket)
    text = phrases.told(str(told.get("text") or ""))
    return OutNode(
        name=node,
        href=node_href(node, cluster),
        state=str(STATE_WORD.get(code) or OUT_WORD.get(code) or code or _("out")),
        text=text.rstrip("."),
        since=instant(told.get("since") or ""),
        back_at=instant(told.get("back_at") or ""),
        workflow=f"WF-{workflow}" if workflow else "",
        workflow_href=reverse("workflow", args=[workflow]) if workflow else "",
        ticket=ticket,
        ticket_href=reverse("ticket", args=[int(number[1])]) if number else "",
        members=int(told.get("members") or 0),
    )


def gang_href(pk: int) -> str:
    return reverse("gang", args=[pk])


def gang_by_key(key: str, cluster: str) -> str:
    """For places that know the key alone."""
    return f"{reverse('gang_by_key')}?{urlencode({'cluster': cluster, 'key': key})}"
