"""How settings are read from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet import settings_env as env


def test_a_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word\n")
    monkeypatch.setenv("MUSTER_SOMETHING_FILE", str(tmp_path / "secret"))
    assert env.text("MUSTER_SOMETHING") == "word"
    monkeypatch.setenv("MUSTER_SOMETHING", "direct")
    assert env.text("MUSTER_SOMETHING") == "direct"


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SOMETHING_FILE", "/nowhere/secret")
    with pytest.raises(env.BadSetting, match="MUSTER_SOMETHING_FILE names /nowhere/secret"):
        env.text("MUSTER_SOMETHING")


@pytest.mark.parametrize("bad", ["many", "0.5", "-1"])
def test_a_number_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("MUSTER_PORT", bad)
    with pytest.raises(env.BadSetting, match="MUSTER_PORT"):
        env.whole("MUSTER_PORT", 8000, 1)


@pytest.mark.parametrize(("word", "meant"), [("yes", True), ("0", False), ("ON", True), ("", False)])
def test_a_switch_knows_the_usual_words(monkeypatch: pytest.MonkeyPatch, word: str, meant: bool) -> None:
    monkeypatch.setenv("MUSTER_DEBUG", word)
    assert env.switch("MUSTER_DEBUG") is meant


def test_a_switch_does_not_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DEBUG", "perhaps")
    with pytest.raises(env.BadSetting, match="neither yes nor no"):
        env.switch("MUSTER_DEBUG")
