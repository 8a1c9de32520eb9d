"""Savepoints that travel with the next statement leave the same rows as Django's own, errors and deaths included."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.domain.lifecycle.savepoints import carried
from tests.domain.lifecycle.world import Crash

TREES = st.recursive(
    st.sampled_from(["write", "write", "read", "refused"]),
    lambda inner: st.tuples(st.sampled_from(["ends", "ends", "raises", "dies"]), st.lists(inner, max_size=4)),
    max_leaves=14,
)


def grow(tree: Any, numbers: list[int]) -> None:
    """A leaf is a statement; a branch is an atomic block that ends well, with an exception or with a death."""
    if isinstance(tree, tuple):
        how, inner = tree
        with suppress(ZeroDivisionError, Crash), transaction.atomic():
            for part in inner:
                grow(part, numbers)
            if how != "ends":
                raise ZeroDivisionError if how == "raises" else Crash(how)
        return
    numbers.append(len(numbers))
    with connection.cursor() as cursor:
        if tree == "write":
            cursor.execute("INSERT INTO seen VALUES (%s)", [numbers[-1]])
            assert cursor.rowcount == 1
        elif tree == "read":
            cursor.execute("SELECT count(*), 7 FROM seen")
            assert cursor.fetchall()[0][1] == 7
        else:
            with pytest.raises(IntegrityError), transaction.atomic():
                cursor.execute("INSERT INTO seen VALUES (NULL)")


def left(trees: list[Any], how: Any) -> list[Any]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE seen (n integer NOT NULL) ON COMMIT DROP")
        with how:
            numbers: list[int] = []
            for tree in trees:
                grow(tree, numbers)
            with connection.cursor() as cursor:
                cursor.execute("SELECT n FROM seen ORDER BY n")
                rows = cursor.fetchall()
        transaction.set_rollback(True)
    return rows


@settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(trees=st.lists(TREES, max_size=5))
@pytest.mark.django_db
def test_the_rows_are_those_that_djangos_own_savepoints_leave(trees: list[Any]) -> None:
    assert left(trees, carried()) == left(trees, nullcontext())


@pytest.mark.django_db
def test_nothing_but_statements_is_sent_where_savepoints_surround_nothing() -> None:
    sent: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        sent.append(sql)
        return execute(sql, *rest)

    with transaction.atomic(), carried(), connection.execute_wrapper(note):
        for _ in range(3):
            with transaction.atomic(), transaction.atomic():
                pass
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    assert sent == ["SELECT 1"]
    assert "make_cursor" not in vars(transaction.get_connection())
