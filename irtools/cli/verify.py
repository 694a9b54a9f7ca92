"""``irtools verify``: run the rules over exports."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irtools.cli.common import EXPORT, PATH, Ui, about_model, write_stdout
from irtools.cli.defects import defect_text, is_defect, print_traceback
from irtools.cli.many import Ended, Many, naming
from irtools.cli.many_options import identity, many_options, require_directories
from irtools.errors import IrtoolsError, OptionError, SaveError
from irtools.remote import as_path
from irtools.report.formats import VERIFY, format_of, render, suffixes_text
from irtools.report.terminal import Style, folded
from irtools.text import is_url, plural, printable

if TYPE_CHECKING:
    from irtools.fleet import Outcome
    from irtools.lint.engine import ModelVerification
    from irtools.lint.session import VerifyCall
    from irtools.report.atlas_row import AtlasRow

__all__ = ["command"]

_DEFECT = "this is a defect of irtools; the findings of the other rules are complete"


def _codes(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


@click.command("verify")
@many_options
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
@click.option(
    "--part", "parts", metavar="NAME", multiple=True, help="Part that needs it.  [default: target and MTP head]"
)
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
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=PATH,
    callback=require_directories,
    help=f"Output file; see above. Format by suffix: {suffixes_text(VERIFY)}.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the findings that fail.")
@click.option("-v", "--verbose", is_flag=True, help="Print conditions of strategies, and steps with times.")
def command(
    *,
    many: Many,
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

    The first --output gets the first --format, and so on. The suffix sets the format of an --output without
    a --format. A --format without an --output goes to standard output.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 a model could not be verified.
    """
    from irtools.lint.finding import Severity
    from irtools.lint.session import VerifyCall

    if quiet and verbose:
        raise click.UsageError("-q and -v cannot be used together")
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
    if many.resume is not None:
        many = replace(many, options=f"{many.options} {_configuration(call, many.models)}")
    indexed = "html" in dict(targets) and write_baseline is None and not many.single
    many = replace(many, options=f"{many.options} {indexed}")
    showing = _Showing(targets, ui, streaming=len(many.models) > 1 and write_baseline is None, indexed=indexed)
    with ui.telling_traffic():
        ended = _verify_each(many, call, ui, showing)
        verified = showing.verified
        if write_baseline is not None:
            from irtools.lint.baseline import write_baseline as write

            verified = write(write_baseline, verified)
            known = sum(model.verification.in_baseline for model in verified if model.verification is not None)
            ui.note(f"wrote {write_baseline}: {plural(known, 'finding')} of {plural(len(verified), 'export')}")
        code = ended.code(_exit_code(verified, exit_zero=exit_zero))
        unwritten = False
        for format_, file in targets:
            if (format_, file) == _STREAM and showing.streaming:
                showing.end(verified)
                continue
            try:
                _emit(format_, file, verified, ui, code, showing.index)
            except SaveError as error:  # the other files have the results of all exports
                ui.error(str(error))
                unwritten = True
        from irtools.report.verification import failure_reason

        reasons = ((str(model.path), failure_reason(model)) for model in verified)
        ended.tell(ui, [(path, reason) for path, reason in reasons if reason], len(many.models))
        return 2 if unwritten else code


def _configuration(call: VerifyCall, models: Sequence[Path]) -> str:
    """What tells that a configuration file, or a baseline or a folder of rules that it names, has changed."""
    from irtools.lint.configuration import config_files, load_config

    if call.config is not None:
        files = [call.config]
    else:
        own = [model for model in models if not is_url(str(model))] if call.trust_model_config else []
        files = list(dict.fromkeys(file for start in (Path.cwd(), *own) for file in config_files(start)))
    told: list[object] = []
    for file in files:
        named: tuple[Path, ...] = ()
        with suppress(IrtoolsError):  # those whom it concerns report it, and such results are not kept
            config = load_config(file)
            named = (*config.rules, *filter(None, [config.baseline]))
        told.append(identity((file, *named)))
    return repr(told)


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


_STREAM = ("text", None)


class _Showing:
    """The outcomes of all exports, and the text about them on standard output as soon as it is there."""

    def __init__(
        self, targets: Sequence[tuple[str, Path | None]], ui: Ui, *, streaming: bool, indexed: bool = False
    ) -> None:
        self.verified: list[ModelVerification] = []
        self.index: list[AtlasRow] | None = [] if indexed else None
        self.streaming = streaming and _STREAM in targets
        self._ui = ui
        self._printed = False

    def add(self, model: ModelVerification) -> None:
        """Take the outcome of the next export."""
        from irtools.report.verification import model_text

        self.verified.append(model)
        if self.streaming:
            ui = self._ui
            self._print(model_text(model, style=ui.style, brief=ui.quiet, verbose=ui.verbose), exact=bool(model.diffs))

    def end(self, verified: Sequence[ModelVerification]) -> None:
        """Print the totals."""
        from irtools.report.verification import totals_text

        if not self._ui.quiet:
            self._print(totals_text(verified))

    def _print(self, text: str, *, exact: bool = False) -> None:
        if text:
            self._ui.result("\n" + text if self._printed else text, exact=exact)
            self._printed = True


