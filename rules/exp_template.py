"""EXP025 to EXP029: chat templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.authoring import STRATEGIES, Context, Finding, Severity, finding_at, rule
from irtools.errors import os_reason
from irtools.ir.reading import read_file, read_json
from irtools.lint.json_files import json_line
from irtools.model.document import Document
from irtools.text import joined

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

_JINJA = "chat_template.jinja"
_JSON_FILES = ("tokenizer_config.json", "processor_config.json", "chat_template.json")
_WITHOUT = dict.fromkeys(STRATEGIES, "with apply_chat_template=False")
_GENERATION = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
"""Tag of Transformers that marks the assistant's tokens; GenAI accepts it, Jinja itself does not know it."""
_TAGS = frozenset(
    re.findall(
        r"\w+", "for endfor if elif else endif set endset macro endmacro call endcall filter endfilter break continue"
    )
)
_NO_FILTERS = frozenset(
    re.findall(
        r"\w+",
        "abs attr batch capitalize center d filesizeformat first float forceescape format groupby max min pprint "
        "random replace reverse round slice sort striptags sum title truncate urlencode urlize "
        "wordcount wordwrap xmlattr",
    )
)
_MORE_FILTERS = frozenset({"range", "equalto", "in"})
"""Functions that GenAI also takes as filters."""
_BY_NAME = {"map": 0, "select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}
"""Position of the argument that names a filter or test."""
_NO_TESTS = frozenset(
    re.findall(
        r"\w+",
        "callable divisibleby eq equalto escaped even filter ge greaterthan gt in lessthan lower lt ne odd sameas test "
        "undefined upper",
    )
)
"""Tests that work in ``selectattr``, but not after ``is``."""


@dataclass(frozen=True)
class _Template:
    """A chat template: the text, or the fault that keeps it from being read."""

    place: Path | Document
    text: str
    fault: str = ""

    @property
    def name(self) -> str:
        return f"the rt_info of {self.place.path.name}" if isinstance(self.place, Document) else self.place.name

    def finding(self, message: str, hint: str, line: int = 1, **others: Any) -> Finding:
        """Finding at the template; ``line`` counts from its beginning."""
        if isinstance(self.place, Document):
            return finding_at(self.place, "chat_template", message, hint, **others)
        if self.place.name != _JINJA:
            line = json_line(self.place, "chat_template", self.text) or 1
        return Finding(message, hint, self.place, line, **others)


def _templates(context: Context) -> list[_Template]:
    """Templates in the order in which GenAI reads them: the last one counts."""
    if not context.is_language_model or context.is_draft or not context.export.target_candidates:
        return []
    found = [*_in_json(context.export.directory), *_in_file(context.export.directory / _JINJA)]
    document = context.documents.get("tokenizer")
    value = document.rt_info.get("chat_template") if document is not None else None
    if value is not None and not isinstance(value, str):
        value = value.get("default")
    if document is not None and isinstance(value, str):
        found.append(_Template(document, value))
    return found


def _in_json(directory: Path) -> Iterator[_Template]:
    for name in _JSON_FILES:
        try:
            content = read_json(directory / name)
        except (OSError, ValueError):
            continue  # EXP010
        value = content.get("chat_template") if isinstance(content, dict) else None
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict) and item.get("name") == "default":
                value = item.get("template")
                break
        if isinstance(value, str):
            yield _Template(directory / name, value)


