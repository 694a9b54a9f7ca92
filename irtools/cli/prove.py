"""``irtools prove``: run an export and test whether it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from irtools.cli.common import PATH, Ui, model_argument, output_options, run_models
from irtools.cli.records import device_option, names, numbers, record_options, with_files
from irtools.errors import OptionError
from irtools.report.json import ModelResult
from irtools.timing import steps

__all__ = ["command"]


def _token_ids(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Parse numbers separated by commas, for each value of a repeated option."""
    try:
        return tuple(tuple(int(item) for item in value.split(",") if item.strip()) for value in values)
    except ValueError as error:
        raise click.BadParameter(f"{', '.join(map(repr, values))} is not a list of numbers such as 1,2,3") from error


@click.command("prove")
@model_argument
@click.option("--draft", metavar="DIR", type=PATH, help="DFlash, EAGLE-3 or language-model draft to decode with.")
@device_option
@click.option("--prompt", "texts", metavar="TEXT", multiple=True, help="Prompt; can be repeated.")
@click.option("--prompts", metavar="FILE", type=PATH, help="Prompts: one per line, or a JSON list of strings.")
@click.option(
    "--token-ids", metavar="1,2,3", multiple=True, callback=_token_ids, help="Prompt as token ids; can be repeated."
)
@click.option("--max-new-tokens", metavar="N", type=int, help="Tokens to generate per prompt.  [default: 40]")
@click.option(
    "--assistant-tokens",
    metavar="1-3",
    callback=numbers,
    help="Numbers of tokens to draft per pass, as numbers and ranges; each decodes all prompts.  [default: 1-3]",
)
@click.option(
    "--min-acceptance",
    metavar="X",
    type=float,
    help="Fail if the acceptance rate with the smallest of --assistant-tokens is below X.",
)
@click.option(
    "--repeat",
    metavar="N",
    type=int,
    help="Decode in N fresh processes; fail if tokens or acceptance differ between them.  [default: 1]",
)
@click.option("--chat-template", is_flag=True, help="Apply the chat template of the export to prompts.")
@click.option(
    "--steps",
    metavar="NAMES",
    callback=names,
    help="Steps to run: taps (the annotation), state, head (the MTP head), runtime (GenAI).  [default: all]",
)
@record_options("proof")
@output_options()
def command(
    model: Path,
    texts: tuple[str, ...],
    prompts: Path | None,
    earlier: Any,
    outputs: tuple[Path, ...],
    chat_template: bool,
    ui: Ui,
    **options: Any,
) -> int:
    """Run an export: its taps, its state, its MTP head, and drafted decoding in OpenVINO GenAI.

    Wrong wiring of an MTP head does not show in the text, because the target verifies each draft; these steps
    find it. Drafted and plain decoding must write the same tokens (equivalence). Prompts are used unchanged.
    Decoding is greedy and continues after the end of text. `irtools bench` measures acceptance and speed.

    Exit codes: 0 no step failed, 1 a step failed, the text changed or the acceptance rate is too low, 2 no
    step applies, or the export cannot be read.
    """
    from irtools.prove.settings import ProveSettings

    if texts and prompts is not None:
        raise click.UsageError("--prompt and --prompts cannot be used together; give one of them")
    set_options = {name: value for name, value in options.items() if value is not None}
    settings = ProveSettings(prompts=texts or _read_prompts(prompts), chat_template=chat_template, **set_options)

    def _ended(step: Any) -> None:
        """Say how a step ended; the figures follow at the end."""
        took = f" ({step.seconds:.1f} s)" if step.seconds else ""
        ui.note(f"{step.name}: {step.status}{took}")

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.prove import proof_text

        with ui.working(f"Proving {path}"), steps() as begin:
            proof = open_export(path).prove(settings, begin, _ended if ui.format == "text" else None)
        details: dict[str, object] = {"proof": proof.record}
        text = proof_text(proof, ui.style)
        if proof.nothing:
            error = f"{path}: no step applies, so nothing was proved: {proof.why_nothing}"
            entry = ModelResult(str(path), "refused", proof.exit_code, error, details=details, text=text)
        else:
            status = "findings" if proof.failed else "ok"
            entry = ModelResult(str(path), status, proof.exit_code, details=details, text=text)
        return with_files(entry, "prove", earlier, outputs, ui)

    return run_models(ui, "prove", [model], work)


def _read_prompts(path: Path | None) -> tuple[str, ...]:
    """Prompts of a file: a JSON list of strings, else the lines that are not empty."""
    if path is None:
        return ()
    from irtools.ir.reading import parse_json
    from irtools.prove.prompts import prompts_text

    text = prompts_text(path)
    prompts: Any = [line for line in text.splitlines() if line.strip()]
    if text.lstrip().startswith("["):
        try:
            prompts = parse_json(text)
        except ValueError as error:
            raise OptionError(f"{path}: starts like a JSON list but is not valid ({error})") from error
    if not prompts or not all(isinstance(item, str) and item for item in prompts):
        raise OptionError(f"{path}: contains no prompts; write one per line, or a JSON list of strings")
    return tuple(prompts)
