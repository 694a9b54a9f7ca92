"""The command line. Each command has a module, which parses, calls and prints.

A command is a module of this package that defines a click command named ``command``. Modules are
imported on demand, and they import heavy dependencies inside their functions, so that help is fast.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import signal
import sys
from importlib import import_module

import click

from irtools._version import __version__
from irtools.cli.common import print_error, system_error
from irtools.cli.completion import VARIABLE
from irtools.cli.defects import StdoutError, defect_text, is_defect, show_tracebacks
from irtools.cli.help import EXAMPLES, GROUPS, OTHERS
from irtools.cli.sizes import Bytes
from irtools.errors import IrtoolsError
from irtools.text import did_you_mean

__all__ = ["main"]

_COMPRESSION = "NNCF compresses weights: https://github.com/openvinotoolkit/nncf"
_CONVERSION = "Optimum Intel exports models: optimum-cli export openvino"
_ELSEWHERE = {"compress": _COMPRESSION, "quantize": _COMPRESSION, "export": _CONVERSION, "convert": _CONVERSION}
"""Commands that users expect here, with the tools that have them."""
_SIGPIPE = 13  # the signal module of Windows lacks it


class Commands(click.Group):
    """Group of the commands in this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        names = sorted(module.name for module in pkgutil.iter_modules(__path__))
        return [name.replace("_", "-") for name in names if self.get_command(ctx, name) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        name = cmd_name.replace("-", "_")
        if not any(module.name == name for module in pkgutil.iter_modules(__path__)):
            return None
        command = getattr(import_module(f"{__name__}.{name}"), "command", None)
        if not isinstance(command, click.Command):
            return None
        _add_examples(cmd_name, command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups, each with the whole first sentence of its help."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        grouped = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, OTHERS: tuple(name for name in commands if name not in grouped)}
        for title, names in groups.items():
            rows = [(name, one.get_short_help_str(1000)) for name in names if (one := commands.get(name)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line; suggest a name for an unknown one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = _ELSEWHERE.get(name) or did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"there is no command {name!r}. {hint}".rstrip(), ctx)
        return super().resolve_command(ctx, args)


def _add_examples(name: str, command: click.Command) -> None:
    """Put the examples of a command below its options; a command may bring an epilog of its own."""
    lines = EXAMPLES.get(name)
    if lines and command.epilog is None:
        command.epilog = "\b\n" + "\n".join(
            [f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {one}" for one in lines)]
        )
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_examples(f"{name} {inner.name}", inner)


@click.group(
    "irtools",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success, 1 findings or differences, 2 the command failed.\n\n"
    "\b\nExample:\n  irtools inspect my-model && irtools verify my-model",
)
@click.version_option(__version__, message="irtools %(version)s")
@click.option(
    "--read-limit",
    type=Bytes(),
    help="Read files of up to this size, such as 2GiB. By default, the largest is "
    "512 MiB for an .xml, 128 MiB for a tokenizer.json, 16 MiB for another .json, 1 MiB for a .toml.",
)
@click.option("--offline", is_flag=True, help="Read exports at a URL from the cache only, as HF_HUB_OFFLINE=1 does.")
def cli(read_limit: int | None, offline: bool) -> None:
    """Locate, annotate, check, prove, draw and edit OpenVINO IR exports of language models.

    MODEL_DIR is a model directory or the path of one .xml. The default is the current directory. It can be a URL:
    hf://org/name[@revision], hf://org for all exports of an organisation, s3://, gs:// or https://.
    """
    from irtools.ir.reading import set_read_limit

    set_read_limit(read_limit or 0)
    if offline:
        from irtools.remote import set_offline

        set_offline(offline)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments without the program name; by default those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        # A name that the encoding of the terminal lacks must not cause a traceback.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # A command makes millions of small objects and ends. On 265,000 ops, collecting cycles takes 1 s of 6
    # and frees almost nothing (15 MB of 880).
    gc.disable()
    code = _run(arguments)
    gc.freeze()  # otherwise Python collects at exit, a tenth of the time of a short command
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    try:
        code = _invoke(arguments)
    except StdoutError as error:
        return _lost_stdout(error.__cause__)
    except BrokenPipeError as error:  # from a help page, which click writes
        return _lost_stdout(error)
    except OSError as error:
        print_error(str(system_error(error)))
        code = 2
    except Exception as error:
        if not is_defect(error):
            raise
        print_error(defect_text(error))
        code = 2
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _lost_stdout(error)
    return code


def _invoke(arguments: list[str] | None) -> int:
    if instruction := os.environ.get(VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "irtools", VARIABLE, instruction)
    # `cli.main` would print on an interrupt and use its own exit code for a closed pipe.
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        show_tracebacks(words)
        with cli.make_context("irtools", words) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        print_error(_usage(error))
        return 2
    except IrtoolsError as error:
        print_error(str(error))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        print_error("interrupted")
        return 128 + (error.args[0] if error.args else signal.SIGINT)  # irtools.__main__ passes the signal number
    return code if isinstance(code, int) else 0


def _lost_stdout(error: BaseException | None) -> int:
    """Report that standard output cannot be written; a reader that closed the pipe (``| head``) is no error."""
    # Python would fail again on the rest of the buffer when it exits.
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 128 + _SIGPIPE
    print_error(f"standard output cannot be written: {getattr(error, 'strerror', None) or error}")
    return 2


def _usage(error: click.UsageError) -> str:
    message = error.format_message().rstrip(".")
    command = error.ctx.command_path if error.ctx is not None else "irtools"
    return f"{message[:1].lower()}{message[1:]} (see '{command} --help')"