def _verify_each(many: Many, call: VerifyCall, ui: Ui, showing: _Showing) -> Ended:
    if many.single:
        (path,) = many.models
        with ui.telling_steps(), ui.working(f"Verifying {path}"):
            model = _verify(call, ui, path)
        _tell(model, ui, set())
        showing.add(model)
        return Ended(1)
    from irtools.lint.engine import ModelVerification
    from irtools.lint.rows import from_row
    from irtools.lint.session import rule_folders

    folders, index = rule_folders(call), showing.index
    told: set[str] = set()

    def read(row: dict[str, Any]) -> ModelVerification:
        if index is not None:
            from irtools.report.atlas import AtlasRow

            AtlasRow.restored(row["index"])
        return from_row(row["model"], folders)

    def take(outcome: Outcome) -> None:
        if outcome.row is not None:
            model = from_row(outcome.row["model"], folders)
        else:
            model = ModelVerification(as_path(outcome.path), error=f"{outcome.path}: {outcome.failure}")
        if index is not None:
            from irtools.report.atlas import AtlasRow, failed_row

            row = outcome.row["index"] if outcome.row is not None else None
            index.append(AtlasRow.restored(row) if row is not None else failed_row(outcome.path, model.error or ""))
        _tell(model, ui, told, functools.partial(naming, outcome.path))
        showing.add(model)

    return many.each(
        ui,
        functools.partial(_row, call, index is not None),
        take,
        read=read,
        failed=lambda row: bool(row["failed"]),
        kept=lambda row: row["model"]["error"] is None and not row["model"]["failures"],
    )


def _row(call: VerifyCall, indexed: bool, ui: Ui, path: Path) -> dict[str, Any]:
    """Verify an export; the outcome in plain values, with the row of the index on the HTML page."""
    from irtools.lint.rows import to_row
    from irtools.report.verification import failure_reason

    model = _verify(call, ui, path)
    written = [str(file.path) for file in model.written]
    row = {"model": to_row(model), "failed": bool(failure_reason(model)), "details": {"written": written}}
    if indexed:
        from irtools.report.atlas import verified_row

        row["index"] = verified_row(model, target_runtime=call.target_runtime).plain()
    return row


def _verify(call: VerifyCall, ui: Ui, path: Path) -> ModelVerification:
    from irtools.lint.engine import ModelVerification
    from irtools.lint.session import verify_model

    try:
        with about_model(path):
            return verify_model(path, call)
    except OptionError:
        raise  # every model would raise the same error
    except IrtoolsError as error:
        return ModelVerification(path, error=str(error))
    except Exception as error:
        if not is_defect(error):
            raise
        return ModelVerification(path, error=defect_text(error, path))


def _tell(model: ModelVerification, ui: Ui, told: set[str], named: Callable[[str], str] = str) -> None:
    """Print errors and notes about the outcome of an export.

    Parameters
    ----------
    told : set of str
        Notes about configurations that were printed already.
    named : callable
        Puts the name of the export before a note that does not have it.
    """
    if model.error is not None:
        ui.error(model.error)
    for note in model.config_notes:
        if note not in told:
            told.add(note)
            ui.note(note)
    for note in model.notes:
        ui.note(named(note))
    for failure in model.failures:
        whose = "unless the rule is your own, " if failure.rule is not None else ""
        ui.error(f"{model.path}: {failure.message}; {whose}{_DEFECT}")
        print_traceback(failure.traceback)
    for file in model.written:
        ui.note(f"wrote {file.path}")
        if file.link_note:
            ui.note(file.link_note)


def _emit(
    format_: str,
    file: Path | None,
    verified: list[ModelVerification],
    ui: Ui,
    code: int,
    index: list[AtlasRow] | None = None,
) -> None:
    from irtools.ir.output import write_output
    from irtools.model.directory import ModelDirectory

    style = ui.style if file is None else Style()
    text = render(
        VERIFY[format_],
        verified,
        style=style,
        exit_code=code,
        brief=file is None and ui.quiet,
        verbose=ui.verbose,
        index=index,
    )
    diff = format_ == "text" and any(model.diffs for model in verified)
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
