"""``irtools prove``: run an export and say whether it works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from irtools.cli.common import PATH, Ui, model_argument, output_options, run_models
from irtools.errors import OptionError
from irtools.report.json import Entry

__all__ = ["command"]


def _numbers(_ctx: click.Context, _param: click.Parameter, value: str | tuple[str, ...] | None) -> Any:
    """Numbers between commas; of an option that is repeated, one tuple for each."""
    if isinstance(value, tuple):
        return tuple(_numbers(_ctx, _param, item) for item in value)
    try:
        return tuple(int(item) for item in value.split(",") if item.strip()) if value is not None else None
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no list of numbers such as 1,2,3") from error


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(item.strip() for item in value.split(",") if item.strip()) if value is not None else None


@click.command("prove")
@model_argument
@click.option("--draft", metavar="DIR", type=PATH, help="A DFlash, EAGLE-3 or plain draft to decode with.")
@click.option("--device", metavar="NAME", help="OpenVINO device.  [default: CPU]")
@click.option("--prompt", "texts", metavar="TEXT", multiple=True, help="A prompt; can be given several times.")
@click.option("--prompts", metavar="FILE", type=PATH, help="Prompts, one to a line, or a JSON list of texts.")
@click.option(
    "--token-ids", metavar="1,2,3", multiple=True, callback=_numbers, help="A prompt as token ids; several times too."
)
@click.option("--max-new-tokens", metavar="N", type=int, help="Tokens to generate for each prompt.  [default: 40]")
@click.option(
    "--assistant-tokens",
    metavar="1,2,3",
    callback=_numbers,
    help="Numbers of tokens to draft at a time, each measured.  [default: 1,2,3]",
)
@click.option(
    "--min-acceptance",
    metavar="X",
    type=float,
    help="Fail if a smaller share of the drafted tokens is accepted, with the smallest of --assistant-tokens.",
)
@click.option("--chat-template", is_flag=True, help="Put prompts through the export's chat template.")
@click.option(
    "--steps",
    metavar="NAMES",
    callback=_names,
    help="Steps to make: taps (is the annotation right), state, head (the MTP head), runtime (GenAI).  [default: all]",
)
@click.option(
    "--compare",
    metavar="FILE",
    type=PATH,
    help="Say what moved since an earlier record, made with `irtools prove --format json > FILE`.",
)
@output_options()
def command(
    model: Path,
    texts: tuple[str, ...],
    prompts: Path | None,
    compare: Path | None,
    chat_template: bool,
    ui: Ui,
    **asked: Any,
) -> int:
    """Run an export: its taps, its state, its MTP head, and drafted decoding in OpenVINO GenAI.

    A head that is wired wrong does not show in the text, because the target verifies what it drafts; it shows
    here. Prompts are given as they are, and decoding is greedy and goes on after the end of text.

    Exit codes: 0 nothing failed, 1 a step failed, the text changed or too little was accepted, 2 no step
    applies, or the export cannot be read.
    """
    from irtools.prove.settings import Settings

    if texts and prompts is not None:
        raise click.UsageError("give either --prompt or --prompts")
    given = {name: value for name, value in asked.items() if value is not None}
    settings = Settings(prompts=texts or _read_prompts(prompts), chat_template=chat_template, **given)
    old = None
    if compare is not None:
        from irtools.prove.compare import read_record

        old = read_record(compare)

    def work(path: Path) -> Entry:
        from irtools.export import open_export
        from irtools.prove.compare import changes
        from irtools.prove.run import prove
        from irtools.report.prove import changes_text, proof_text

        with _progress(ui, path) as say:
            proof = prove(open_export(path), settings, say)
        details: dict[str, object] = {"proof": proof.record}
        text = proof_text(proof, ui.style)
        if old is not None:
            moved = changes(old, proof.record)
            details["changes"] = [
                {"what": one.what, "before": one.before, "now": one.now, "ratio": one.ratio} for one in moved
            ]
            text = f"{text}\n\n{changes_text(moved, ui.style)}"
        if proof.nothing:
            error = f"{path}: nothing was proved, no step applies: {proof.why_nothing}"
            return Entry(str(path), "refused", proof.exit_code, error, details=details, text=text)
        return Entry(str(path), "findings" if proof.failed else "ok", proof.exit_code, details=details, text=text)

    return run_models(ui, "prove", [model], work)


@contextmanager
def _progress(ui: Ui, path: Path) -> Iterator[Any]:
    """Say what is being done: each thing with ``--verbose``, the whole on a terminal."""
    with ui.working(f"Proving {path}"):
        yield ui.detail


def _read_prompts(path: Path | None) -> tuple[str, ...]:
    """Prompts of a file: a JSON list of texts, else its lines that are not empty."""
    if path is None:
        return ()
    from irtools.ir.reading import read_file

    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {(error.strerror or type(error).__name__).lower()}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: the prompts are not UTF-8") from error
    found: Any = [line for line in text.splitlines() if line.strip()]
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OptionError(f"{path}: begins like a JSON list and is none ({error})") from error
    if not found or not all(isinstance(item, str) and item for item in found):
        raise OptionError(f"{path}: holds no prompts; give one to a line, or a JSON list of texts")
    return tuple(found)
