"""A quota as one bar: used within the guarantee, borrowed above it, a mark at the guarantee, the ceiling as its end.

Decides the geometry. Refuses more than the whole width. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.readmodels.queue_quota import Share

WIDTH = 200.0


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """`mark` None: it guarantees nothing, or the guarantee is the end of the bar."""

    share: Share
    used: float
    borrowed_from: float
    borrowed: float
    mark: float | None
    resource: str


def quota_bar(share: Share) -> QuotaBar:
    guaranteed = share.guaranteed or 0.0
    whole = max(share.ceiling or 0.0, guaranteed, share.used, 1e-9)
    unit = WIDTH / whole
    within = min(share.used, guaranteed) if share.guaranteed is not None else share.used
    mark = guaranteed * unit if 0 < guaranteed < whole else None
    return QuotaBar(
        share,
        used=round(within * unit, 2),
        borrowed_from=round(within * unit, 2),
        borrowed=round((share.used - within) * unit, 2),
        mark=None if mark is None else round(mark, 2),
        resource=short(share.resource),
    )


def short(resource: str) -> str:
    """`nvidia.com/gpu` as `GPU`; slices keep their profile."""
    name = resource.rsplit("/", 1)[-1]
    return "GPU" if name.lower() in ("gpu", "gpus") else name
