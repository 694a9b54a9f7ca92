"""Collect edits of one part in a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from irtools.errors import EditError
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.edits import (
    AddOp,
    Edit,
    NewPort,
    OpRef,
    Output,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetRtInfo,
    SetTensorNames,
)
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply, preview

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.surgery.expose import Exposure

__all__ = ["Editor"]


class Editor:
    """Edits of one part, made together when the ``with`` block ends; see :meth:`irtools.export.Export.edit`.

    An op is named by its friendly name or its layer id, an output by a pair of that and its position.

    Attributes
    ----------
    edits : tuple of Edit
        What has been asked for so far. None can be added when the block has ended.
    patch : Patch or None
        What came of it, after the block.
    """

    def __init__(self, document: Document, keep: Callable[[Patch], Patch], config: Mapping[str, Any]) -> None:
        self._document = document
        self._keep = keep
        self._config = config
        self._notes: list[str] = []
        self._ended = False
        self.edits: tuple[Edit, ...] = ()
        self.patch: Patch | None = None

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if kind is None:
            self.patch = self._keep(apply(self._document, self.edits, notes=self._notes))

    def make(self, *edits: Edit | Sequence[Edit]) -> None:
        """Add edits, one by one or several in a sequence, such as ``patch.undo``.

        Raises
        ------
        EditError
            The block has ended, or something is no edit.
        """
        self._require_open()
        for given in edits:
            several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
            for edit in several:
                if not isinstance(edit, Edit):
                    raise EditError(
                        f"{edit!r} is no edit; give some of irtools.surgery.edits, or patch.undo",
                        path=self._document.path,
                    )
                self.edits += (edit,)

    def _require_open(self) -> None:
        if self._ended:
            raise EditError("the block of these edits has ended; make more in another one", path=self._document.path)

    @property
    def document(self) -> Document:
        """The part as it would be now; not checked yet."""
        return preview(self._document, self.edits) if self.edits else self._document

    # -- single edits ------------------------------------------------------------------

    def add_op(
        self,
        type: str,  # what the file calls it
        name: str,
        inputs: Sequence[tuple[OpRef, int] | OpRef] = (),
        outputs: Sequence[tuple[str, Sequence[int]] | NewPort] = (),
        *,
        attributes: Mapping[str, object] | None = None,
        opset: str = "opset1",
        output_names: Sequence[str] = (),
    ) -> None:
        """Add an op behind all others.

        Parameters
        ----------
        type, name : str
        inputs : sequence
            What it reads: ops, or pairs of op and output index.
        outputs : sequence
            Pairs of element type and shape.
        attributes : mapping, optional
            Of ``<data>``; what is no text is spelled as ``str`` does, a bool in lower case.
        opset : str
        output_names : sequence of str
            Of a Result: names of the model output.
        """
        sources = tuple(Output(*one) if isinstance(one, tuple) else Output(one) for one in inputs)
        ports = tuple(one if isinstance(one, NewPort) else NewPort(one[0], tuple(one[1])) for one in outputs)
        values = {key: _text(value) for key, value in (attributes or {}).items()}
        self.make(AddOp(type, name, sources, ports, values, opset, tuple(output_names)))

    def remove_op(self, op: OpRef) -> None:
        """Remove an op that nothing reads when the block ends."""
        self.make(RemoveOp(op))

    def rewire(self, op: OpRef, input: int, producer: OpRef, output_index: int = 0) -> None:
        """Let an input of an op, by its position, read another output."""
        self.make(Rewire(op, input, Output(producer, output_index)))

    def rename(self, op: OpRef, name: str) -> None:
        """Give an op another friendly name; the annotation follows."""
        self.make(Rename(op, name))

    def set_attribute(self, op: OpRef, key: str, value: object) -> None:
        """Set an attribute of the ``<data>`` of an op; None removes it."""
        self.make(SetAttribute(op, key, None if value is None else _text(value)))

    def set_tensor_names(self, op: OpRef, output_index: int, names: Sequence[str]) -> None:
        """Set the tensor names of an output."""
        self.make(SetTensorNames(Output(op, output_index), tuple(names)))

    def set_rt_info(self, key: str, value: str | None) -> None:
        """Set an entry of the model-level rt_info; None removes it."""
        self.make(SetRtInfo(key, value))

    # -- whole surgeries ---------------------------------------------------------------

    def locate(self) -> DecoderStack:
        """Locate the decoder stack of the part as it would be now."""
        return self._located(self.document)

    def _located(self, document: Document) -> DecoderStack:
        from irtools.decoder import locate

        return locate(document, config=self._config)

    def annotate(self, *, force: bool = False) -> None:
        """Write the annotation, as :meth:`irtools.export.Export.annotate` does."""
        from irtools.surgery.annotate import annotating

        document = self.document
        edits, notes = annotating(document, self._located(document), force=force)
        self._notes += notes
        self.make(*edits)

    def strip(self) -> None:
        """Take the annotation away."""
        self.make(SetRtInfo(ANNOTATION_KEY, None))

    def expose(
        self,
        layers: Sequence[int] | int | str,
        *,
        names: str | Sequence[str] | None = None,
        concat: str | None = None,
        stack: DecoderStack | None = None,
    ) -> Exposure:
        """Make hidden states outputs of the model; see :func:`irtools.surgery.expose.exposing`."""
        from irtools.surgery.expose import exposing

        document = self.document
        found = exposing(document, stack or self._located(document), layers, names=names, concat=concat)
        self._notes += found.notes
        self.make(*found.edits)
        return found

    def conceal(
        self,
        layers: Sequence[int] | int | str | None = None,
        *,
        names: str | Sequence[str] | None = None,
        concat: str | None = None,
    ) -> Exposure:
        """Take exposed outputs away, all or those named; see :func:`irtools.surgery.expose.concealing`."""
        from irtools.surgery.expose import concealing

        document = self.document
        count = len(self._located(document).layers) if isinstance(layers, str) and "last" in layers.lower() else None
        found = concealing(document, layers, names=names, concat=concat, count=count)
        self.make(*found.edits)
        return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
