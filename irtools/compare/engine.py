"""Compare two exports."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from irtools.compare.differences import CATEGORIES, Comparison, Difference, PartDiff
from irtools.compare.entries import config_changes, file_changes, surplus, weights_file
from irtools.compare.parts import compare_parts
from irtools.errors import ExportError, IrtoolsError, UsageError, os_reason
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.text import did_you_mean
from irtools.timing import step

__all__ = ["compare"]

Operand = str | Path | ModelDirectory
_CONFIG = "config.json"


def compare(a: Operand, b: Operand, *, ignore: Collection[str] = (), part: str | None = None) -> Comparison:
    """Compare two exports, or two IRs, as :func:`irtools.diff` documents it."""
    ignored = _categories(ignore)
    one, other = (side if isinstance(side, ModelDirectory) else ModelDirectory.open(side) for side in (a, b))
    if part is not None or not (one.path.is_dir() and other.path.is_dir()):
        documents = _chosen(one, other, part)
        part_diff = _part(documents, one, other, ignored)
        unread: list[str] = []
        beyond = [*surplus(*documents), *weights_file(*documents, part_diff.uncompared, unread)]
        files = () if "files" in ignored else tuple(beyond)
        return Comparison(one.path, other.path, ignored, (part_diff,), files=files, errors=tuple(unread))
    shared, only = _parts(one, other)
    if not shared:
        raise ExportError(f"{one.path} and {other.path}: no IR is in both; give the .xml files to compare")
    with step("Comparing the other files"):
        config, config_versions, files, errors = _directories(one, other)
    parts = tuple(_part(documents, one, other, ignored) for documents in shared)
    unread = list(errors)
    beyond = [
        change
        for documents, diff in zip(shared, parts, strict=True)
        for change in (*surplus(*documents), *weights_file(*documents, diff.uncompared, unread))
    ]
    return Comparison(
        one.path,
        other.path,
        ignored,
        parts,
        only=() if "parts" in ignored else only,
        config=() if "config" in ignored else config,
        config_versions=() if {"versions", "config"} & ignored else config_versions,
        files=() if "files" in ignored else (*beyond, *files),
        errors=tuple(unread),
    )


def _categories(words: Collection[str]) -> frozenset[str]:
    if isinstance(words, str):
        words = [words]
    for word in words:
        if word not in CATEGORIES:
            hint = did_you_mean(word, CATEGORIES) or f"Give one of {', '.join(CATEGORIES)}"
            raise UsageError(f"there is no category {word!r} to ignore", hint=hint)
    return frozenset(words)


Documents = tuple[Document, Document]


def _chosen(a: ModelDirectory, b: ModelDirectory, part: str | None) -> Documents:
    """The documents to compare for a single part or file."""
    if part is not None:
        return _named(a, part), _named(b, part)
    file = (b if a.path.is_dir() else a).target
    return _beside(a, file), _beside(b, file)


def _named(export: ModelDirectory, part: str) -> Document:
    return export.part(part) if export.path.is_dir() else export.target


def _beside(export: ModelDirectory, file: Document) -> Document:
    """The file itself, or the part of the same name in a directory, otherwise the target."""
    if not export.path.is_dir():
        return export.target
    return export.parts.get(file.part) or export.target


def _parts(a: ModelDirectory, b: ModelDirectory) -> tuple[list[Documents], tuple[Difference, ...]]:
    """Parts of both exports, the target first, and parts of one export."""
    first, second = dict(a.parts), dict(b.parts)
    shared: list[Documents] = []
    targets = _target(a), _target(b)
    if targets[0] is not None and targets[1] is not None:
        shared.append((first.pop(targets[0].part), second.pop(targets[1].part)))
    shared += [(first.pop(name), second.pop(name)) for name in sorted(first.keys() & second.keys())]
    only = [Difference(name, document.path.name, None) for name, document in first.items()]
    only += [Difference(name, None, document.path.name) for name, document in second.items()]
    # A part without its weights file cannot be used.
    missing = [
        Difference(
            f"weights of {pair[0].part}",
            *(document.weights_path.name if document.weights_path.is_file() else None for document in pair),
        )
        for pair in shared
        if pair[0].weights_path.is_file() != pair[1].weights_path.is_file()
    ]
    return shared, (*only, *missing)


def _target(export: ModelDirectory) -> Document | None:
    candidates = export.target_candidates
    return candidates[0] if len(candidates) == 1 and candidates[0].part in export.parts else None


def _part(documents: Documents, a: ModelDirectory, b: ModelDirectory, ignored: frozenset[str]) -> PartDiff:
    one, other = documents
    try:
        # Only a target has a decoder stack; a lone file may have one.
        located = all(_target(export) in (None, document) for export, document in ((a, one), (b, other)))
        configs = (a.config, b.config) if located else None
        with step(f"Comparing {one.path} with {other.path}"):
            return compare_parts(one.part, one, other, configs, ignored)
    except IrtoolsError as error:
        return PartDiff(one.part, one.path, other.path, error=str(error))


def _directories(
    a: ModelDirectory, b: ModelDirectory
) -> tuple[tuple[Difference, ...], tuple[Difference, ...], tuple[Difference, ...], tuple[str, ...]]:
    """Changes in config.json, in its versions and in the other files, and errors."""
    parts = (*a.parts.values(), *b.parts.values())
    compared = {_CONFIG, *(path.name for part in parts for path in (part.path, part.weights_path))}
    errors: list[str] = []
    config: tuple[Difference, ...] = ()
    versions: tuple[Difference, ...] = ()
    files: tuple[Difference, ...] = ()
    try:
        config, versions = config_changes(a.config, b.config)
    except IrtoolsError as error:
        errors.append(str(error))
    try:
        files = tuple(file_changes(a.directory, b.directory, compared, errors))
    except OSError as error:
        errors.append(f"{error.filename}: cannot be read: {os_reason(error)}")
    return config, versions, files, tuple(errors)
