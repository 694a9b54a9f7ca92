"""Apply edits to an IR, all or none.

The edits are made one after the other to the scan of the file and written as byte splices, so unedited
parts keep their bytes. The result is scanned like a new file and checked. Entries of rt_info are not checked
here, because the module that sets them reads them back; setting them is as fast as without a transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from irtools.errors import EditError, about
from irtools.ir.markup import Splice, spliced
from irtools.ir.op import parse_op
from irtools.ir.rt_info import ANNOTATION_KEY, effective_entry, entry_path, remove_entry, set_entry
from irtools.ir.scan import Scan, same_graph, scan_outline
from irtools.model.document import Document
from irtools.surgery.edits import Edit, GraphEdit, RemoveOp, Rename, Restore, SetRtInfo, require_text
from irtools.surgery.patch import Expected, OutputTypes, Patch
from irtools.surgery.splices import compose, difference

if TYPE_CHECKING:
    from irtools.surgery.working import Working

__all__ = ["apply", "preview"]

# The producer in a locator, or in an early form.
_PRODUCER = re.compile(r'("(?:producer|[0-9]+)"\s*:\s*)("(?:[^"\\]|\\.)*")')


def apply(document: Document, edits: Iterable[Edit], *, notes: Sequence[str] = ()) -> Patch:
    """Work out the edited file and check it; write nothing.

    Parameters
    ----------
    edits : iterable of Edit
        Applied in order; an edit may refer to an op that an earlier one added.

    Raises
    ------
    EditError
        An edit cannot be made, or the result would have a fault that the file does not have.
    InvalidIRError
        The file is not a well-formed IR, or cannot be edited safely.
    """
    with about(document.path):
        steps = _Steps.of(document, edits)
        expected = steps.checked()
    return Patch(
        document.path,
        steps.old_annotation,
        steps.annotation,
        document.data,
        steps.document.data,
        steps.splices,
        tuple(notes),
        expected,
    )


def preview(document: Document, edits: Iterable[Edit]) -> Document:
    """Return the edited document without checking it; an edit that cannot be made raises an EditError."""
    with about(document.path):
        return _Steps.of(document, edits).document


def _annotation(scan: Scan) -> str | None:
    """Return the last annotation of a file; ``""`` for an entry without value."""
    entry = effective_entry(scan, ANNOTATION_KEY)
    return (entry.value or "") if entry is not None else None


class _Steps:
    """The document, with the changes so far."""

    def __init__(self, document: Document) -> None:
        self._original = self.document = document
        self.splices: tuple[Splice, ...] = ()
        self.old_annotation = self.annotation = _annotation(document.scan)
        self._layers_edited = False
        self._graph_edited = False
        self._graph = document  # before the rt_info entries that were set last
        self._last: Working | None = None
        self._next_id = 0
        self._touched: dict[int, str] = {}

    @classmethod
    def of(cls, document: Document, edits: Iterable[Edit]) -> _Steps:
        """Make all edits."""
        steps = cls(document)
        for on_graph, group in groupby(edits, lambda edit: isinstance(edit, GraphEdit)):
            if on_graph:
                steps._edit_graph([edit for edit in group if isinstance(edit, GraphEdit)])
                continue
            for edit in group:
                if isinstance(edit, SetRtInfo):
                    steps._set_rt_info(edit)
                elif isinstance(edit, Restore):
                    steps._restore(edit)
        return steps

    def _take(self, splices: Sequence[Splice], data: bytes | None = None) -> None:
        self.splices = compose(self.splices, splices)
        data = data if data is not None else spliced(self.document.data, splices)
        self.document = Document(self.document.path, data, part=self.document.part)
        if "scan" in self._original.__dict__:
            self.document.read_like(self._original)  # almost all layers keep their bytes

    def _set_rt_info(self, edit: SetRtInfo) -> None:
        old = self.document
        scan = old.scan if "scan" in old.__dict__ else scan_outline(old.data)
        path = entry_path(scan, edit.key)
        require_text(*path, edit.value or "")
        new = remove_entry(scan, path) if edit.value is None else set_entry(scan, path, edit.value, force=edit.force)
        self._take(difference(old.data, new), new)
        if path == (ANNOTATION_KEY,):
            self.annotation = edit.value
        elif path[0] == ANNOTATION_KEY:
            self.annotation = _annotation(self.document.scan)

    def _restore(self, edit: Restore) -> None:
        from irtools.surgery.restore import restored

        before = self.document.scan
        self._take(restored(before, edit))
        after = self.document.scan
        self.annotation = _annotation(after)
        if not same_graph(before, after):
            self._layers_edited = self._graph_edited = True
            self._graph, self._last = self.document, None
            # OpenVINO must look for these ops under their restored names.
            places = {place.anchor for place in edit.places}
            self._touched |= {key: name for key, name in zip(after.ids, after.names, strict=True) if key in places}

    def _edit_graph(self, edits: Sequence[GraphEdit]) -> None:
        from irtools.surgery.working import Working

        working = self._last = Working(self.document.scan, self._next_id)
        for edit in edits:
            working.make(edit)
        self._next_id = working.next
        annotation = self.annotation
        if annotation and any(isinstance(edit, Rename | RemoveOp) for edit in edits):
            annotation = _followed(annotation, working)
        self._take(working.splices())
        self._layers_edited = True
        self._graph_edited |= any(not isinstance(edit, Rename) for edit in edits)
        self._graph = self.document
        for key in self._touched.keys() & set(self.document.scan.ids):
            working.touched.setdefault(key, working.name(key))
        self._touched = working.touched
        if annotation is not None and annotation != self.annotation:
            self._set_rt_info(SetRtInfo(ANNOTATION_KEY, annotation))

    def checked(self) -> Expected | None:
        """Check the result; return what OpenVINO should read from it if its layers were edited."""
        if not self._layers_edited:
            return None
        from irtools.surgery.invariants import require_sound

        if self._last is not None:
            self._last.require_unread()
        require_sound(self._original.scan, self._graph.scan)
        removed = frozenset(self._original.scan.ids) - frozenset(self._graph.scan.ids)
        return _expected(self._graph, self._touched, removed, graph=self._graph_edited)


def _expected(document: Document, touched: Mapping[int, str], removed: frozenset[int], *, graph: bool) -> Expected:
    from irtools.surgery.invariants import output_names

    scan = document.scan
    ops: dict[int, tuple[str, OutputTypes]] = {}
    for key, span in zip(scan.ids, scan.spans, strict=True):
        if key in touched:
            op = parse_op(scan.data, span)
            ops[key] = (op.name, tuple((port.element_type, port.shape) for port in op.outputs))
    return Expected(scan.types.count("Parameter"), tuple(output_names(scan)), ops, removed, graph=graph)


def _followed(text: str, working: Working) -> str:
    """Return an annotation with the new names of the ops; a malformed one is returned unchanged.

    Raises
    ------
    EditError
        The annotation names an op that is removed.
    """
    from irtools.model.annotation import parse_annotation

    named = parse_annotation(text).locators
    names = {}
    for layer, locator in named.items():
        now = working.named_now(locator.producer)
        if now is None:
            raise EditError(
                f"the annotation names {locator.producer!r} as the hidden state of layer {layer}, so the op cannot be "
                "removed; strip the annotation first"
            )
        names[locator.producer] = now

    def respell(match: re.Match[str]) -> str:
        name = json.loads(match[2])
        return match[1] + (match[2] if names.get(name, name) == name else json.dumps(names[name]))

    new = _PRODUCER.sub(respell, text)
    wanted = [(names[locator.producer], locator.output_index) for locator in named.values()]
    if [(locator.producer, locator.output_index) for locator in parse_annotation(new).locators.values()] != wanted:
        raise EditError("the new names of the ops cannot be entered into the annotation; strip it first")
    return new
