"""Only one installation acts in a cluster: not its restored copy, and not while the original has nothing to do."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from fleet import wiring, wiring_installation
from fleet.inventory.models import Cluster
from fleet.ports.errors import TemporaryError
from tasks import engine
from tests.builders import a_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def here(settings: Any, tmp_path: Path) -> Any:
    settings.INSTALLATION_ID_FILE = tmp_path / "installation_id"
    wiring_installation.holder.cache_clear()
    yield
    wiring_installation.holder.cache_clear()


class Acting:
    """The Lease of one cluster, as its API server keeps it."""

    def __init__(self) -> None:
        self.held_by = ""
        self.claims = 0

    def claim_lease(self, name: str, ttl_seconds: int) -> bool:
        self.claims += 1
        self.held_by = self.held_by or name
        return self.held_by == name


def test_a_copy_that_was_restored_with_the_identifier_is_somebody_else() -> None:
    """`var/installation_id` is part of a backup; the PostgreSQL that the database lies in is not."""
    here = wiring_installation.holder()
    assert re.fullmatch(rf"{wiring_installation.installation_id()}/\d+-\d+", here)
    acting: Any = Acting()
    assert wiring_installation.Lease(acting, here)()
    original, copy = here, f"{wiring_installation.installation_id()}/7400000000000000000-16384"
    assert not wiring_installation.Lease(acting, copy)() and acting.held_by == original


def test_all_processes_of_an_installation_have_one_name() -> None:
    first = wiring_installation.holder()
    wiring_installation.holder.cache_clear()
    assert wiring_installation.holder() == first


@pytest.mark.parametrize(
    ("error", "asked_again"),
    [("insufficient_privilege", False), ("feature_not_supported", False), ("query_canceled", True)],
)
def test_a_server_that_may_not_say_who_it_is_leaves_the_identifier_alone(
    monkeypatch: pytest.MonkeyPatch, error: str, asked_again: bool
) -> None:
    asks = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{error}'; END $$"
    monkeypatch.setattr(wiring_installation, "DATABASE", asks)
    if asked_again:
        with pytest.raises(OperationalError):
            wiring_installation.holder()
        monkeypatch.undo()
    assert wiring_installation.holder().startswith(wiring_installation.installation_id())
    assert ("/" in wiring_installation.holder()) is asked_again


def test_the_lease_is_renewed_while_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs out for want of work is taken by whoever comes, and the original is kept out of its own cluster."""
    asked: list[str] = []

    def ports_of(cluster: Cluster) -> Any:
        if cluster.name == "silent":
            raise TemporaryError("Nobody there.")
        return SimpleNamespace(lease=lambda: asked.append(cluster.name))

    monkeypatch.setattr(wiring, "ports_of", ports_of)
    monkeypatch.setattr(engine, "close_old_connections", lambda: None)
    for name, mode in (("a", "automate"), ("silent", "automate"), ("b", "recommend"), ("c", "observe")):
        a_cluster(name, mode=mode)
    engine.keep_leases()
    assert sorted(asked) == ["a", "b"]


def test_the_lease_is_renewed_more_often_than_it_runs_out() -> None:
    from tasks.celery import app

    every = app.conf.beat_schedule["leases"]["schedule"]
    assert every * 3 < wiring_installation.LEASE_SECONDS
