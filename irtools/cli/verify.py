"""``irtools verify``: run the rules over exports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irtools.cli.common import EXPORT, PATH, Ui, about_model, models_argument, print_error, write_stdout
from irtools.cli.defects import defect_text, is_defect, print_traceback
from irtools.errors import IrtoolsError, OptionError
from irtools.report.formats import VERIFY, format_of, render, suffixes_text
from irtools.report.terminal import Style, folded
from irtools.text import plural, printable

if TYPE_CHECKING:
    from irtools.lint.engine import ModelVerification
    from irtools.lint.session import VerifyCall

__all__ = ["command"]

_DEFECT = "this is a defect of irtools; the findings of the other rules are complete"


def _codes(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


@click.command("verify")
@models_argument
@click.option("--expect-mtp/--no-mtp", default=None, help="Require or exclude an MTP head.")
@click.option("--draft", metavar="DIR", type=EXPORT, help="DFlash or EAGLE-3 draft to check together with the export.")
@click.option(
    "--select", metavar="RULES", multiple=True, callback=_codes, help="Run only these rules (codes or names) or groups."
)
@click.option("--ignore", metavar="RULES", multiple=True, callback=_codes, help="Skip these rules or groups.")
@click.option("--rules", metavar="DIR", multiple=True, type=PATH, help="Folder of your own rules.")
@click.option("--target-runtime", metavar="VERSION", help="OpenVINO GenAI release to check for.  [default: 2026.4]")
@click.option(
    "--expect-compression",
    metavar="SPEC",
    help="Require a weight compression, such as int4_asym:64:int8_sym (mode:group size:backup precision:ratio).",
)
@click.option("--part", "parts", metavar="NAME", multiple=True, help="Part with it.  [default: target and MTP head]")
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note"]), help="Lowest severity that fails.  [default: error]"
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--baseline", metavar="FILE", type=PATH, help="Do not report the findings of this file.")
@click.option("--write-baseline", metavar="FILE", type=PATH, help="Write all findings to a new baseline.")
@click.option("--config", metavar="FILE", type=PATH, help="Configuration file to use instead of a search.")
@click.option("--trust-model-config", is_flag=True, help="Accept a configuration file inside the export.")
@click.option("--fix", is_flag=True, help="Write a missing annotation, or upgrade its early form.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="Also apply fixes that a person must review: replace a wrong annotation, make the names of ops unique, "
    "restore lost names of inputs and outputs, reorder the inputs of an MTP head's fusion.",
)
@click.option("--diff", is_flag=True, help="Print the changes of the fixes; write nothing.")
@click.option("--format", "formats", multiple=True, type=click.Choice(tuple(VERIFY)), help="Format.  [default: text]")
@click.option(
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=PATH,
    help=f"Output file; see above. Format by suffix: {suffixes_text(VERIFY)}.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the findings that fail.")
@click.option("-v", "--verbose", is_flag=True, help="Print conditions of strategies, and steps with times.")
def command(
    *,
    models: tuple[Path, ...],
    expect_mtp: bool | None,
    draft: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    rules: tuple[Path, ...],
    target_runtime: str | None,
    expect_compression: str | None,
    parts: tuple[str, ...],
    fail_on: str | None,
    exit_zero: bool,
    baseline: Path | None,
    write_baseline: Path | None,
    config: Path | None,
    trust_model_config: bool,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    formats: tuple[str, ...],
    outputs: tuple[Path, ...],
    quiet: bool,
    verbose: bool,
) -> int:
    """Find faults that make the runtime refuse the export, crash, or decode wrongly without an error.

    The first --output has the first --format, and so on. The suffix sets the format of an --output without
    a --format. A --format without an --output is written to standard output.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 a model could not be verified.
    """
    from irtools.lint.finding import Severity
    from irtools.lint.session import VerifyCall

    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other")
    if parts and expect_compression is None:
        raise click.UsageError("--part needs --expect-compression")
    targets = _destinations(formats, outputs)
    call = VerifyCall(
        select=select,
        ignore=ignore,
        fail_on=Severity[fail_on.upper()] if fail_on else None,
        expect_mtp=expect_mtp,
        draft=draft,
        target_runtime=target_runtime,
        expect_compression=dict.fromkeys(parts or ("",), expect_compression) if expect_compression is not None else {},
        rules=rules,
        baseline=baseline,
        ignore_baseline=write_baseline is not None,
        config=config,
        trust_model_config=trust_model_config,
        fix=fix,
        unsafe_fixes=unsafe_fixes,
        diff=diff,
    )
    ui = Ui("text", quiet, verbose, Style.of(sys.stdout))
    verified = []
    with ui.telling_traffic():
        for path in models:
            with ui.telling_steps(), ui.working(f"Verifying {path}"):
                verified.append(_verify(path, call, ui))
    if write_baseline is not None:
        from irtools.lint.baseline import write_baseline as write

        verified = write(write_baseline, verified)
        known = sum(model.verification.in_baseline for model in verified if model.verification is not None)
        ui.note(f"wrote {write_baseline}: {plural(known, 'finding')} of {plural(len(verified), 'export')}")
    for format_, file in targets:
        _emit(format_, file, verified, ui, exit_zero=exit_zero)
    return _exit_code(verified, exit_zero=exit_zero)


def _destinations(formats: tuple[str, ...], outputs: tuple[Path, ...]) -> list[tuple[str, Path | None]]:
    """Pairs of format and output file; None for standard output."""
    paired: list[tuple[str, Path | None]] = [
        (formats[number] if number < len(formats) else format_of(VERIFY, file), file)
        for number, file in enumerate(outputs)
    ]
    left = formats[len(outputs) :]
    if len(left) > 1:
        raise click.UsageError(f"only one of {' and '.join(left)} can go to standard output; give each an --output")
    if not outputs and not left:
        left = ("text",)
    return [*paired, *((format_, None) for format_ in left)]


def _verify(path: Path, call: VerifyCall, ui: Ui) -> ModelVerification:
    from irtools.lint.engine import ModelVerification, RuleFailedError
    from irtools.lint.session import verify_model

    try:
        with about_model(path):
            verified = verify_model(path, call)
    except OptionError:
        raise  # every model would raise the same error
    except IrtoolsError as error:
        print_error(str(error))
        return ModelVerification(path, error=str(error))
    except Exception as error:
        if not is_defect(error):
            raise
        text = defect_text(error, path)
        print_error(text)
        return ModelVerification(path, error=text)
    for note in verified.notes:
        ui.note(note)
    for failure in verified.failures:
        whose = "unless the rule is your own, " if isinstance(failure, RuleFailedError) else ""
        print_error(f"{path}: {failure.args[0]}; {whose}{_DEFECT}")
        print_traceback(failure.__cause__)
    for file in verified.written:
        ui.note(f"wrote {file.path}")
        if file.link_note:
            ui.note(file.link_note)
    return verified


def _emit(format_: str, file: Path | None, verified: list[ModelVerification], ui: Ui, *, exit_zero: bool) -> None:
    from irtools.ir.output import write_output
    from irtools.model.directory import ModelDirectory

    code, style = _exit_code(verified, exit_zero=exit_zero), ui.style if file is None else Style()
    text = render(
        VERIFY[format_], verified, style=style, exit_code=code, brief=file is None and ui.quiet, verbose=ui.verbose
    )
    diff = format_ == "text" and any(model.patches and not model.written for model in verified)
    if file is None:
        shown = text if diff or format_ != "text" else folded(text, style)
        write_stdout(shown, VERIFY[format_].escapes, styled=style.colour, exact=diff)
    else:
        data = printable(text, VERIFY[format_].escapes, whole=diff).encode("utf-8", "backslashreplace")
        write_output(file, data, [ModelDirectory(model.path).directory for model in verified])


def _exit_code(verified: list[ModelVerification], *, exit_zero: bool) -> int:
    if any(model.verification is None or model.failures for model in verified):
        return 2
    return int(any(model.failed for model in verified) and not exit_zero)