def _in_file(path: Path) -> Iterator[_Template]:
    try:
        yield _Template(path, read_file(path).decode())
    except FileNotFoundError:
        return
    except OSError as error:
        yield _Template(path, "", f"cannot be read: {os_reason(error)}")
    except UnicodeDecodeError:
        yield _Template(path, "", "is not UTF-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment

    return Environment(extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"])


@cache
def _parsed(text: str) -> tuple[nodes.Template | None, str, int]:
    """Syntax tree, fault and line of a template, as GenAI parses it."""
    from jinja2 import TemplateSyntaxError

    source = _GENERATION.sub("", text)
    try:
        tree = _environment().parse(source)
    except TemplateSyntaxError as error:
        return None, f"{error.message or 'syntax error'}".rstrip("."), error.lineno
    except RecursionError:
        return None, "nested too deeply", 1
    line, fault = _unsupported(source)
    return (None, fault, line) if fault else (tree, "", 1)


def _nodes(tree: nodes.Node) -> Iterator[nodes.Node]:
    """All nodes in the order of the template; a long sum is nested too deeply for recursion."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(list(node.iter_child_nodes()))


def _named(node: nodes.Node) -> str:
    """Filter or test that ``map``, ``select`` and the like get by name; ``""`` for another node."""
    from jinja2 import nodes

    position = _BY_NAME.get(node.name) if isinstance(node, nodes.Filter) else None
    if not isinstance(node, nodes.Filter) or position is None or len(node.args) <= position:
        return ""
    value = node.args[position]
    return value.value if isinstance(value, nodes.Const) and isinstance(value.value, str) else ""


def _unsupported(source: str) -> tuple[int, str]:
    """Line and name of the first construct that Jinja has and GenAI's parser refuses."""
    tokens = [token for token in _environment().lex(source) if token[1] != "whitespace"]
    assigns = False
    for (line, kind, value), (_, after, following) in pairwise([*tokens, (0, "", "")]):
        assigns = (kind, value) == ("name", "set") or (assigns and kind == "name")
        if assigns and following == ",":
            return line, "an assignment to two names, which GenAI does not know"
        if kind == "raw_begin":
            return line, "the tag 'raw', which GenAI does not know"
        if kind == "block_begin" and value.endswith("+"):
            return line, "the tag '{%+', which GenAI does not know"
        if kind == "block_begin" and after == "name" and following not in _TAGS:
            return line, f"the tag {following!r}, which GenAI does not know"
        if kind == after == "string":
            return line, "two strings without an operator between them, which GenAI does not join"
        if kind == "operator" and value == "," and following in ("]", "}"):
            return line, f"a comma before {following!r}, which GenAI does not accept"
    return 1, ""


@rule("EXP025", "broken-chat-template", Severity.ERROR, "A chat template cannot be parsed", rules_out=())
def broken_chat_template(context: Context) -> Iterator[Finding]:
    """A chat template cannot be parsed.

    What it checks
    --------------
    The chat template that the runtime uses: the rt_info entry ``chat_template`` of the tokenizer IR, else
    chat_template.jinja, chat_template.json, processor_config.json or tokenizer_config.json, in this order. It must
    be valid Jinja, and use only the tags and the syntax that the parser of GenAI knows. A broken template that another
    one hides is a warning.

    Why it matters
    --------------
    Every call of ``generate`` with a text or a chat fails ("Expected closing block tag at row 1", "Unterminated for",
    "Expected block keyword"), because the runtime applies the template by default. It works only with
    ``apply_chat_template=False``.

    How to fix it
    -------------
    Restore the template from the checkpoint. For a tag that GenAI does not know (``include``, ``raw``, ``with``,
    ``do``, ``block``), write the template without it.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1 for each construct; ``tokenizer_impl.cpp`` for the order.
    """
    templates = _templates(context)
    for template in templates:
        _, fault, line = _parsed(template.text)
        fault = template.fault or (f"cannot be parsed: {fault} (line {line} of the template)" if fault else "")
        if fault:
            used = template is templates[-1]
            yield template.finding(
                f"the chat template in {template.name} {fault}",
                "Restore the template from the checkpoint.",
                line,
                severity=None if used else Severity.WARNING,
                needs=_WITHOUT if used else {},
            )


@rule("EXP026", "chat-templates-differ", Severity.WARNING, "The chat templates of an export differ")
def chat_templates_differ(context: Context) -> Iterator[Finding]:
    """The chat templates of an export differ.

    What it checks
    --------------
    The chat templates of tokenizer_config.json, processor_config.json, chat_template.json, chat_template.jinja and
    the rt_info of the tokenizer IR, where each has one. White space at the end does not count. An empty entry in the
    rt_info counts as a template, because it hides the others.

    Why it matters
    --------------
    GenAI takes the one of the tokenizer IR, Transformers the one of chat_template.jinja. Prompts differ between the
    two, and a correction in one file has no effect in the other.

    How to fix it
    -------------
    Put the right template into chat_template.jinja and convert the tokenizer again, or copy it.

    Source
    ------
    OpenVINO GenAI 2026.4, ``parse_chat_template_from_file`` and ``parse_chat_template_from_tokenizer``; the order was
    reproduced with 2026.4.1.
    """
    templates = [template for template in _templates(context) if not template.fault]
    if not templates:
        return
    used = templates[-1]
    others = [template for template in templates if _normal(template) != _normal(used)]
    if others:
        shown = "is empty" if not used.text.strip() else f"differs from that in {joined(t.name for t in others)}"
        hides = f" and hides that in {joined(t.name for t in others)}" if shown == "is empty" else ""
        message = f"the chat template in {used.name} {shown}{hides}; the runtime uses the one in {used.name}"
        yield used.finding(message, "Copy the right template to all of them.")


def _normal(template: _Template) -> str:
    return template.text.replace("\r\n", "\n").strip()


@rule("EXP027", "missing-chat-template", Severity.NOTE, "The export has no chat template")
def missing_chat_template(context: Context) -> Iterator[Finding]:
    """The export has no chat template.

    What it checks
    --------------
    That a language model with a tokenizer has a chat template in one of the places of EXP025.

    Why it matters
    --------------
    A base model has none, and then nothing is wrong. Chat calls fail ("Chat template wasn't found", "Chat template
    must not be empty when using ChatHistory in generate method"). LLMPipeline then generates from the unchanged text;
    VLMPipeline fails unless ``apply_chat_template`` is False.

    How to fix it
    -------------
    No action is needed for a base model. Otherwise copy chat_template.jinja from the checkpoint. A list in
    tokenizer_config.json needs a template named ``default``.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    directory = context.export.directory
    if not context.is_language_model or context.is_draft or context.stack is None:
        return
    if "tokenizer" not in context.documents or any(t.text.strip() or t.fault for t in _templates(context)):
        return
    message = 'there is no chat template; chat calls will fail ("Chat template wasn\'t found")'
    needs = {}
    if context.needs_embeddings:
        message += ", and so will every generate() of a VLMPipeline without apply_chat_template=False"
        needs = _WITHOUT
    hint = f"No action is needed for a base model; otherwise copy {_JINJA} from the checkpoint."
    yield Finding(message, hint, directory / _JINJA, needs=needs)


@rule(
    "EXP028",
    "unsupported-in-chat-template",
    Severity.WARNING,
    "The chat template uses features that GenAI does not have",
)
def unsupported_in_chat_template(context: Context) -> Iterator[Finding]:
    """The chat template uses features that GenAI does not have.

    What it checks
    --------------
    The filters and the tests (``is ...``) in the chat template that the runtime uses: those of Jinja that GenAI does
    not have, and those that neither has. The names in ``map('...')``, ``selectattr(..., '...')`` and the like count:
    GenAI looks them up among the filters, so that ``selectattr('x', 'defined')`` fails.

    Why it matters
    --------------
    GenAI has its own parser for Jinja. It accepts the template, but fails when it comes to such a place ("Value is not
    callable: null", "Unknown type for 'is' operator").

    How to fix it
    -------------
    Write the place in another way: ``messages[0]`` for ``messages | first``, ``x is not defined`` for ``x is
    undefined``.

    Source
    ------
    Each filter and test of Jinja 3.1 was tried with OpenVINO GenAI 2026.4.1.
    """
    for template in _templates(context)[-1:]:
        tree, _, _ = _parsed(template.text)
        if tree is None:
            continue
        from jinja2 import nodes

        own = {node.name for node in _nodes(tree) if isinstance(node, nodes.Macro)}  # GenAI takes a macro as a filter
        filters = (_environment().filters.keys() | _MORE_FILTERS | own) - _NO_FILTERS
        tests = _environment().tests.keys() - _NO_TESTS
        used = []
        for node in _nodes(tree):
            if isinstance(node, nodes.Filter) and node.name not in filters:
                used.append((f"the filter {node.name!r}", node.lineno))
            elif isinstance(node, nodes.Test) and node.name not in tests:
                used.append((f"the test 'is {node.name}'", node.lineno))
            name = _named(node)
            if name and name not in filters | {"=="}:  # GenAI looks it up among the filters
                used.append((f"{name!r} in a filter of a list", node.lineno))
        if used:
            listed = joined(dict.fromkeys(what for what, _ in used))
            message = f"the chat template in {template.name} uses {listed}, which GenAI does not have"
            yield template.finding(message, "Rewrite these places.", min(line for _, line in used))


@rule("EXP029", "constant-chat-template", Severity.WARNING, "The chat template does not read the messages")
def constant_chat_template(context: Context) -> Iterator[Finding]:
    """The chat template does not read the messages.

    What it checks
    --------------
    That the chat template that the runtime uses reads the variable ``messages``.

    Why it matters
    --------------
    The model gets the same text for every chat. The usual cause is another file in place of the template: a
    Git-LFS pointer, an error page in HTML, or JSON around the template.

    How to fix it
    -------------
    Restore the template from the checkpoint.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1: a Git-LFS pointer is the prompt of every chat.
    """
    for template in _templates(context)[-1:]:
        tree, _, _ = _parsed(template.text)
        if tree is None or not template.text.strip():
            continue
        from jinja2 import nodes

        read = (node for node in _nodes(tree) if isinstance(node, nodes.Name) and node.ctx == "load")
        if all(node.name != "messages" for node in read):
            start = " ".join(template.text.split())[:40]
            message = f"the chat template in {template.name} does not read the messages; it begins with {start!r}"
            yield template.finding(message, "Restore the template from the checkpoint.")
