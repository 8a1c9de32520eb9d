"""How the API's lists are cut.

Decides the bounds of one answer. Refuses unbounded lists.
"""

from __future__ import annotations

from ninja import Schema

MOST, FARTHEST = 1000, 10**9
LARGEST = 2**63 - 1
"""The largest number that a row can have."""


class Paging(Schema):
    limit: int = 100
    offset: int = 0

    def cut(self) -> slice:
        start = max(0, min(FARTHEST, self.offset))
        return slice(start, start + max(1, min(MOST, self.limit)))
