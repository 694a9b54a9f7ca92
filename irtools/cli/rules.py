"""``irtools rules``: list the rules of ``verify``, or explain one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from irtools.cli.common import PATH, Ui, output_options, write_stdout

if TYPE_CHECKING:
    from irtools.lint.rule import Rule

__all__ = ["command"]

_folders = click.option(
    "--rules",
    "folders",
    metavar="DIR",
    multiple=True,
    type=PATH,
    help="Folder of your own rules, in addition to the installed ones.  [default: from the configuration file]",
)


@click.group("rules")
def command() -> None:
    """List the rules of verify, or explain one."""


@command.command("list")
@_folders
@output_options()
def list_(folders: tuple[Path, ...], ui: Ui) -> int:
    """List the rules: code, severity, name and title."""
    from irtools.report.rules import rule_details, rules_text

    rules = _load(folders)
    if ui.format == "json":
        _print_json("rules list", [rule_details(rule) for rule in rules])
    else:
        ui.result(rules_text(rules, ui.style))
    return 0


@command.command("explain")
@click.argument("code")
@_folders
@output_options()
def explain(code: str, folders: tuple[Path, ...], ui: Ui) -> int:
    """Explain one rule, by CODE or name.

    Prints the check, its reason, the fix and the source.
    """
    from irtools.lint.rule import find_rule
    from irtools.report.rules import rule_details, rule_text

    rule = find_rule(_load(folders), code)
    if ui.format == "json":
        _print_json("rules explain", [rule_details(rule)])
    else:
        ui.result(rule_text(rule, ui.style))
    return 0


def _load(folders: tuple[Path, ...]) -> tuple[Rule, ...]:
    from irtools.lint.rule import load_rules
    from irtools.lint.session import configured_rules

    return load_rules(folders or configured_rules())


def _print_json(name: str, rules: list[dict[str, object]]) -> None:
    from irtools.report.json import envelope, to_json

    write_stdout(to_json({**envelope(name, []), "rules": rules}))
