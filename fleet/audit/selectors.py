"""Reads and verifies the audit log.

Decides whether a chain is whole: numbers without a gap, each hash right, the tip equal to the head. Writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.audit.chain import row_hash
from fleet.audit.models import AuditHead, AuditRow


@dataclass(frozen=True, slots=True)
class Verification:
    chain: str
    rows: int
    problem: str  # "" if the chain is whole


def verify(chain: str) -> Verification:
    """Walk one chain from its first row; the first break is told with its number."""
    prev, count = "", 0
    for row in AuditRow.objects.filter(chain=chain).order_by("seq").iterator(chunk_size=2000):
        count += 1
        fields = {
            "chain": row.chain,
            "seq": row.seq,
            "at": row.at,
            "actor": row.actor,
            "action": row.action,
            "object": row.object,
            "node": row.node,
            "detail": row.detail,
        }
        if row.seq != count:
            return Verification(chain, count, f"row {count} is missing")
        if row.prev != prev or row.hash != row_hash(prev, fields):
            return Verification(chain, count, f"row {row.seq} does not match its hash")
        prev = row.hash
    head = AuditHead.objects.filter(chain=chain).first()
    if head is not None and (head.seq != count or head.hash != prev):
        return Verification(chain, count, f"the head says {head.seq} rows, {count} are there")
    return Verification(chain, count, "")


def chains() -> list[str]:
    named = set(AuditHead.objects.values_list("chain", flat=True))
    named |= set(AuditRow.objects.values_list("chain", flat=True).distinct())
    return sorted(named)
