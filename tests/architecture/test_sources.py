"""The shape of the source: sizes, docstrings, annotations, names."""

from __future__ import annotations

import ast
import statistics

from tests.architecture.sources import ROOT, functions, length, modules, name, tree

LONGEST_MODULE, MEDIAN_MODULE = 400, 120
LONGEST_FUNCTION, NINETIETH_FUNCTION = 60, 35
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "manager.py", "managers.py", "common.py", "misc.py", "signals.py"}


def lines(text: str) -> int:
    return text.count("\n")


def test_no_module_is_too_long() -> None:
    sizes = {name(path): lines(path.read_text(encoding="utf-8")) for path in modules()}
    assert {path: size for path, size in sizes.items() if size > LONGEST_MODULE} == {}
    assert statistics.median(size for size in sizes.values() if size > 1) <= MEDIAN_MODULE


def test_no_test_module_is_too_long() -> None:
    sizes = {name(path): lines(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert {path: size for path, size in sizes.items() if size > LONGEST_MODULE} == {}


def test_no_function_is_too_long() -> None:
    sizes = {f"{name(path)}:{f.lineno} {f.name}": length(f) for path in modules() for f in functions(path)}
    assert {where: size for where, size in sizes.items() if size > LONGEST_FUNCTION} == {}
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= NINETIETH_FUNCTION


def test_every_module_says_what_it_decides() -> None:
    silent = [name(path) for path in modules() if tree(path).body and not ast.get_docstring(tree(path))]
    assert silent == []


def test_every_function_is_annotated() -> None:
    bare = []
    for path in modules():
        for function in functions(path):
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            missing = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
            if missing or function.returns is None:
                bare.append(f"{name(path)}:{function.lineno} {function.name}")
    assert bare == []


def test_no_module_is_a_drawer() -> None:
    assert [name(path) for path in modules() if path.name in FORBIDDEN_NAMES] == []


def test_no_logic_hides_in_save_or_signals() -> None:
    found = []
    for path in modules():
        for function in functions(path):
            if function.name == "save" and path.name.startswith("models"):
                found.append(f"{name(path)}:{function.lineno} save()")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("django.db.models.signals"):
                found.append(f"{name(path)}:{node.lineno} signals")
    assert found == []


def test_only_the_clock_asks_the_time_of_day() -> None:
    """`datetime.now()` and `timezone.now()` elsewhere would be a time that tests cannot move."""
    allowed = {"fleet/ports/clock.py"}
    found = []
    for path in modules():
        if name(path) in allowed or name(path).startswith("fleet/simulator/"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                asks = node.func.attr in ("now", "utcnow") and isinstance(node.func.value, ast.Name)
                if asks and node.func.value.id in ("datetime", "timezone"):
                    found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def test_every_tests_folder_is_a_package() -> None:
    """Else tests/adapters/kubernetes would shadow the vendor's package of that name."""
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert sorted(name(folder) for folder in folders if not (folder / "__init__.py").exists()) == []
