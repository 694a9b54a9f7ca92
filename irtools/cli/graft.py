"""``irtools graft``: make drafting faster with a smaller draft head."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from irtools.cli.common import PATH, Ui, models_argument, output_options, run_models
from irtools.cli.writing import Writing, finish, writer_options
from irtools.errors import UsageError
from irtools.report.json import ModelResult

__all__ = ["command"]

_NUMBER = re.compile(r"(\d{1,9})(k?)", re.ASCII | re.IGNORECASE)


class Vocabulary(click.ParamType):  # type: ignore[type-arg]  # older click is not generic
    """A number of tokens; ``32k`` is 32,768."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value."""
        match = _NUMBER.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a number of tokens such as 32768 or 32k", param, ctx)
        return int(match[1]) * (1024 if match[2] else 1)


@click.command("graft")
@models_argument
@click.option("--vocabulary", type=Vocabulary(), help="Tokens that the draft head covers, such as 32768 or 32k.")
@click.option("--own-head", is_flag=True, help="Add the draft head to the MTP part, with new weights.")
@click.option("--tokens", metavar="FILE", type=PATH, help="Token ids that a head of its own covers, one on each line.")
@click.option("--draft", metavar="DIR", type=PATH, help="A DFlash draft that gets a head of its own, in --output-dir.")
@click.option("--weights", type=click.Choice(("int4", "int8")), help="Compress a head of its own with NNCF.")
@click.option("--remove", is_flag=True, help="Remove the draft head; with --own-head that of the MTP part.")
@writer_options
@click.option("--force", is_flag=True, help="Replace another draft head that irtools added.")
@click.option("--no-check", is_flag=True, help="Do not check the new file with OpenVINO.")
@output_options()
def command(
    models: tuple[Path, ...],
    vocabulary: int | None,
    own_head: bool,
    tokens: Path | None,
    draft: Path | None,
    weights: str | None,
    remove: bool,
    writing: Writing,
    force: bool,
    no_check: bool,
    ui: Ui,
) -> int:
    """Make MTP drafting faster with a draft head over fewer tokens; the text stays the same.

    The runtime copies lm_head into the draft and computes all its rows for each drafted token. With --vocabulary N the
    target gets a second head over the first N tokens, which shares the bytes of lm_head, and the runtime copies that
    one: only the XML changes. With --own-head the MTP part gets a head with weights of its own, and the target is
    untouched; --tokens chooses which tokens it covers. With --draft a DFlash draft gets such a head, in a copy.
    """
    _require(vocabulary, own_head or draft is not None, tokens, weights, remove)
    if draft is not None and (remove or own_head or writing.output_dir is None or len(models) != 1):
        raise UsageError(
            "--draft writes a copy of the draft: give one MODEL_DIR and --output-dir, without --own-head and --remove"
        )
    destinations = writing.destinations(models)

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.grafting import draft_head_entries, draft_head_text

        export = open_export(path)
        changed = open_export(draft) if draft is not None else export
        if not no_check and not writing.dry_run:
            from irtools.runtime.check import warm_up

            warm_up()
        with ui.working(f"{'Compressing lm_head of' if weights else 'Looking through'} {export.target.path}"):
            if remove:
                head = export.ungraft(own_head=own_head)
            else:
                chosen = _tokens(tokens, vocabulary)
                head = export.graft(
                    None if chosen else vocabulary,
                    own_head=own_head,
                    tokens=chosen,
                    draft=changed if draft is not None else None,
                    weights=weights,
                    force=force,
                )
        return finish(
            ui,
            writing,
            path,
            changed,
            head.patch,
            destinations[path],
            check=not no_check,
            nothing_to_do=f"{head.patch.path} has {'no draft head' if remove else 'this draft head already'}",
            heading="" if remove else draft_head_text(head, ui.style),
            details=draft_head_entries(head, removed=remove),
        )

    return run_models(ui, "graft", models, work)


def _require(vocabulary: int | None, own_head: bool, tokens: Path | None, weights: str | None, remove: bool) -> None:
    """Require options that go together; ``own_head`` is True for any draft head with weights of its own."""
    if remove and any(option is not None for option in (vocabulary, tokens, weights)):
        raise UsageError("--remove takes neither --vocabulary nor --tokens nor --weights")
    if tokens is not None and not own_head:
        raise UsageError("--tokens needs --own-head; a draft head in the target covers the first tokens")
    if weights is not None and not own_head:
        raise UsageError(
            "--weights needs --own-head or --draft; a draft head in the target shares the bytes of lm_head"
        )
    if not remove and not own_head and vocabulary is None:
        raise UsageError("--vocabulary is missing: give a number of tokens such as 32k")


def _tokens(path: Path | None, vocabulary: int | None) -> Sequence[int] | None:
    """Token ids of a file, at most as many as ``vocabulary``; None without a file."""
    if path is None:
        return None
    from irtools.surgery.graft.directory import token_file

    return token_file(path)[:vocabulary]
