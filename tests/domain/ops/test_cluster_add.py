"""`cluster add` says at once what its two credentials cannot do, and registers the cluster all the same."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command

from fleet import wiring
from fleet.inventory.models import Cluster
from fleet.ports.errors import PermanentError

pytestmark = pytest.mark.django_db
NO_PATCH = "The credential may not patch nodes at https://10.0.0.1:6443: no node can be held or released."


class Credential:
    """A port whose check says what the test wants."""

    def __init__(self, *missing: str, broken: str = "") -> None:
        self._missing, self._broken = list(missing), broken

    def check(self) -> list[str]:
        if self._broken:
            raise PermanentError(self._broken)
        return self._missing


def _add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: Credential, acting: Credential) -> str:
    for name in ("read", "act"):
        (tmp_path / name).write_text("clusters: []\n")
    monkeypatch.setattr(wiring, "reader", lambda cluster: reading)
    monkeypatch.setattr(wiring, "actor", lambda cluster: acting)
    out = io.StringIO()
    files = ["--kubeconfig", str(tmp_path / "read"), "--act-kubeconfig", str(tmp_path / "act")]
    call_command("cluster", "add", "busan", *files, "--selector", "*", stdout=out)
    return out.getvalue()


def test_a_right_that_the_acting_credential_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = _add(tmp_path, monkeypatch, Credential(), Credential(NO_PATCH))
    assert f"  ! {NO_PATCH}" in said
    assert Cluster.objects.filter(name="busan").exists()


def test_what_ails_both_credentials_alike_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Credential(broken="https://10.0.0.1:6443 cannot be reached (get version): refused")
    assert _add(tmp_path, monkeypatch, away, away).count("cannot be reached") == 1


def test_nothing_is_said_where_nothing_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "!" not in _add(tmp_path, monkeypatch, Credential(), Credential())
