"""Directive ``schema``: tables of a JSON schema of the package, one for the document and one for each definition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Schema = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
_HEAD = ("| key | value | always there | meaning |", "| --- | --- | --- | --- |")


class SchemaDirective(SphinxDirective):
    """The schema whose path, from the root of the repository, is the argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the tables as Markdown; the page is written again when the schema changes."""
        file = ROOT / self.arguments[0]
        self.env.note_dependency(str(file))
        return self.parse_text_to_nodes("\n".join(markdown(json.loads(file.read_bytes()), file.name.partition(".")[0])))


def markdown(schema: Schema, name: str) -> Iterator[str]:
    """Tables of a schema; anchors of definitions begin with the name."""
    yield from (schema["description"], "", *_HEAD, *_rows(schema, name), "")
    for title, part in schema["$defs"].items():
        yield from (f"({name}-{title})=", f"**`{title}`**", "")
        if "description" in part:
            yield from (part["description"], "")
        if based := [one["$ref"] for one in part.get("allOf", ()) if "$ref" in one]:
            yield from (f"All keys of {' and '.join(_link(one, name) for one in based)}, and these:", "")
        rows = list(_rows(part, name))
        yield from (*_HEAD, *rows, "") if rows else (f"Value: {_value(part, name)}.", "")


def _rows(schema: Schema, name: str, prefix: str = "") -> Iterator[str]:
    """A row for each key of an object, and of the objects in it; ``[]`` stands for each item of an array."""
    required: dict[str, str] = {}
    for one in (schema, *schema.get("allOf", ())):
        if "if" in one:
            required |= dict.fromkeys(one["then"].get("required", ()), _condition(one["if"]))
    required |= dict.fromkeys(schema.get("required", ()), "yes")
    for key, value in schema.get("properties", {}).items():
        path = f"{prefix}{key}"
        text = value.get("description", "")
        yield f"| `{path}` | {_value(value, name)} | {required.get(key, '')} | {_escaped(text)} |"
        while "items" in value:
            value, path = value["items"], f"{path}[]"
        yield from _rows(value, name, f"{path}.")
    for one in schema.get("allOf", ()):
        yield from (f"{row[:-1]}{_condition(one['if'])} |" for row in _rows(one.get("then", {}), name, prefix))


def _condition(schema: Schema) -> str:
    """When the ``then`` beside an ``if`` holds."""
    ((key, value),) = schema["properties"].items()
    return f"if `{key}` is {_value(value, '')}"


def _value(schema: Schema, name: str) -> str:
    """What a value can be."""
    if "$ref" in schema:
        return _link(schema["$ref"], name)
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_value(one, name) for one in schema[key])
    if "allOf" in schema and "type" not in schema:
        return _value(schema["allOf"][0], name)
    kinds = schema.get("type", "array" if "items" in schema else "object" if "properties" in schema else "any")
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    if "items" in schema and "array" in words:
        words[words.index("array")] = f"array of {_value(schema['items'], name)}"
    if isinstance(schema.get("additionalProperties"), dict) and "object" in words:
        words[words.index("object")] = f"object of {_value(schema['additionalProperties'], name)}"
    return " or ".join(words)


def _link(reference: str, name: str) -> str:
    title = reference.rpartition("/")[2]
    return f"[`{title}`](#{name}-{title})"


def _escaped(text: str) -> str:
    """Description as text of a table."""
    for special in "\\|*_<[]":
        text = text.replace(special, f"\\{special}")
    return text


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("schema", SchemaDirective)
    return {"parallel_read_safe": True}
