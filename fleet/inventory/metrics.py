"""What may be registered of a cluster's metrics API.

Decides the form of its address, credential reference, tenant and matchers. Refuses a credential inside an address: it
would be stored, shown and logged. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

PLACES = ("node", "cluster", "from", "to")
_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_TENANT = re.compile(r"([A-Za-z0-9-]+=)?[^\s=]+")
_MATCHER = re.compile(r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*')
_PLACE = re.compile(r"\{([^{}]*)\}")


def check(given: Mapping[str, Any]) -> None:
    """ValueError says in one sentence what is wrong."""
    for key, what in (("prometheus_url", "metrics API"), ("grafana_url", "dashboard")):
        if given.get(key):
            _address(str(given[key]), what)
    reference = given.get("prometheus_credential")
    if reference and not _REFERENCE.fullmatch(reference):
        raise ValueError("A metrics credential is named by env:NAME or file:PATH; it is not written here.")
    tenant = given.get("prometheus_tenant")
    if tenant and not _TENANT.fullmatch(tenant):
        raise ValueError("A tenant is one word, or HEADER=VALUE.")
    if given.get("prometheus_match") and not is_match(given["prometheus_match"]):
        raise ValueError('Matchers look like cluster="east",env="prod".')
    unknown = set(_PLACE.findall(given.get("grafana_url") or "")) - set(PLACES)
    if unknown:
        raise ValueError(f"The dashboard's address has no place {{{min(unknown)}}}; it may have {{node}}, {{cluster}}, "
                         "{from} and {to}.")  # fmt: skip


def is_match(text: str) -> bool:
    """Whether it is a list of matchers and nothing else: it goes into every query as it is."""
    at = 0
    while found := _MATCHER.match(text, at):
        at = found.end()
        if at == len(text):
            return True
        if text[at] != ",":
            return False
        at += 1
    return False


def _address(text: str, what: str) -> None:
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"The address of the {what} must begin with http:// or https:// and name a host.")
    if parts.username or parts.password:
        raise ValueError(f"The address of the {what} carries a credential: name it by reference instead.")
