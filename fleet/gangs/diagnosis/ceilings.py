"""Whether what a gang lacks would go beyond what its queue may use at all.

Decides for schedulers that refuse such a gang in silence or in an event alone: Volcano leaves its group Pending without
a condition, and an ElasticQuota speaks through pods that may not be there yet. Refuses to judge queues whose own
scheduler says so, and those that count a pool and no right (Slurm's partitions).
"""

from __future__ import annotations

from collections import Counter

from fleet.gangs.form import Gang
from fleet.ports.gangs import QueueObject, Said

SILENT = ("volcano", "coscheduling")


def kept_out(gang: Gang) -> bool:
    """Such a scheduler's queue has not let it in (Volcano's phase Pending, in which not even its pods are made)."""
    return any(one.ref.system in SILENT and one.admitted is False for one in gang.objects)


def beyond(gang: Gang, queue: QueueObject | None) -> Said | None:
    """QUOTA, or EXCEEDS_MAX where it would not even fit into the empty queue; None where neither is so."""
    if queue is None or queue.ref.system not in SILENT:
        return None
    lacks, holds = _lacks(gang), Counter[str]()
    for member in gang.members:
        if member.node:
            holds[member.need.resource] += member.need.gpus
    for quota in queue.quotas:
        more = lacks[quota.resource]
        if not more or quota.ceiling is None or quota.used + more <= quota.ceiling:
            continue
        never = holds[quota.resource] + more > quota.ceiling
        words = (
            f"{quota.used:g} of {quota.ceiling:g} {quota.resource} of the queue are in use, and {more} more are needed."
        )
        return Said("EXCEEDS_MAX" if never else "QUOTA", words, None, f"{queue.ref.kind} {queue.ref.name}")
    return None


def _lacks(gang: Gang) -> Counter[str]:
    """The fewest devices that reach its minimum: members without any (a launcher) that are to come count towards it."""
    found: Counter[str] = Counter()
    told = {part.role: part for one in gang.objects for part in one.parts if part.need is not None}
    without = sum(part.wanted for part in told.values() if part.need is not None and not part.need.gpus)
    without -= sum(1 for member in gang.members if member.node and not member.need.gpus)
    without -= sum(missing.count for missing in gang.missing if missing.need is not None and not missing.need.gpus)
    for missing in sorted(gang.missing, key=lambda one: -(one.need.gpus if one.need else 0)):
        if missing.need is not None and missing.need.gpus:
            spared = max(0, min(without, missing.count))
            without -= spared
            found[missing.need.resource] += missing.need.gpus * (missing.count - spared)
    return found
