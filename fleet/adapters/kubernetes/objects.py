"""Custom objects of an API server, for adapters of what lives there.

Decides how a list is paged and a patch written. Refuses to know any kind: its users hand in paths.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes import access
from fleet.adapters.kubernetes.client import MERGE_PATCH, ApiServer, decode
from fleet.adapters.kubernetes.errors import refused
from fleet.ports.shapes import items, mapping, text

PAGE = "500"


class CustomObjects:
    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def read(self, path: str, resource: str) -> dict[str, Any]:
        return mapping(self._api.get(path, resource))

    def items(self, path: str, resource: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params = {"limit": PAGE}
        while True:
            page = mapping(self._api.get(path, resource, verb="list", params=params))
            found += items(page.get("items"))
            more = text(mapping(page.get("metadata")).get("continue"))
            if not more:
                return found
            params = {"limit": PAGE, "continue": more}

    def patch(self, path: str, resource: str, body: dict[str, Any]) -> dict[str, Any]:
        call = self._api.call("patch", resource)
        answer = self._api.write(call, "PATCH", path, body, MERGE_PATCH)
        if not answer.ok:
            raise refused(call, answer)
        return mapping(decode(call, answer))

    def lacking(self, rights: list[tuple[str, str, str, str]]) -> list[str]:
        why = "no host can be installed anew"
        return access.missing(
            self._api, tuple(access.Right(v, r, why, group, namespace=within) for v, r, group, within in rights)
        )
