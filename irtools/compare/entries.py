"""Compare ports, metadata, config.json and files, which need no alignment of ops."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from irtools.compare.blob import same_file
from irtools.compare.differences import Difference
from irtools.compare.ops import port_text
from irtools.errors import IrtoolsError
from irtools.graph.view import GraphView
from irtools.ir.constants import iter_graphs, read_constants
from irtools.ir.op import Port
from irtools.ir.reading import NotFetchedError
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.model.provenance import flat_rt_info
from irtools.text import plural, size_text

__all__ = ["config_changes", "file_changes", "mappings", "metadata", "ports", "surplus", "weights_file"]

_DEEPEST = 64
_NUMBERED = re.compile(r"(Parameter|Result)_\d+")
_COMPRESSION = "nncf/"
_VERSION_KEY = "OpenVINO Runtime"


def mappings(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    """Entries that differ, in the key order of ``a``, then of ``b``."""
    for key in dict.fromkeys((*a, *b)):
        if a.get(key) != b.get(key):
            yield Difference(key, a.get(key), b.get(key))


# -- ports -----------------------------------------------------------------------------


def ports(a: GraphView, b: GraphView) -> tuple[Difference, ...]:
    """Inputs and outputs that differ in name, type, shape or order."""
    return (*_kind("input", _inputs(a), _inputs(b)), *_kind("output", _outputs(a), _outputs(b)))


def _inputs(view: GraphView) -> dict[str, str]:
    outputs = [view.op(key).outputs for key in view.parameters]
    return _by_name((ports[0].names if ports else (), ports) for ports in outputs)


def _outputs(view: GraphView) -> dict[str, str]:
    return _by_name((view.result_names(key), view.op(key).inputs) for key in view.results)


def _by_name(ends: Iterable[tuple[tuple[str, ...], tuple[Port, ...]]]) -> dict[str, str]:
    """Type and shape by tensor names."""
    texts: dict[str, str] = {}
    for names, ports in ends:
        # A tensor can have several names in arbitrary order; OpenVINO generates the numbered ones.
        label = " = ".join(sorted(name for name in names if not _NUMBERED.fullmatch(name))) or f"{len(texts)} (no name)"
        while label in texts:
            label += " again"
        texts[label] = port_text(ports[0]) if ports else ""
    return texts


def _kind(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    for change in mappings(a, b):
        yield Difference(f"{kind} {change.what}", change.a, change.b)
    orders = [[name for name in side if name in other] for side, other in ((a, b), (b, a))]
    if orders[0] != orders[1]:
        yield Difference(f"order of {kind}s", ", ".join(orders[0]), ", ".join(orders[1]))


# -- metadata --------------------------------------------------------------------------


def metadata(a: Document, b: Document) -> Mapping[str, tuple[Difference, ...]]:
    """Entries that differ, by ``rt_info`` (without the annotation), ``versions`` and ``compression``."""
    entries: dict[str, list[Difference]] = {"rt_info": [], "versions": [], "compression": []}
    ir = [document.scan.net.get("version", "") for document in (a, b)]
    if ir[0] != ir[1]:
        entries["versions"].append(Difference("IR format", *ir))
    for change in mappings(flat_rt_info(a), flat_rt_info(b)):
        if change.what.split("/")[0] != ANNOTATION_KEY:
            entries[_category(change.what)].append(change)
    return {key: tuple(changes) for key, changes in entries.items()}


def _category(key: str) -> str:
    if _is_version(key) or key == _VERSION_KEY:
        return "versions"
    return "compression" if key.startswith(_COMPRESSION) else "rt_info"


def _is_version(key: str) -> bool:
    return "version" in key.rsplit("/", 1)[-1].lower()


# -- the directory ---------------------------------------------------------------------


def config_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Entries of config.json that differ: first the entries that are not versions, then the versions."""
    changes = list(mappings(_flat(a), _flat(b)))
    versions = tuple(change for change in changes if _is_version(change.what))
    return tuple(change for change in changes if change not in versions), versions


def _flat(value: Mapping[str, Any]) -> dict[str, str]:
    """Entries by path; what is nested deeper than 64 levels is one entry."""
    flat: dict[str, str] = {}
    pending: list[tuple[str, Any, int]] = [(key, inner, 1) for key, inner in sorted(value.items(), reverse=True)]
    while pending:
        path, inner, depth = pending.pop()
        if isinstance(inner, dict) and inner and depth < _DEEPEST:
            pending += [(f"{path}/{key}", below, depth + 1) for key, below in sorted(inner.items(), reverse=True)]
        else:
            flat[path] = json.dumps(inner, sort_keys=True)
    return flat


def file_changes(a: Path, b: Path, skipped: Collection[str], unread: list[str]) -> Iterator[Difference]:
    """Files of two directories that differ, without hidden files and those in ``skipped``.

    ``unread`` gets sentences about files at a URL that could not be compared.

    Raises
    ------
    OSError
        A directory or file cannot be read.
    """
    sides = [{path.name: path for path in folder.iterdir() if path.is_file()} for folder in (a, b)]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        one, other = sides[0].get(name), sides[1].get(name)
        if name in skipped or name.startswith("."):
            continue
        sizes = [size_text(path.stat().st_size) if path is not None else None for path in (one, other)]
        if one is None or other is None:
            yield Difference(name, *sizes)
            continue
        try:
            same = same_file(one, other)
        except NotFetchedError as error:
            unread.append(f"{other}: {error.strerror}")
            continue
        if not same:
            yield _other_content(name, sizes)


def _other_content(name: str, sizes: list[str | None]) -> Difference:
    return Difference(name, sizes[0], f"{sizes[1]}, other content" if sizes[0] == sizes[1] else sizes[1])


def weights_file(a: Document, b: Document, uncompared: int, unread: list[str]) -> Iterator[Difference]:
    """The change of two ``.bin`` files of which some weights were not compared, or a sentence for ``unread``."""
    if not uncompared:
        return
    try:
        same = same_file(a.weights_path, b.weights_path)
    except OSError:
        unread.append(
            f"{b.weights_path}: values of {plural(uncompared, 'weight')} with more than 64 elements: they are at "
            "a URL, and the server gives no hash of the file"
        )
        return
    if not same:
        sizes: list[str | None] = [size_text(one.weights_path.stat().st_size) for one in (a, b)]
        change = _other_content(b.weights_path.name, sizes)
        apart = f"{change.b}; {plural(uncompared, 'weight')} not compared one by one"
        yield Difference(change.what, change.a, apart)


def surplus(a: Document, b: Document) -> Iterator[Difference]:
    """Bytes after the last constant in two ``.bin`` files, if their numbers differ.

    An unreadable IR gives no change; the comparison of its part reports the error.
    """
    try:
        if a.weights_path.stat().st_size == b.weights_path.stat().st_size:
            return
        extra = [_beyond(document) for document in (a, b)]
    except (OSError, IrtoolsError):
        return
    if extra[0] != extra[1]:
        texts = [
            f"{plural(number, 'byte')} more than the IR needs" if number else "what the IR needs" for number in extra
        ]
        yield Difference(b.weights_path.name, *texts)


def _beyond(document: Document) -> int:
    end = max((constant.end for constant in read_constants(iter_graphs(document.scan))), default=0)
    return max(document.weights_path.stat().st_size - end, 0)
