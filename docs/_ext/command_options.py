"""Directive ``irtools-command``: usage, help, options and examples of a command, under a heading of the page.

Everything is what the command's help page says. The help texts are Markdown and not reStructuredText, which is
what sphinx-click takes them for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from irtools.cli import cli

_CODE = re.compile(r"(`[^`]*`|(?<![\w-])--?[a-z][\w-]*)")
_SPECIAL = re.compile(r"([*_<>\[\]\\])")


class CommandDirective(SphinxDirective):
    """The command whose name is the argument, such as ``rules list``; irtools itself without an argument."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse the description as Markdown."""
        try:
            context = _context("".join(self.arguments).split())
        except LookupError as error:
            raise self.error(str(error)) from None
        return self.parse_text_to_nodes("\n".join(_markdown(context)))


def _context(words: list[str]) -> click.Context:
    """Context of a command, as on the command line; this also adds its examples."""
    context = click.Context(cli, info_name="irtools", **cli.context_settings)
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            raise LookupError(f"{context.command_path} has no command {word!r}")
        context = click.Context(command, info_name=word, parent=context, **command.context_settings)
    return context


def _markdown(context: click.Context) -> Iterator[str]:
    command = context.command
    yield from ("```text", f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    for paragraph in _paragraphs(command.help or ""):
        yield from (paragraph, "")
    yield from (f":::{{program}} {context.command_path}", ":::", "")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            spelling, text = record
            yield from (f":::{{option}} {spelling.replace(' / ', ', ')}", _escaped(text), ":::", "")
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    if examples:
        yield from ("```sh", *examples, "```", "")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text but the exit codes, which the page has."""
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        if words and not words.startswith("Exit codes:"):
            yield _escaped(words)


def _escaped(text: str) -> str:
    """Text with its code and options in backquotes, and nothing else that Markdown would interpret."""
    pieces = _CODE.split(text)
    pieces[::2] = (_SPECIAL.sub(r"\\\1", piece) for piece in pieces[::2])
    pieces[1::2] = (f"`{piece.strip('`')}`" for piece in pieces[1::2])
    return "".join(pieces)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("irtools-command", CommandDirective)
    return {"parallel_read_safe": True}
