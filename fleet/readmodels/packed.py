"""Rows of other tables carried inside one query as JSON arrays.

Decides how a model's row is packed by the database and made an instance again, so that a page with eight kinds of rows
costs one query instead of eight. Refuses relations: an instance made here holds its foreign keys as ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Model, QuerySet
from django.db.models.functions import JSONObject

Row = TypeVar("Row", bound=Model)


def rows_of(query: QuerySet[Any], limit: int | None = None) -> ArraySubquery:
    """The whole rows of `query`, in its order."""
    names = [field.attname for field in query.model._meta.concrete_fields]
    packed = query.values(packed=JSONObject(**{name: name for name in names}))
    return ArraySubquery(packed if limit is None else packed[:limit])


def rebuilt(model: type[Row], rows: Iterable[dict[str, Any]] | None) -> list[Row]:
    """Instances out of what `rows_of` brought."""
    fields = model._meta.concrete_fields
    names = [field.attname for field in fields]
    return [
        model.from_db("default", names, [field.to_python(row[field.attname]) for field in fields]) for row in rows or ()
    ]
