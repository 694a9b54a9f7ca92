"""``irtools inspect``: show the contents of an export."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from irtools.cli.common import EXPORT, Ui, output_options, part_option
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.cli.sizes import Bytes, KvPrecision, batch_option, context_option
from irtools.model.decoding import STRATEGIES
from irtools.report.json import ModelResult

__all__ = ["command"]

_BEST = "best"


class _Command(click.Command):
    """A command with the option ``--snippet [STRATEGY]``, which must not take the model directory for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_value(args)))


def _with_value(args: Sequence[str]) -> Iterator[str]:
    ended = False
    for argument, following in zip(args, [*args[1:], ""], strict=False):
        ended = ended or argument == "--"
        yield f"--snippet={_BEST}" if argument == "--snippet" and not ended and _is_no_value(following) else argument


def _is_no_value(following: str) -> bool:
    """True if an argument after ``--snippet`` is not meant as its value: an option, a path, or none."""
    if following in (_BEST, *STRATEGIES):
        return False
    return following.startswith("-") or not following.isidentifier() or Path(following).exists()


@click.command("inspect", cls=_Command)
@many_options
@part_option
@context_option
@batch_option
@click.option(
    "--kv-precision", type=KvPrecision(), help="Precision of keys and values in the cache, such as u8 or u8,u4."
)
@click.option("--budget", type=Bytes(), help="Show the largest context that fits into this memory, such as 8GiB.")
@click.option("--draft", metavar="DIR", type=EXPORT, help="Draft for the decoding strategies and the memory.")
@click.option(
    "--assistant-tokens",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Tokens drafted per pass, for the memory.",
)
@click.option(
    "--snippet",
    metavar="[STRATEGY]",
    type=click.Choice((_BEST, *STRATEGIES)),
    help="Print Python that generates with a decoding strategy in OpenVINO GenAI: "
    f"{', '.join(STRATEGIES)}, or by default the best that is available.",
)
@click.option("--prompt", metavar="TEXT", help="Prompt for --snippet.")
@output_options()
def command(
    *,
    many: Many,
    snippet: str | None,
    prompt: str | None,
    ui: Ui,
    **options: Any,
) -> int:
    """Show parts, layers, ports, states, weights, decoding strategies and memory on one screen."""
    if prompt is not None and snippet is None:
        raise click.UsageError("--prompt is only for --snippet")

    return many.run(ui, "inspect", functools.partial(_inspect, snippet=snippet, prompt=prompt, options=options))


def _inspect(ui: Ui, path: Path, *, snippet: str | None, prompt: str | None, options: Mapping[str, Any]) -> ModelResult:
    from irtools.export import open_export
    from irtools.report.inspect import inspection_text

    with ui.working(f"Inspecting {path}"):
        inspection = open_export(path).inspect(**options)
        ui.keep(inspection)
        script = inspection.snippet(snippet, prompt=prompt) if snippet is not None else None
        for note in inspection.footprint.notes:
            ui.note(note)
        if ui.format == "json":
            extra = {"snippet": script} if script is not None else {}
            return ModelResult(str(path), "ok", details={**inspection.details(), **extra})
        if script is not None:
            return ModelResult(str(path), "ok", text=script, exact=True)
        return ModelResult(str(path), "ok", text=inspection_text(inspection, ui.style))
