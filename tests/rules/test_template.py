"""Chat templates are judged as OpenVINO GenAI judges them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from defects_template import without_entry
from irtools.rules.exp_template import broken_chat_template, chat_templates_differ, unsupported_in_chat_template

from irtools.authoring import Context
from irtools.model.directory import ModelDirectory

TEMPLATES = {
    "{% for m in messages %}{{ m.content }}{% endfor %}": True,
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}": True,
    "{% set ns = namespace(a='x') %}{% set ns.a = 'y' %}{{ ns.a }}": True,
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f('x') }}{% filter upper %}b{% endfilter %}": True,
    "{# note #}{{- messages[-1]['content'] | trim -}}": True,
    "{% for m in messages if m.role == 'user' %}{% continue %}{% else %}{% endfor %}x": True,
    "x{{ messages | selectattr('role', 'equalto', 'user') | list | length }}": True,
    "{% for m in messages %}{{ m.content }}{% endfor": False,
    "{{ messages": False,
    "{% if messages %}x": False,
    "x{% endfor %}": False,
    "{% do messages.append(1) %}x": False,
    "{% include 'x' %}x": False,
    "{% raw %}x{% endraw %}": False,
    "{% with a = 1 %}x{% endwith %}": False,
    "{% block a %}x{% endblock %}": False,
    "{%+ if messages %}x{% endif %}": False,
    "{% set a, b = 1, 2 %}x": False,
    "{{ [1, 2, ] }}": False,
    "{{ {'a': 1, } }}": False,
    "{{ 'a' 'b' }}": False,
    "{# x": False,
    "x{{ messages | first }}": False,
    "x{{ messages is undefined }}": False,
    "x{{ messages[0].role | nosuchfilter }}": False,
    "x{% if messages[0].role is nosuchtest %}{% endif %}": False,
    "{% macro f(a) %}x{% endmacro %}{{ messages | f }}": True,
    "{{ messages | length | range }}": True,
    "x{{ messages | selectattr('role', 'defined') | list | length }}": False,
    "x{{ messages | selectattr('role', 'in', ['user']) | list | length }}": True,
    "x{{ messages | map(attribute='role') | map('upper') | list | length }}": True,
    "x{{ messages | map(attribute='role') | map('capitalize') | list | length }}": False,
    "x{{ messages" + " ~ messages" + "[0].role" + " + 'a'" * 1500 + " }}": True,
}
"""Templates, and whether the runtime writes a text from them."""

APPLY = """
import sys, openvino_genai
tokenizer = openvino_genai.Tokenizer(sys.argv[1])
for template in sys.argv[2:]:
    tokenizer.chat_template = template
    try:
        print(bool(tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True)))
    except RuntimeError:
        print(False)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """An export with one chat template, in chat_template.jinja."""
    path = tmp_path_factory.mktemp("template") / "llama"
    shutil.copytree(fixtures / "llama", path)
    without_entry(path)
    return path


def refused(directory: Path) -> bool:
    context = Context(ModelDirectory.open(directory))
    return any([*broken_chat_template.check(context), *unsupported_in_chat_template.check(context)])


def test_a_template_is_refused_exactly_if_genai_cannot_apply_it(directory: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", APPLY, str(directory), *TEMPLATES],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert shown.stdout.split() == [str(works) for works in TEMPLATES.values()]
    found = {}
    for template in TEMPLATES:
        (directory / "chat_template.jinja").write_text(template)
        found[template] = not refused(directory)

    assert found == TEMPLATES


def test_the_template_of_the_tokenizer_counts(directory: Path, fixtures: Path) -> None:
    """GenAI prefers the rt_info to the file; an empty entry hides the file."""
    (directory / "chat_template.jinja").write_text("from file")
    original = (fixtures / "llama" / "openvino_tokenizer.xml").read_text()
    start = original.index('<chat_template value="') + len('<chat_template value="')
    code = "import sys, openvino_genai; print(repr(openvino_genai.Tokenizer(sys.argv[1]).chat_template))"
    for value in ("from tokenizer", ""):
        changed = original[:start] + value + original[original.index('"', start) :]
        (directory / "openvino_tokenizer.xml").write_text(changed)
        shown = subprocess.run([sys.executable, "-c", code, str(directory)], capture_output=True, text=True, timeout=60)
        assert shown.stdout.strip() == repr(value)
        (finding,) = chat_templates_differ.check(Context(ModelDirectory.open(directory)))
        assert finding.file is not None
        assert finding.file.name == "openvino_tokenizer.xml"
    without_entry(directory)
