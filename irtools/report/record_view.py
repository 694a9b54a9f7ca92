"""Content of a page or document about the record of a proof or a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from irtools.prove.settings import Prompt
from irtools.report.html_tables import HtmlColumn, HtmlTable, number_columns, text_columns
from irtools.text import size_text

if TYPE_CHECKING:
    from irtools.prove.record_changes import RecordChange
    from irtools.report.plots import Plot

__all__ = ["Number", "RecordView", "changes_table", "conditions"]

_LOAD = ("over 1 minute", "over 5 minutes", "over 15 minutes")


@dataclass(frozen=True, slots=True)
class Number:
    """A figure as text, with the value that it stands for."""

    text: str
    value: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class RecordView:
    """Content of a page or document about a record.

    Attributes
    ----------
    kind : str
        ``proof`` or ``bench``.
    verdict : str
        Result as a sentence.
    grade : str
        ``ok``, ``warning`` or ``error``: the colour of the verdict.
    tables : tuple of HtmlTable
        What was measured.
    plots : tuple of Plot
    conditions : tuple of HtmlTable
        When, where and with which files it was measured.
    """

    kind: str
    title: str
    path: str
    date: str
    verdict: str
    grade: str
    tables: tuple[HtmlTable, ...]
    plots: tuple[Plot, ...]
    conditions: tuple[HtmlTable, ...]


def conditions(record: Mapping[str, Any]) -> tuple[HtmlTable, ...]:
    """Tables of the conditions that a record names; a record of an older release names fewer."""
    models = [("target", record["model"])]
    if record.get("draft"):
        models.append(("draft", record["draft"]))
    models += [("other directory", draft) for draft in record.get("drafts", ())]
    made = (
        HtmlTable("Machine and programs", text_columns("condition", "value"), tuple(_machine(record))),
        _properties(record),
        HtmlTable("Settings", text_columns("setting", "value"), tuple(_settings(record["settings"]))),
        _prompts(record["prompts"]),
        _weights(models),
        _files(models),
    )
    return tuple(table for table in made if table.rows)


def _machine(record: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    device, machine = record["device"], record.get("machine") or {}
    if record.get("date"):
        yield "date", record["date"]
    yield "device", device["name"]
    for name, value in (("device, full name", device.get("full_name")), ("driver", device.get("driver"))):
        if value:
            yield name, value
    if machine:
        yield "CPU", machine["cpu"]
        yield "CPUs", f"{machine['cpus']}, usable {machine['usable_cpus']}"
        if machine["memory"]:
            yield "memory", size_text(machine["memory"])
        for when in ("start", "end"):
            averages = machine["timing"][f"load_{when}"]
            if averages:
                shown = (f"{load:g} {span}" for load, span in zip(averages, _LOAD, strict=False))
                yield f"load at the {when}", ", ".join(shown)
    yield from sorted(record["versions"].items())
    model = record["model"]
    for name in ("id", "revision"):
        if model.get(name):
            yield name, model[name]
    yield from sorted(model["made_with"].items())


def _properties(record: Mapping[str, Any]) -> HtmlTable:
    """Properties of the compiled models beside the defaults of the device."""
    device = record["device"]
    compiled = device.get("effective") or {}
    defaults = device.get("defaults") or device["properties"]
    columns = [("device", defaults), *((part, {**one["properties"], **_state(one)}) for part, one in compiled.items())]
    names = sorted({name for _, properties in columns for name in properties})
    rows = [(name, *(properties.get(name, "") for _, properties in columns)) for name in names]
    notes = [f"{part}: {one['fault']}" for part, one in compiled.items() if one["fault"]]
    if compiled:
        notes.append("The columns of models were read from the compiled models, and the first from the device.")
    titles = (HtmlColumn("property", name=True), *text_columns(*(title for title, _ in columns)))
    return HtmlTable("Properties", titles, tuple(rows), tuple(notes))


def _state(compiled: Mapping[str, Any]) -> dict[str, str]:
    return {f"state {table}": kind for table, kind in compiled["state"].items()}


def _settings(settings: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for name, value in settings.items():
        if value not in (None, [], {}, ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            shown = ", ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else shown
            yield name.replace("_", " "), shown


def _prompts(prompts: Sequence[Mapping[str, Any]]) -> HtmlTable:
    kinds = any("class" in prompt for prompt in prompts)
    columns = (*(text_columns("class") if kinds else ()), *text_columns("prompt"), *number_columns("tokens"))
    rows = tuple(
        (
            *((prompt.get("class", ""),) if kinds else ()),
            Prompt(prompt["text"], tuple(prompt.get("token_ids", ()))).label,
            prompt["length"],
        )
        for prompt in prompts
    )
    return HtmlTable("Prompts", columns, rows)


def _weights(models: Sequence[tuple[str, Mapping[str, Any]]]) -> HtmlTable:
    columns = (*text_columns("directory", "part", "precision"), *number_columns("values", "size"))
    rows = tuple(
        (title, part, one["precision"], f"{one['elements']:,}", size_text(one["bytes"]))
        for title, model in models
        for part, precisions in (model.get("weights") or {}).items()
        for one in precisions
    )
    return HtmlTable("Precision of the weights", columns, rows)


def _files(models: Sequence[tuple[str, Mapping[str, Any]]]) -> HtmlTable:
    columns = (HtmlColumn("file", name=True), *number_columns("bytes"), HtmlColumn("SHA-256", name=True))
    rows = tuple(
        (f"{model['path']}/{name}", f"{file['size']:,}", _hash(file))
        for _, model in models
        for name, file in model["files"].items()
        if name.endswith((".xml", ".bin"))
    )
    samples = {file["samples"] for _, model in models for file in model["files"].values() if file.get("samples")}
    return HtmlTable("Files", columns, rows, tuple(f"A hash of samples covers {scheme}." for scheme in samples))


def _hash(file: Mapping[str, Any]) -> str:
    samples = file.get("sha256_of_samples")
    return file["sha256"] or (f"of samples: {samples}" if samples else "not hashed")


def changes_table(changes: Sequence[RecordChange]) -> HtmlTable:
    """Changes since an earlier record: first conditions, then figures."""
    columns = (HtmlColumn("", name=True), *text_columns("what", "before", "now"), *number_columns("ratio"))
    rows = tuple(
        (
            "condition" if one.condition else "figure",
            one.what.replace("/", " "),
            one.before or "-",
            one.now or "-",
            f"{one.ratio:.2f}" if one.ratio else "",
        )
        for one in changes
    )
    return HtmlTable("Changes since the earlier record", columns, rows)
