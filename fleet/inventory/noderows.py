"""Some columns of many nodes' rows in one statement.

Decides nothing. An upsert of whole rows carries every column of every node to the server and back into its checks; a
cordon changes four of forty. Refuses to make a row: one that is gone meanwhile stays gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection, models

from fleet.inventory.models import Node


def update(nodes: Sequence[Node], names: Collection[str], batch: int) -> None:
    """`names` are attributes (`pool_id`, not `pool`), written as they stand on the nodes."""
    fields = [field for field in Node._meta.concrete_fields if field.attname in names]
    columns = [f'"{field.column}"' for field in fields]
    kinds = [_kind(field) for field in fields]
    sets = ", ".join(f"{name} = v.{name}::{kind}" for name, kind in zip(columns, kinds, strict=True))
    arrays = ", ".join(["%s::bigint[]", *(f"%s::{'text' if kind == 'jsonb' else kind}[]" for kind in kinds)])
    sql = f"UPDATE inventory_node SET {sets} FROM unnest({arrays}) AS v(node, {', '.join(columns)}) WHERE id = v.node"  # noqa: S608
    with connection.cursor() as cursor:
        for at in range(0, len(nodes), batch):
            some = nodes[at : at + batch]
            values = [[_value(node, field) for node in some] for field in fields]
            cursor.execute(sql, [[node.pk for node in some], *values])


def _kind(field: models.Field[Any, Any]) -> str:
    return str(field.rel_db_type(connection) if field.is_relation else field.db_type(connection))


def _value(node: Node, field: models.Field[Any, Any]) -> Any:
    value = getattr(node, field.attname)
    return json.dumps(value) if isinstance(field, models.JSONField) else value
