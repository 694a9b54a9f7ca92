"""The reference names every command, option, public name, key of a schema, configuration key and variable."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import irtools
from irtools.cli import cli
from irtools.cli.help import GROUPS
from irtools.errors import UsageError
from irtools.lint.configuration import load_config

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
SCHEMAS = ("report/envelope", "prove/proof", "bench/bench")


def extension(name: str) -> ModuleType:
    """Module of an extension of the documentation."""
    pytest.importorskip("sphinx")
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def leaves(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from leaves(command, (*words, name)) if isinstance(command, click.Group) else [(*words, name)]


def sections() -> dict[str, str]:
    """Text of each section about a command, in the order of the pages."""
    commands = (REFERENCE / "commands.md").read_text()
    pages = re.findall(r"^(commands/\w+)$", commands, re.MULTILINE)
    text = "".join(f"\n{(REFERENCE / f'{page}.md').read_text()}" for page in pages)
    parts = re.split(r"^## irtools (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_section_with_a_session_exit_codes_and_options() -> None:
    found = sections()
    for words in leaves(cli):
        section = found[" ".join(words)]
        assert re.search(rf"^\$ .*irtools {' '.join(words)}\b", section, re.MULTILINE), words
        assert "\nExit codes: 0" in section, words
        assert f"```{{irtools-command}} {' '.join(words)}\n" in section, words


def test_commands_stand_in_the_order_of_the_help_page() -> None:
    top = [name for name in sections() if " " not in name]
    grouped = [name for names in GROUPS.values() for name in names]

    assert top[: len(grouped)] == grouped
    assert sorted(top) == sorted(cli.list_commands(click.Context(cli)))


def test_description_of_a_command_has_every_option_and_example() -> None:
    options = extension("command_options")
    for words in leaves(cli):
        context = options._context(list(words))
        text = "\n".join(options._markdown(context))
        described = set(re.findall(r"--?[\w-]+", " ".join(re.findall(r"^:::\{option\} (.*)$", text, re.MULTILINE))))
        for parameter in context.command.get_params(context):
            if isinstance(parameter, click.Option):
                assert {*parameter.opts, *parameter.secondary_opts} <= described, (words, parameter)
        assert re.search(rf"^(?:eval .*)?irtools {' '.join(words)}\b", text.partition("```sh")[2], re.MULTILINE), words


@pytest.mark.parametrize("module", ["irtools", "irtools.edits", "irtools.errors", "irtools.authoring"])
def test_python_reference_has_every_public_name_once(module: str) -> None:
    names = extension("public_names").public_names()
    text = "".join(page.read_text() for page in (REFERENCE / "python").glob("*.md"))
    documented = re.findall(r"^\.\. auto\w+:: (.*)$", text, re.MULTILINE)

    assert len(documented) == len(set(documented))
    public = {names.get(f"{module}.{name}", f"{module}.{name}") for name in import_module(module).__all__}
    assert public - {"irtools.__version__"} <= set(documented)


@pytest.mark.parametrize("path", SCHEMAS)
def test_tables_of_a_schema_have_every_key_and_definition(path: str) -> None:
    schema = json.loads((ROOT / "irtools" / f"{path}.schema.json").read_text())
    name = path.partition("/")[2]
    text = "\n".join(extension("schema_tables").markdown(schema, name))

    assert {f"({name}-{title})=" for title in schema["$defs"]} <= set(text.splitlines())
    assert keys(schema) <= set(re.findall(r"^\| `(?:[\w\[\]]+\.)*(\w+)`", text, re.MULTILINE))
    assert f"irtools/{path}.schema.json" in (REFERENCE / "schemas" / f"{name}.md").read_text()


def keys(schema: Any) -> set[str]:
    """Keys of all objects of a schema, except those in conditions."""
    if isinstance(schema, list):
        return set().union(*map(keys, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", ()))
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [schema[key] for key in ("items", "allOf", "then") if key in schema]
    return own.union(*map(keys, inner))


def test_configuration_page_has_every_key_that_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "irtools.toml"
    file.write_text("no-such-key = 1")
    with pytest.raises(UsageError) as refused:
        load_config(file)
    accepted = set(re.findall(r"[a-z-]+", refused.value.hint.partition("are ")[2]))

    text = (REFERENCE / "configuration.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \| [a-z]", text, re.MULTILINE)) == accepted
    example = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    file.write_text(example)
    load_config(file)
    assert set(re.findall(r"^\[?([a-z-]+)", example, re.MULTILINE)) == accepted


def test_configuration_page_has_every_variable_that_the_code_reads() -> None:
    source = "".join(path.read_text() for path in (ROOT / "irtools").rglob("*.py"))
    named = set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", source)) | set(re.findall(r"\bHF_[A-Z_]+\b", source))
    named |= {"GITHUB_ACTIONS", "TF_BUILD", "_IRTOOLS_COMPLETE"}

    text = (REFERENCE / "configuration.md").read_text()
    assert named - set(re.findall(r"`(\w+)`", text)) == set()


def test_newest_release_of_the_changelog_is_this_version() -> None:
    released = re.findall(r"^## \[(\d.*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert released[0] == irtools.__version__
