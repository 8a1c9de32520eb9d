"""YAML that people and machines hand to us, read within bounds.

Decides what a document may cost: a hundred bytes of aliases can stand for a billion values, so values are counted as if
each alias were written out. Refuses a document that contains itself or a number that nothing could hold, and makes
every failure of reading one kind of error: a number without digits or a month thirteen fails inside the library in ways
that nobody expects.
"""

from __future__ import annotations

from typing import Any

import yaml

MAX_VALUES, MAX_DEPTH = 2_000_000, 100
_SURPRISES = (ValueError, IndexError, KeyError, AttributeError, TypeError, OverflowError, RecursionError)


class _Loader(yaml.SafeLoader):
    """Counts what it composes."""

    def __init__(self, text: str, keys_once: bool = False) -> None:
        super().__init__(text)
        self._keys_once = keys_once
        self._values = self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        alias, mark, before = self.check_event(yaml.AliasEvent), self.peek_event().start_mark, self._values
        if self._depth >= MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_DEPTH} values inside each other", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias and id(node) not in self._sizes:
            raise yaml.composer.ComposerError(None, None, "a value that contains itself", mark)
        self._values += self._sizes[id(node)] if alias else 1
        if self._values > MAX_VALUES:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_VALUES} values", mark)
        self._sizes[id(node)] = self._values - before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if self._keys_once else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    value: int = loader.construct_yaml_int(node)
    if abs(value) >> 64:
        raise yaml.constructor.ConstructorError(None, None, "a number of more than 64 bits", node.start_mark)
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _whole)


def load(text: str, *, keys_once: bool = False) -> Any:
    """The document's plain values; with `keys_once` no mapping may have a key twice, of which YAML keeps the last.

    Raises yaml.YAMLError, and nothing else, for whatever is none.
    """
    loader = _Loader(text, keys_once)
    try:
        return loader.get_single_data()
    except _SURPRISES as error:
        said = f"a value that cannot be read: {_short(error)}"
        raise yaml.MarkedYAMLError(problem=said, problem_mark=loader.get_mark()) from error
    finally:
        loader.dispose()


def documents(text: str, *, keys_once: bool = False) -> list[tuple[Any, dict[tuple[object, ...], int]]]:
    """Every document of a stream with the lines of its keys and items (`lines`). Bounds and errors as of `load`."""
    loader, found = _Loader(text, keys_once), []
    try:
        while loader.check_node():
            root = loader.get_node()
            where = _lines_of(root)  # before it is read: reading merges mappings into each other
            found.append((loader.construct_document(root), where))
        return found
    except _SURPRISES as error:
        said = f"a value that cannot be read: {_short(error)}"
        raise yaml.MarkedYAMLError(problem=said, problem_mark=loader.get_mark()) from error
    finally:
        loader.dispose()


def _short(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}{f' ({lines[0][:120]})' if lines else ''}"


def lines(text: str) -> dict[tuple[object, ...], int]:
    """The line of every key and item of a document that `load` has read: its path -> its line, from 1."""
    return _lines_of(yaml.compose(text, Loader=yaml.SafeLoader))


def _lines_of(root: yaml.Node | None) -> dict[tuple[object, ...], int]:
    found: dict[tuple[object, ...], int] = {}
    left: list[tuple[tuple[object, ...], yaml.Node]] = [((), root)] if root is not None else []
    while left and len(found) < MAX_VALUES:
        path, node = left.pop()
        found.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                place = (*path, _plain(key))
                found[place] = key.start_mark.line + 1
                left.append((place, value))
        elif isinstance(node, yaml.SequenceNode):
            left.extend(((*path, number), item) for number, item in enumerate(node.value))
    return found


def _plain(key: yaml.Node) -> object:
    """A key as `load` gives it where that can be a key; what cannot was refused before."""
    value = getattr(key, "value", None)
    if key.tag == "tag:yaml.org,2002:int" and isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, str) else None
