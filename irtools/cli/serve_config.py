"""``irtools serve-config``: write what serves an export as it was verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irtools.cli.common import PATH, Ui, about_model, model_argument, output_options, run_models
from irtools.model.decoding import STRATEGIES
from irtools.report.json import ModelResult
from irtools.text import joined, visible

if TYPE_CHECKING:
    from irtools.report.serve_config import ServeConfig

__all__ = ["command"]

_BEST = "best"
_UNTESTED = "the graph fits the interface of the server; no server was started with it"


@click.command("serve-config")
@model_argument
@click.option("--draft", metavar="DIR", type=PATH, help="Draft in a separate directory.")
@click.option(
    "--for",
    "server",
    type=click.Choice(("ovms", "genai")),
    default="ovms",
    show_default=True,
    help="Write a graph for OpenVINO Model Server, or Python for OpenVINO GenAI.",
)
@click.option("-o", "--output-dir", metavar="DIR", type=PATH, required=True, help="Directory for the files.")
@click.option(
    "--strategy",
    type=click.Choice((_BEST, *STRATEGIES)),
    default=_BEST,
    help="Decoding strategy.  [default: that of the draft, else that of the export]",
)
@click.option("--name", metavar="NAME", default="", help="Name of the model in requests.  [default: of its directory]")
@click.option("--device", metavar="NAME", default="CPU", show_default=True, help="OpenVINO device.")
@click.option(
    "--cache-size",
    metavar="GB",
    type=click.IntRange(0, 1 << 20),
    default=0,
    show_default=True,
    help="Size of the KV cache in the server; 0 lets it grow.",
)
@click.option(
    "--prefix-caching/--no-prefix-caching",
    default=None,
    help="Share the KV cache of common prompt prefixes.  [default: only without a draft that reads hidden states]",
)
@click.option("--max-num-seqs", metavar="N", type=click.IntRange(1, 1 << 31), help="Most sequences at a time.")
@click.option("--max-batched-tokens", metavar="N", type=click.IntRange(1, 1 << 31), help="Most tokens in a pass.")
@click.option("--target-runtime", metavar="VERSION", help="Release to write for.  [default: 2026.4]")
@click.option("--force", is_flag=True, help="Replace other files of these names; each old one stays as NAME.old.")
@click.option("--dry-run", is_flag=True, help="Show the files and write nothing; exit with 1 if one would change.")
@output_options()
def command(
    *,
    model: Path,
    draft: Path | None,
    server: str,
    output_dir: Path,
    target_runtime: str | None,
    max_batched_tokens: int | None,
    force: bool,
    dry_run: bool,
    ui: Ui,
    **settings: Any,
) -> int:
    """Write the files that serve an export as it was verified.

    For OpenVINO Model Server, these are graph.pbtxt and ovms_config.json, with model and draft, device, cache and batch
    limits from the conditions of the decoding strategy. For OpenVINO GenAI, it is generate.py. A strategy that
    `irtools verify` reports as not available is refused.
    """
    if server == "genai":
        given = {"name": "", "cache_size": 0, "prefix_caching": None, "max_num_seqs": None}
        others = [f"--{name.replace('_', '-')}" for name, unset in given.items() if settings[name] != unset]
        others += ["--max-batched-tokens"] if max_batched_tokens is not None else []
        if others:
            raise click.UsageError(f"{joined(others)} {'is' if len(others) == 1 else 'are'} only for --for ovms")

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.serve_config import ServeSettings

        chosen = ServeSettings(
            server, max_num_batched_tokens=max_batched_tokens, release=target_runtime or "", **settings
        )
        with ui.working(f"Verifying {path}"):
            export = open_export(path)
            config = export.serve_config(output_dir, chosen, draft=draft)
        roots = [export.directory, *([draft] if draft is not None else [])]
        return _write(ui, path, config, output_dir, roots, force, dry_run)

    return run_models(ui, "serve-config", [model], work)


def _write(
    ui: Ui, model: Path, config: ServeConfig, output_dir: Path, exports: list[Path], force: bool, dry_run: bool
) -> ModelResult:
    from irtools.report.serve_config import serve_details
    from irtools.serving.output import plan_output, write_planned

    with about_model(output_dir):
        plan = plan_output(output_dir, config.files, exports, force=force)
        if not dry_run and plan.steps:
            write_planned(plan)
    status = ("would-write" if dry_run else "written") if plan.steps else "unchanged"
    done = {"would-write": "would write", "written": "wrote"}.get(status)
    outcome = [f"{done} {joined(plan.written)}"] if done else []
    outcome += [f"{joined(plan.unchanged)} already had this content"] if plan.unchanged else []
    outcome += [f"kept the old {old.name} as {new.name}" for old, new in plan.kept.items() if not dry_run]
    if config.server == "ovms":
        ui.note(_UNTESTED)
    parts = [config.text(ui.style), visible("; ".join(outcome)), f"start it: {visible(config.command(output_dir))}"]
    if dry_run:
        parts += [f"\n{name}:\n{content.decode().rstrip()}" for name, content in config.files.items()]
    details = {
        **serve_details(config, output_dir),
        "written": [] if dry_run else list(map(str, plan.written)),
        "kept": {} if dry_run else {str(old): str(new) for old, new in plan.kept.items()},
        "notes": [_UNTESTED] if config.server == "ovms" else [],
    }
    return ModelResult(str(model), status, int(status == "would-write"), details=details, text="\n".join(parts))
