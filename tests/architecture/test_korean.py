"""The Korean texts: complete where operators look most, compiled as they are written, and true to their places."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache

import pytest
from django.utils import translation
from django.utils.translation.template import templatize

from dashboard.words import STATE_WORD, VERDICT_WORD
from fleet.ops.management.commands import makemessages
from fleet.readmodels import reasons, words
from tests.architecture.sources import ROOT, modules, tree

FOLDER = ROOT / "locale" / "ko" / "LC_MESSAGES"
PLACE = re.compile(r"%\(\w+\)[sd]|\{\w+\}|%n\b|%s|%%")
SHARE = 0.95
"""So much of all texts is in Korean at least; what is missing is shown in English."""
MARKS = {"_", "gettext", "gettext_lazy", "gettext_noop", "lazy", "noop", "ngettext", "ngettext_lazy"}
IN_TEMPLATE = re.compile(r"""\b(?:gettext|ngettext|_)\((u?'(?:[^'\\]|\\.)*'|u?"(?:[^"\\]|\\.)*")""")


def _text(block: str, name: str) -> str:
    """The joined strings after `name` in one entry."""
    found = re.search(rf'^{re.escape(name)} ((?:".*"\n?)+)', block, re.MULTILINE)
    return "".join(ast.literal_eval(part) for part in re.findall(r'".*"', found[1])) if found else ""


@cache
def blocks() -> list[str]:
    found = (FOLDER / "django.po").read_text(encoding="utf-8").split("\n\n")[1:]
    assert not any(re.match("#,.*fuzzy", block) for block in found), "a guess of the tool is no translation"
    return found


@cache
def entries() -> dict[str, str]:
    """msgid -> msgstr, "" where there is none."""
    return {_text(block, "msgid"): _text(block, "msgstr") or _text(block, "msgstr[0]") for block in blocks()}


@cache
def plurals() -> dict[str, str]:
    """msgid -> msgid_plural, "" where there is none."""
    return {_text(block, "msgid"): _text(block, "msgid_plural") for block in blocks()}


def test_the_compiled_texts_are_those_that_are_written() -> None:
    with (FOLDER / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    written = {text: korean for text, korean in entries().items() if korean}
    differs = [
        text
        for text, korean in written.items()
        if korean not in (compiled.gettext(text), compiled.ngettext(text, text, 2))
    ]
    assert differs == [], "msgfmt -o locale/ko/LC_MESSAGES/django.mo locale/ko/LC_MESSAGES/django.po"


def _marked() -> Iterator[str]:
    """Every text that the source and the templates mark for translation, whether or not anybody collected it."""
    for path in modules():
        for node in ast.walk(tree(path)) if b"gettext" in path.read_bytes() else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS and node.args:
                said = node.args[0]
                if isinstance(said, ast.Constant) and isinstance(said.value, str):
                    yield said.value
    for path in (ROOT / "templates").rglob("*.html"):
        for literal in IN_TEMPLATE.findall(templatize(path.read_text(encoding="utf-8"))):
            yield ast.literal_eval(literal)


def test_how_much_is_in_korean() -> None:
    """Of what is marked, not of what was collected: a text that nobody collected is in English too."""
    marked = set(_marked())
    assert len(marked) > 1500, "the walk has lost its way"
    missing = sorted(text for text in marked if not entries().get(text))
    share = 1 - len(missing) / len(marked)
    print(f"{len(marked) - len(missing)} of {len(marked)} texts are in Korean ({share:.0%}).")
    assert share >= SHARE, f"manage.py makemessages -l ko --no-location --no-wrap --no-obsolete: {missing}"


def test_every_place_of_a_text_stands_in_its_korean_once_more() -> None:
    """Neither more nor fewer; of a text with a plural, those of the plural."""
    wrong = []
    for text, korean in entries().items():
        if korean and set(PLACE.findall(korean)) != set(PLACE.findall(plurals().get(text) or text)):
            wrong.append(f"{text!r} -> {korean!r}")
        if korean and set(re.findall(r"</?\w+", korean)) != set(re.findall(r"</?\w+", text)):
            wrong.append(f"{text!r} -> {korean!r}")
    assert wrong == []


READ_MOST = (
    "cap_hold", "cap_take_out", "cap_in_flight", "rate", "floor", "stopped", "breaker", "freeze", "window", "approval",
    "mode", "unwatched", "pdb", "driver_word", "deadline", "stopped_here", "kept", "ticket", "foreign_hold", "no_data",
    "not_ready",
)  # fmt: skip
TABLES = [
    words.NODE_STATES, words.VERDICTS, words.WORKFLOW_STATES, words.VERBS, words.VERB_SENTENCES, words.VERB_DOING,
    words.STEP_STATES, words.CAP_KINDS, words.SCOPES, STATE_WORD, VERDICT_WORD,
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_states_and_verbs_are_all_in_korean(table: dict[str, words.Word]) -> None:
    with translation.override("en"):
        english = {key: str(word) for key, word in table.items()}
    assert sorted(text for text in english.values() if not entries().get(text)) == []


@pytest.mark.parametrize("code", READ_MOST)
def test_what_operators_read_most_is_said_in_korean(code: str) -> None:
    reason = reasons.of(code)
    with translation.override("en"):
        texts = [str(said) for said in (reason.name, reason.text, reason.who, reason.clears, reason.do)]
    assert [text for text in (*texts, *reason.says) if not entries().get(text)] == []


def test_a_stored_sentence_is_said_in_korean_with_its_numbers() -> None:
    stored = "Rack r07: 2 of 2 in flight (gpu-r07-03, gpu-r07-11)."
    with translation.override("ko"):
        said = reasons.told(reasons.of("cap_in_flight"), stored)
    assert said == "랙 r07: 동시 작업 2대 중 2대(gpu-r07-03, gpu-r07-11)."
    with translation.override("en"):
        assert reasons.told(reasons.of("cap_in_flight"), stored) == stored


def test_the_command_reads_the_short_names_of_gettext() -> None:
    """`lazy` and `noop` are read too, so that every reason is in the file, in Korean or not yet."""
    assert {"--keyword=lazy", "--keyword=noop"} <= set(makemessages.Command.xgettext_options)
    with translation.override("en"):
        texts = {str(said) for one in reasons.CATALOGUE.values() for said in (one.name, one.text, one.clears, one.do)}
    assert len(texts) > 200
    missing = sorted(texts - set(entries()))
    assert len(missing) <= len(texts) // 20, f"manage.py makemessages -l ko --no-location --no-wrap: {missing}"
