"""YAML from outside: plain values, or one kind of error, at a bounded cost."""

from __future__ import annotations

import time
import tracemalloc

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.ports import plainyaml

LAUGH = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGE = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 40))


def test_an_anchor_used_twice_and_a_merge_are_read() -> None:
    assert plainyaml.load("d: &d {rack: r1}\nn: [{<<: *d, node: a}, {<<: *d, node: b}]") == {
        "d": {"rack": "r1"},
        "n": [{"rack": "r1", "node": "a"}, {"rack": "r1", "node": "b"}],
    }
    assert plainyaml.load("") is None


@pytest.mark.parametrize("text", [LAUGH, MERGE, "a: &a [*a]", "a: &a {<<: *a}", "[" * 400, "a: [" * 400])
def test_a_bomb_is_refused_while_it_is_small(text: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(yaml.YAMLError) as found:
        plainyaml.load(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(found.value) and peak < 32 << 20 and time.process_time() - began < 10


@pytest.mark.parametrize(
    "text",
    [
        "a: 2020-13-01",
        'a: !!int ""',
        "a: !!bool x",
        'a: !!float ""',
        "a: !!timestamp x",
        "0x" + "f" * 5000,
        "9" * 5000,
        "\0",
        "!!python/object:os.system a",
        "? [a]: b",
    ],
)
def test_what_fails_inside_the_library_is_the_same_error_with_a_place(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as found:
        plainyaml.load(text)
    assert "line" in str(found.value) or "position" in str(found.value)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                ": ",
                "\n",
                "  ",
                "- ",
                "[",
                "]",
                "{",
                "}",
                "&a ",
                "*a",
                "<<",
                "!!int ",
                "!!set ",
                '"',
                "|",
                "1",
                "#",
                ",",
            ]
        )
        | st.text(max_size=3),
        max_size=30,
    )
)
def test_any_text_is_values_or_that_error(parts: list[str]) -> None:
    try:
        plainyaml.load("".join(parts))
    except yaml.YAMLError as error:
        assert str(error)


def test_a_key_that_is_there_twice_can_be_refused() -> None:
    assert plainyaml.load("{a: 1, a: 2}") == {"a": 2}
    with pytest.raises(yaml.YAMLError, match="'a' is there twice"):
        plainyaml.load("x:\n- {a: 1, a: 2}\n", keys_once=True)
    assert plainyaml.load("{a: {b: 1}, c: {b: 1}}", keys_once=True) == {"a": {"b": 1}, "c": {"b": 1}}
