"""Seeded defects of chat templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect, both, in_json, remove, rewrite, sub

JINJA, TOKENIZER, CONFIG = "chat_template.jinja", "openvino_tokenizer.xml", "tokenizer_config.json"
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}
ENTRY = "<chat_template "
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12\n"


def without_entry(directory: Path) -> None:
    """Remove the template from the tokenizer IR."""
    rewrite(TOKENIZER, lambda data: re.sub(rb'\s*<chat_template value="[^"]*" />', b"", data))(directory)


def only(text: str) -> Callable[[Path], object]:
    """Leave one template, in the .jinja file."""
    return both(without_entry, rewrite(JINJA, lambda _: text.encode()))


def seed(name: str, text: str, code: str, line: int = 1, **more: Any) -> Defect:
    return Defect(name, "llama", only(text), code, JINJA, lambda _: line, **more)


DEFECTS = (
    seed("template-unclosed", "{% for m in messages %}{{ m.content }}{% endfor", "EXP025"),
    seed("template-block-unclosed", "{% for m in messages %}\n{% if m %}\n{{ m.content }}", "EXP025", 3),
    seed("template-with-tag-do", "{{ messages }}\n{% do messages.append(1) %}", "EXP025", 2),
    seed("template-with-comma", "{% for m in [messages[0], ] %}{{ m.content }}{% endfor %}", "EXP025"),
    Defect(
        "template-hidden-and-broken",
        "llama",
        rewrite(JINJA, lambda data: data[:-10]),
        "EXP025",
        JINJA,
        lambda _: 3,
        **WARNING,
    ),
    Defect(
        "template-of-tokenizer-broken",
        "llama",
        sub(TOKENIZER, r'<chat_template value="[^"]*"', '<chat_template value="{{ messages"'),
        "EXP025",
        TOKENIZER,
        ENTRY,
    ),
    Defect(
        "template-changed",
        "llama",
        rewrite(JINJA, lambda data: data + b"{{ 1 }}"),
        "EXP026",
        TOKENIZER,
        ENTRY,
        **WARNING,
    ),
    Defect(
        "template-configured-otherwise",
        "qwen3_5_vl",
        in_json(CONFIG, "chat_template", value="{{ messages[0].content }}"),
        "EXP026",
        TOKENIZER,
        ENTRY,
        **WARNING,
    ),
    Defect(
        "template-of-tokenizer-empty",
        "llama",
        sub(TOKENIZER, r'<chat_template value="[^"]*"', '<chat_template value=""'),
        "EXP026",
        TOKENIZER,
        ENTRY,
        **WARNING,
    ),
    Defect("template-missing", "llama", both(without_entry, remove(JINJA)), "EXP027", JINJA, **NOTE),
    Defect("template-of-wrapper-missing", "qwen3_5_vl", both(without_entry, remove(JINJA)), "EXP027", JINJA, **NOTE),
    seed("template-with-filter", "{{ messages | first }}", "EXP028", **WARNING),
    seed("template-with-test", "x\n{{ 1 if messages is undefined else 2 }}", "EXP028", 2, **WARNING),
    seed("template-with-unknown-filter", "{{ messages[0].content | nosuchfilter }}", "EXP028", **WARNING),
    seed("template-with-unknown-test", "{% if messages[0].content is nosuchtest %}x{% endif %}", "EXP028", **WARNING),
    seed("template-is-pointer", POINTER, "EXP029", **WARNING),
    seed("template-is-page", "<html><body>Not found</body></html>", "EXP029", **WARNING),
)
