"""``irtools bench``: benchmark an export, plainly and with drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from irtools.cli.common import PATH, Ui, model_argument, output_options, run_models
from irtools.cli.records import device_option, names, numbers, record_options, with_files
from irtools.cli.sizes import Tokens
from irtools.report.json import ModelResult
from irtools.timing import step, steps

__all__ = ["command"]


def _properties(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    pairs = [item.partition("=") for item in value]
    for item, (key, sign, _) in zip(value, pairs, strict=True):
        if not key or not sign:
            raise click.BadParameter(f"{item!r} is not KEY=VALUE")
    return {key: text for key, _, text in pairs}


@click.command("bench")
@model_argument
@click.option(
    "--draft",
    "drafts",
    metavar="DIR",
    type=PATH,
    multiple=True,
    help="DFlash, EAGLE-3 or language-model draft to compare; can be repeated.",
)
@click.option(
    "--assistant-tokens",
    "--draft-n",
    metavar="1-5",
    callback=numbers,
    help="Numbers of tokens to draft per pass (draft-n), as numbers and ranges.  [default: 1-3]",
)
@click.option(
    "--graft", metavar="N", type=Tokens(), multiple=True, help="Compare a draft head over N tokens, such as 32k."
)
@click.option("--against", metavar="DIR", type=PATH, multiple=True, help="Another export, to compare with this one.")
@click.option(
    "--repeat",
    metavar="N",
    type=int,
    help="Repetitions, each in a fresh process; the verdict needs at least 3.  [default: 5]",
)
@device_option
@click.option(
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_properties,
    help="Property of the device for the compilation; can be repeated.",
)
@click.option(
    "--prompts",
    metavar="FILE",
    type=PATH,
    help="Prompts: one per line, or JSON Lines with text, class, system and image.",
)
@click.option(
    "--classes", metavar="NAMES", callback=names, help="Any of code, prose, reasoning, chat, long.  [default: all]"
)
@click.option("--context", metavar="N", type=Tokens(), help="Pad each prompt to N tokens, such as 32k.")
@click.option("--max-new-tokens", metavar="N", type=int, help="Tokens to generate per prompt.  [default: 64]")
@click.option("--keep-loaded", is_flag=True, help="Load once, and interleave the rows in one process.")
@click.option("--min-speedup", metavar="X", type=float, help="Fail if the fastest draft has a speed-up below X.")
@click.option("--min-acceptance", metavar="X", type=float, help="Fail if the acceptance rate of that row is below X.")
@click.option("--timeout", metavar="S", type=float, help="Seconds after which a load or a generation counts as hung.")
@record_options("bench")
@output_options()
def command(model: Path, earlier: Any, outputs: tuple[Path, ...], ui: Ui, **options: Any) -> int:
    """Benchmark an export: speed, time to first token, acceptance, and whether to draft.

    Compares plain decoding with the MTP head and with each --draft, for each number of drafted tokens. The rows take
    turns in each repetition, each in a fresh process; loading and warm-up are not timed. Speed-ups compare steady
    passes without interruptions by other work. The verdict is undecided if the intervals allow both answers.
    `irtools prove` tests whether the text stays the same (equivalence).

    Exit codes: 0 measured, 1 a required minimum was missed, 2 nothing could be measured.
    """
    from irtools.bench.settings import BenchSettings

    settings = BenchSettings(**{name: value for name, value in options.items() if value not in (None, (), {})})

    def work(path: Path) -> ModelResult:
        from irtools.bench.schedule import Progress, Watcher
        from irtools.export import open_export
        from irtools.report.bench import bench_text, progress_text, row_text

        def progressed(progress: Progress) -> None:
            ui.status(progress_text(progress))
            begin(f"{progress.row}, repetition {progress.repetition} of {progress.repeat}")

        try:
            with step(f"Benchmarking {path}"), steps() as begin:
                watcher = Watcher(progressed, lambda row, plain: ui.line(row_text(row, plain)))
                result = open_export(path).bench(settings, watcher)
        finally:
            ui.status("")
        details: dict[str, object] = {"bench": result.record}
        if result.nothing:
            first = result.rows[0]
            why = f": {first.contender.name} {first.status}, {first.message}" if first.message else ""
            error = f"{path}: nothing was measured{why}"
            entry = ModelResult(str(path), "refused", 2, error, details=details)
        else:
            status = "findings" if result.missed else "ok"
            text = bench_text(result.record, result.missed, ui.style)
            entry = ModelResult(str(path), status, result.exit_code, details=details, text=text)
        return with_files(entry, "bench", earlier, outputs, ui)

    return run_models(ui, "bench", [model], work)
