"""Whatever can keep a workflow waiting has a sentence that people understand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fleet.lifecycle.grants import GUARD_CODES
from fleet.policy.rules import KIND_WORDS
from fleet.ports.errors import PortError
from fleet.readmodels.reasons import CATALOGUE, manual, parts_of
from tests.architecture.sources import ROOT, functions, modules, name, tree

ANSWERS = {"Blocked", "Decision", "Failed", "Repair"}
PASSED_ON = (".code", ".blocked_code")  # of an answer that was made elsewhere
OUTSIDE = ("simulator", "bench", "health", "telemetry", "api", "observer")
FILLED = {"kind": sorted(KIND_WORDS), "whose": ["metrics", "fabric"]}


def errors() -> set[type[PortError]]:
    found, pending = {PortError}, [PortError]
    while pending:
        pending = [below for above in pending for below in above.__subclasses__()]
        found |= set(pending)
    return found


ERRORS = {error.__name__ for error in errors()}


def read(expression: ast.expr, assigned: dict[str, list[ast.expr]]) -> list[str] | None:
    """Every code that the expression can come to; None where this test cannot tell."""
    if isinstance(expression, ast.Constant):
        return [str(expression.value)] if expression.value else []
    if isinstance(expression, ast.IfExp):
        parts = [read(expression.body, assigned), read(expression.orelse, assigned)]
        return None if None in parts else [code for part in parts for code in part or []]
    if isinstance(expression, ast.JoinedStr):
        texts = [""]
        for part in expression.values:
            if isinstance(part, ast.Constant):
                texts = [text + str(part.value) for text in texts]
            elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) in FILLED:
                texts = [text + value for text in texts for value in FILLED[ast.unparse(part.value)]]
            else:
                return None
        return texts
    said = ast.unparse(expression)
    if said.endswith(PASSED_ON):
        return []
    if said in assigned:
        found = [read(value, {}) for value in assigned[said]]
        return None if None in found else [code for part in found for code in part or []]
    return constants().get(said.rpartition(".")[2])


@cache
def constants() -> dict[str, list[str]]:
    """Texts that modules give a name in capitals, one by one or many at once."""
    found: dict[str, list[str]] = {}
    for path in modules():
        for node in tree(path).body:
            if not isinstance(node, ast.Assign):
                continue
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for one, text in pairs:
                said = text.value if isinstance(text, ast.Constant) else None
                if isinstance(one, ast.Name) and one.id.isupper() and isinstance(said, str):
                    found.setdefault(one.id, []).append(said)
    return found


def carried(call: ast.Call) -> ast.expr | None:
    """The expression of the code in the making of an answer, an error or a row."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if called in ANSWERS:
        return call.args[0] if call.args else given.get("code")
    if called in ERRORS:
        return given.get("code")
    return None if called in ("filter", "exclude") else given.get("blocked_code")


def written(path: Path) -> Iterator[ast.expr]:
    """What is put into a row by `{"blocked_code": ...}`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "blocked_code":
                    yield value


def calls(path: Path) -> Iterator[tuple[ast.Call, dict[str, list[ast.expr]], set[str]]]:
    """Each call with what its function assigns to a plain name, and the names of its parameters."""
    for function in functions(path):
        assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
        parameters = {argument.arg for argument in function.args.args + function.args.kwonlyargs}
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                yield node, assigned, parameters


def passed_in(path: Path, parameter: str) -> list[ast.expr]:
    """Where the code is a parameter: what the module's calls give for it, by place or by name."""
    found = []
    for function in functions(path):
        places = [argument.arg for argument in function.args.args]
        if parameter not in places:
            continue
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called != function.name:
                continue
            at = places.index(parameter) - ("self" in places)
            found += node.args[at : at + 1] or [k.value for k in node.keywords if k.arg == parameter]
    return found


@cache
def codes() -> tuple[set[str], list[str]]:
    """Every code in the source, and the places that this test cannot read."""
    found, unread = {error.code for error in errors()}, []
    for path in modules():
        if path.relative_to(ROOT).parts[1] in OUTSIDE or "bench" in path.parts:
            continue
        found.update(code for value in written(path) for code in read(value, {}) or [])
        for call, assigned, parameters in calls(path):
            expression = carried(call)
            if expression is None:
                continue
            said = ast.unparse(expression)
            if said in parameters and said not in assigned:
                assigned = {**assigned, said: passed_in(path, said)}
            here = read(expression, assigned)
            if here is None:
                unread.append(f"{name(path)}:{call.lineno} {said}")
            found.update(here or [])
    return found, unread


def test_every_code_is_a_word_that_this_test_can_read() -> None:
    assert codes()[1] == []


def test_every_code_in_the_source_is_in_the_catalogue() -> None:
    found = codes()[0]
    assert len(found) > 80, "the walk has lost its way"
    assert sorted(found - set(CATALOGUE)) == []
    assert sorted(set(GUARD_CODES) - set(CATALOGUE)) == []


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_entry_says_what_clears_it_and_what_one_can_do(code: str) -> None:
    reason = CATALOGUE[code]
    for said in (reason.text, reason.clears, reason.do):
        assert str(said).strip().endswith("."), f"{code}: {said!r} is no sentence"
        assert not str(said)[:1].islower()
    assert str(reason.name) and str(reason.who)
    assert len(code) <= 32, "the column holds 32 characters"


def test_no_entry_is_left_over() -> None:
    """Codes that no source can carry any more, apart from those that the read models themselves give."""
    from fleet.readmodels.explain import OWN

    assert sorted(set(CATALOGUE) - codes()[0] - set(GUARD_CODES) - OWN) == []


def test_the_manual_shows_the_catalogue_as_it_is() -> None:
    shown = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    assert shown == manual.page(), "manage.py why --reasons > docs/why.md"


@pytest.mark.parametrize(("code", "sentence"), manual.TEN.items())
def test_the_manual_quotes_what_operators_read(code: str, sentence: str) -> None:
    """Each quoted sentence has the shape of one that the code says."""
    assert parts_of(CATALOGUE[code], sentence) is not None
