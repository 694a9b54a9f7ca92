"""The page about troubleshooting: every message that irtools knows stands there, with rules that can be its cause."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from irtools.lint.conditions import Requirement
from irtools.lint.rule import Rule, load_rules
from irtools.lint.symptoms import Symptom, explain_message
from irtools.registry import collect

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
MESSAGES, SETTINGS = (
    PAGE.index(f"\n{title}\n")
    for title in ("## Messages of the runtime", "### Settings that a decoding strategy needs")
)
CHECKS = PAGE.index("\n### Checks of prove\n")
ROW = re.compile(r"^\| (`` .+? ``|`[^`]+`) \| (.*) \|$", re.MULTILINE)
CODE = re.compile(r"\[([A-Z]+[0-9]*)\]\(reference/rules\.md#[\w-]+\)")
QUOTED = re.compile(r'"([^"]+)"')
LONG = 24  # of a phrase that tells a message from others


def rows(text: str) -> list[tuple[str, str]]:
    """First cell of each row of the tables, without its backquotes, and the other cells."""
    return [(cell.strip("`").strip().replace("\\|", "|"), rest) for cell, rest in ROW.findall(text)]


KNOWN = rows(PAGE[MESSAGES:SETTINGS])
NEEDED = rows(PAGE[SETTINGS:CHECKS])
EVERY = [message for message, _ in (*KNOWN, *NEEDED)]


@cache
def rules() -> tuple[Rule, ...]:
    return load_rules(())


@pytest.mark.parametrize(("message", "cells"), KNOWN, ids=[message[:40] for message, _ in KNOWN])
def test_the_rules_of_a_message_can_be_its_cause(message: str, cells: str) -> None:
    found = explain_message(message, rules())
    named = CODE.findall(cells)
    assert named or found.limits
    if found.requirements:  # a setting, which is in the other table too
        assert any(need.rstrip(".") in message for need, _ in NEEDED)
        return
    possible = {rule.code for rule in found.rules} | set(found.groups)
    assert {code for code in named if code not in possible and code.rstrip("0123456789") not in found.groups} == set()


def test_every_message_of_the_rule_packs_is_there() -> None:
    patterns = [symptom.message for symptom in collect(Symptom) if symptom.message]
    assert [one for one in patterns if not any(re.search(one, known, re.IGNORECASE) for known in EVERY)] == []


def test_every_message_that_a_rule_quotes_is_there_with_this_rule() -> None:
    for rule in rules():
        for quote in QUOTED.findall(" ".join(rule.explanation.split())):
            for phrase in (one.strip(" .") for one in quote.split("...") if len(one.strip(" .")) > LONG):
                having = [cells for message, cells in KNOWN if phrase in message]
                assert any(rule.code in CODE.findall(cells) for cells in having) or any(
                    phrase in message for message, _ in NEEDED
                ), (rule.code, phrase)


def test_every_condition_is_there() -> None:
    for one in collect(Requirement):
        condition = one.condition
        setting, *_ = condition.setting.rpartition(".")[::-1]
        if condition.stage:
            having = [cells for message, cells in NEEDED if message == condition.otherwise]
        else:
            having = [line for line in PAGE[SETTINGS:CHECKS].splitlines() if condition.otherwise[3:] in line]
        assert any(f"`{setting}`: {condition.value} |" in f"{cells} |" and one.strategy in cells for cells in having), (
            one
        )


def test_every_check_with_rules_is_there() -> None:
    shown = {name: CODE.findall(cells) for name, cells in rows(PAGE[CHECKS:])}
    wanted = {one.check: list(one.rules) or re.findall("[A-Z]+[0-9]{3}", one.explanation) for one in collect(Symptom)}
    wanted.pop("")
    assert shown == wanted


def _texts(tree: ast.AST) -> Iterator[str]:
    """String literals; a gap in an f-string is a null character."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "\0" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("title", ["### irtools refuses the export", "### An export at a URL: 401, 404, offline"])
def test_the_sentences_of_irtools_are_those_that_it_prints(title: str) -> None:
    section = PAGE[PAGE.index(f"\n{title}\n") + 1 :].partition("\n### ")[0]
    sources = [path.read_text() for path in (ROOT / "irtools").rglob("*.py")]
    printed = "\n".join(text for source in sources for text in _texts(ast.parse(source)))
    sentences = [sentence for sentence, _ in rows(section)]
    assert len(sentences) > 10
    for sentence in sentences:
        for piece in re.split(r"\.\.\.|openvino_\w+_model\.xml|\d|'[a-z_]+'|hidden_states_decoder_layers", sentence):
            assert piece.strip() in printed, sentence
