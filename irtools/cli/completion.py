"""``irtools completion``: print the script with which a shell completes commands, options and files."""

from __future__ import annotations

import click

from irtools.cli.common import write_stdout

__all__ = ["VARIABLE", "command"]

VARIABLE = "_IRTOOLS_COMPLETE"
"""Variable with which the script of click asks the command for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script that completes commands and options in bash, zsh or fish.

    Bash needs version 4.4 or newer.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has these three"
    root = context.find_root()
    # Not `source()`, which runs bash to test its version.
    completion = kind(root.command, {}, "irtools", VARIABLE)
    write_stdout(kind.source_template % completion.source_vars() + "\n")
    return 0
