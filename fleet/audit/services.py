"""Appends to the audit log.

Decides order and hash of rows. Must be the last write of its transaction: it takes the chain's lock, and whoever took
another lock after it could deadlock. Refuses to run outside a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from fleet.audit.chain import row_hash
from fleet.audit.models import AuditHead, AuditRow


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing somebody did. `actor` is a user name or `muster:<process>`; `detail` is JSON and holds no secret."""

    actor: str
    action: str
    object: str
    node: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


def chain_of(cluster_id: int) -> str:
    return f"cluster:{cluster_id}"


def record(chain: str, entries: Sequence[Entry], now: datetime) -> None:
    """Append `entries` to `chain` in the caller's transaction."""
    if not entries:
        return
    if not connection.in_atomic_block:
        raise RuntimeError("audit rows belong to the transaction of the change")
    head = AuditHead.objects.select_for_update().filter(chain=chain).first()
    if head is None:
        AuditHead.objects.get_or_create(chain=chain)
        head = AuditHead.objects.select_for_update().get(chain=chain)
    seq, prev, rows = head.seq, head.hash, []
    for entry in entries:
        seq += 1
        detail = json.loads(json.dumps(entry.detail, default=str))
        fields = {
            "chain": chain,
            "seq": seq,
            "at": now,
            "actor": entry.actor,
            "action": entry.action,
            "object": entry.object,
            "node": entry.node,
            "detail": detail,
        }
        digest = row_hash(prev, fields)
        rows.append(AuditRow(**fields, prev=prev, hash=digest))
        prev = digest
    AuditRow.objects.bulk_create(rows)
    AuditHead.objects.filter(pk=head.pk).update(seq=seq, hash=prev)
