"""``irtools rules``: list the rules of ``verify``, or explain one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irtools.cli.common import PATH, Ui, output_options, write_stdout
from irtools.errors import OptionError

if TYPE_CHECKING:
    from irtools.lint.rule import Rule

__all__ = ["command"]

_RULE = re.compile(r"[A-Za-z]{2,8}[0-9]{3}|[a-z0-9]+(-[a-z0-9]+)*")
"""Form of a code or a name of a rule; everything else is a message."""
_LONGEST = 1_000_000
_SHOWN = 80

_folders = click.option(
    "--rules",
    "folders",
    metavar="DIR",
    multiple=True,
    type=PATH,
    help="Folder of your own rules, in addition to the installed ones.",
)
_config = click.option("--config", metavar="FILE", type=PATH, help="Configuration file that names folders of rules.")


@click.group("rules")
def command() -> None:
    """List the rules of verify, or explain a rule or a runtime message."""


@command.command("list")
@_folders
@_config
@output_options()
def list_(folders: tuple[Path, ...], config: Path | None, ui: Ui) -> int:
    """List the rules: code, severity, name and title."""
    from irtools.report.rules import rule_details, rules_text

    rules = _load(folders, config, ui)
    if ui.format == "json":
        _print_json("rules list", {"rules": [rule_details(rule) for rule in rules]})
    else:
        ui.result(rules_text(rules, ui.style))
    return 0


@command.command("explain")
@click.argument("text", metavar="CODE|MESSAGE|-")
@_folders
@_config
@output_options()
def explain(text: str, folders: tuple[Path, ...], config: Path | None, ui: Ui) -> int:
    """Explain one rule by its code or name, or a message of the runtime by the rules that find its cause.

    For a rule, prints the check, its reason, the fix and the source. A message is given in quotes, or on standard input
    with -; a whole traceback is fine.
    """
    from irtools.lint.rule import find_rule
    from irtools.lint.symptoms import explain_message
    from irtools.report.rules import message_details, message_text, rule_details, rule_text
    from irtools.runtime.messages import pasted_message

    rules = _load(folders, config, ui)
    text = (_standard_input() if text == "-" else text).strip()
    if _RULE.fullmatch(text):
        rule = find_rule(rules, text)
        details: dict[str, object] = {"rules": [rule_details(rule)]}
        shown = rule_text(rule, ui.style)
    else:
        message = pasted_message(text)
        known = explain_message(message, rules)
        if not known:
            raise OptionError(_unknown(message))
        details, shown = message_details(known, rules), message_text(known, ui.style)
    if ui.format == "json":
        _print_json("rules explain", details)
    else:
        ui.result(shown)
    return 0


def _standard_input() -> str:
    return sys.stdin.buffer.read(_LONGEST).decode("utf-8", "replace") if sys.stdin is not None else ""


def _unknown(message: str) -> str:
    if not message:
        return "there is no message; give it in quotes, or on standard input with -"
    start = message if len(message) <= _SHOWN else f"{message[: _SHOWN - 3]}..."
    advice = "run `irtools verify MODEL_DIR`, and look for the message in the issues of OpenVINO GenAI"
    return f"no known rule explains {start!r}; {advice}"


def _load(folders: tuple[Path, ...], config: Path | None, ui: Ui) -> tuple[Rule, ...]:
    from irtools.lint.rule import load_rules
    from irtools.lint.session import configured_rules

    if not folders:
        folders, notes = configured_rules(config)
        for note in notes:
            ui.note(note)
    return load_rules(folders)


def _print_json(name: str, content: dict[str, object]) -> None:
    from irtools.report.json import envelope, to_json

    write_stdout(to_json({**envelope(name, []), **content}), "json")
