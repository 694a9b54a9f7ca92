"""Benchmark an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from irtools.bench.attempts import Attempts
from irtools.bench.contenders import contenders
from irtools.bench.figures import Row
from irtools.bench.record import record
from irtools.bench.samples import RAN, Contender
from irtools.bench.schedule import Watcher, schedule
from irtools.bench.settings import BenchSettings
from irtools.bench.workload import filler, of_classes, padded, read_prompts, shipped
from irtools.errors import UsageError
from irtools.model.directory import ModelDirectory
from irtools.prove.evidence import Evidence
from irtools.runtime import genai
from irtools.runtime.probe import RuntimeFacts, probe
from irtools.text import short_repr

__all__ = ["Benchmark", "bench", "gates"]


@dataclass(frozen=True)
class Benchmark:
    """Result of a benchmark.

    Attributes
    ----------
    rows : tuple of Row
        Plain decoding first.
    record : mapping
        Settings, figures and every single time as JSON; valid against ``irtools.bench.record.schema()``.
    """

    export: ModelDirectory
    settings: BenchSettings
    rows: tuple[Row, ...]
    record: Mapping[str, Any]

    def __repr__(self) -> str:
        recommended = self.record["recommendation"]
        return short_repr(self, str(self.export.path), f"{recommended['decision']} {recommended['row']}".strip())

    @property
    def nothing(self) -> bool:
        """True if no row ran, so that nothing was measured."""
        return not any(one.status == RAN for row in self.rows for one in row.attempts)

    @property
    def missed(self) -> tuple[str, ...]:
        """Sentences about the gates that were missed."""
        return gates(self.record)

    @property
    def exit_code(self) -> int:
        """Exit code of the command, 1 if a gate was missed, 2 if nothing was measured, 130 if it was interrupted."""
        if self.nothing:
            return 2
        return 130 if self.record["interrupted"] else int(bool(self.missed))


def bench(export: ModelDirectory, settings: BenchSettings | None = None, watcher: Watcher | None = None) -> Benchmark:
    """Benchmark an export.

    Raises
    ------
    ExportError
        The target or a draft does not exist.
    UsageError
        openvino-genai is not installed, or a setting is invalid for the export.
    """
    settings = settings or BenchSettings()
    if not genai.available():
        raise UsageError(genai.NOT_INSTALLED)
    _ = export.target.graph
    given = read_prompts(settings.prompts) if settings.prompts is not None else shipped()
    prompts = of_classes(given, settings.classes)
    if any(prompt.image for prompt in prompts) and find_spec("PIL") is None:
        raise UsageError("prompts with images need Pillow; install it with `pip install pillow`")
    texts = [prompt.text for prompt in prompts] + ([filler()] if settings.context else [])
    seen = probe(settings.device, export.directory, texts, chat_template=False)
    seen.require(settings.device)
    if not seen.tokens:
        raise UsageError(f"the prompts cannot be tokenized ({seen.fault}); `irtools verify` looks for the cause")
    if settings.context:
        prompts = padded(prompts, settings.context, list(map(len, seen.tokens)))
    with ExitStack() as scratch:
        entered = contenders(export, settings, scratch)
        gated = settings.min_speedup is not None or settings.min_acceptance is not None
        if gated and not any(one.assistant_tokens for one in entered.contenders):
            raise UsageError("a gate needs a draft: there is no MTP head; give --draft")
        evidence = _evidence(export, entered.contenders, settings, seen)
        attempts = scratch.enter_context(Attempts(settings, prompts))
        measured = schedule(
            entered.contenders, attempts, repeat=settings.repeat, refused=entered.refused, watcher=watcher
        )
        made = record(measured.rows, prompts, settings, evidence, interrupted=measured.interrupted)
    return Benchmark(export, settings, measured.rows, made)


def _evidence(
    export: ModelDirectory, contenders: Sequence[Contender], settings: BenchSettings, seen: RuntimeFacts
) -> Evidence:
    """Conditions of the benchmark; the target, and each kind of draft, are compiled for their properties."""
    models, compiled = {"model": export}, {"target": export.target.path}
    known = {export.directory: export}
    for one in contenders:
        for kind, directory in (("export", one.model), ("draft", one.draft)):
            if directory is not None and directory not in known:
                known[directory] = models[f"{kind} {len(models)}"] = ModelDirectory.open(directory)
        if one.draft is not None and one.strategy not in compiled:
            compiled[one.strategy] = (known[one.draft].mtp or known[one.draft].target).path
    taken = Evidence.take(
        settings.device,
        seen,
        models,
        compiled,
        properties=settings.properties,
        whole=settings.hash_weights,
        timeout=settings.timeout,
    )
    recipes = {str(one.model): one.recipe for one in contenders if one.recipe}
    shown = {key: {**model, "path": recipes.get(model["path"], model["path"])} for key, model in taken.models.items()}
    return replace(taken, models=shown)


def gates(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences about the required minima that a record does not reach.

    A gate is about the fastest row that drafts.
    """
    settings, fastest = record["settings"], record["recommendation"]
    row = next((one for one in record["rows"] if one["name"] == fastest["row"]), None)
    if row is None:
        wanted = [name for name in ("min_speedup", "min_acceptance") if settings[name] is not None]
        return ("no row that drafts ran, so the required minimum was not reached",) if wanted else ()
    missed = []
    speed_up, wanted_speed = fastest["speed_up"], settings["min_speedup"]
    if wanted_speed is not None and speed_up["median"] < wanted_speed:
        missed.append(f"the speed-up {speed_up['median']:.2f} of {row['name']} is below the required {wanted_speed:g}")
    rate, wanted_rate = row["figures"]["acceptance"], settings["min_acceptance"]
    if wanted_rate is not None and (rate is None or rate["median"] < wanted_rate):
        value = "unknown" if rate is None else f"{rate['median']:.3f}"
        missed.append(f"the acceptance rate {value} of {row['name']} is below the required {wanted_rate:g}")
    return tuple(missed)
