"""Collector of the edits that a ``with`` block makes to one part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from irtools.errors import EditError
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.edits import (
    AddOp,
    Edit,
    NewPort,
    OpOutput,
    OpRef,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetRtInfo,
    SetTensorNames,
)
from irtools.surgery.patch import Patch
from irtools.surgery.spelling import runtime_attributes
from irtools.surgery.transaction import apply, preview
from irtools.text import plural, short_repr

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.surgery.expose import Exposure
    from irtools.surgery.graft.target import Grafting

__all__ = ["Editor"]


class Editor:
    """Edits of one part, applied together when the ``with`` block ends; see :meth:`irtools.export.Export.edit`.

    An op is given by its friendly name or its layer id, an output by the pair of op and output index.

    Attributes
    ----------
    edits : tuple of Edit
        Edits of the block so far. None can be added after the block.
    patch : Patch or None
        Result of the edits, set when the block ends without an exception.
    """

    def __init__(self, document: Document, keep: Callable[[Patch], Patch], config: Mapping[str, Any]) -> None:
        self._document = document
        self._keep = keep
        self._config = config
        self._notes: list[str] = []
        self._ended = False
        self.edits: tuple[Edit, ...] = ()
        self.patch: Patch | None = None

    def __repr__(self) -> str:
        return short_repr(self, str(self._document.path), plural(len(self.edits), "edit"))

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
        """Add single edits, or sequences of edits such as ``patch.undo``.

        Raises
        ------
        EditError
            The block has ended, or an argument is not an edit.
        """
        self._require_open()
        for argument in edits:
            for edit in argument if isinstance(argument, Sequence) and not isinstance(argument, str) else (argument,):
                if not isinstance(edit, Edit):
                    raise EditError(
                        f"{edit!r} is not an edit; use the classes of irtools.edits, or patch.undo",
                        path=self._document.path,
                    )
                self.edits += (edit,)

    def _require_open(self) -> None:
        if self._ended:
            raise EditError("this edit block has ended; open another one for more edits", path=self._document.path)

    @property
    def document(self) -> Document:
        """The part with the edits so far, unchecked."""
        return preview(self._document, self.edits) if self.edits else self._document

    # -- single edits ------------------------------------------------------------------

    def add_op(
        self,
        type: str,
        name: str,
        inputs: Sequence[tuple[OpRef, int] | OpRef] = (),
        outputs: Sequence[tuple[str, Sequence[int]] | NewPort] = (),
        *,
        attributes: Mapping[str, object] | None = None,
        opset: str = "opset1",
        output_names: Sequence[str] = (),
        before: OpRef | None = None,
        like: OpRef | None = None,
    ) -> None:
        """Add an op, by default after all others.

        Parameters
        ----------
        type : str
            Type as the file spells it, such as ``Const``.
        inputs : sequence
            Values to read: ops, or pairs of op and output index.
        outputs : sequence
            Pairs of element type and shape.
        attributes : mapping, optional
            Attributes of ``<data>``. Values are converted by ``str``, a bool to lower case.
        output_names : sequence of str
            For a Result: names of the model output.
        before : str or int, optional
            Op of the file that the new op is written before. The order of Results is that of the model's outputs.
        like : str or int, optional
            Op whose runtime attributes are copied.
        """
        sources = tuple(OpOutput(*one) if isinstance(one, tuple) else OpOutput(one) for one in inputs)
        ports = tuple(one if isinstance(one, NewPort) else NewPort(one[0], tuple(one[1])) for one in outputs)
        values = {key: _text(value) for key, value in (attributes or {}).items()}
        attributes_of = self._runtime_attributes(like) if like is not None else b""
        self.make(AddOp(type, name, sources, ports, values, opset, tuple(output_names), before, attributes_of))

    def _runtime_attributes(self, op: OpRef) -> bytes:
        graph = self.document.graph
        keys = graph.named.get(op, ()) if isinstance(op, str) else tuple({op}.intersection(graph.scan.ids))
        if len(keys) != 1:
            raise EditError(f"{len(keys)} ops are named {op!r}; give the layer id of one", path=self._document.path)
        start, end = graph.span(keys[0])
        return runtime_attributes(graph.scan.data[start:end])

    def remove_op(self, op: OpRef) -> None:
        """Remove an op. Nothing may read it when the block ends."""
        self.make(RemoveOp(op))

    def rewire(self, op: OpRef, input: int, producer: OpRef, output_index: int = 0) -> None:
        """Connect an input of an op, by input index, to another output."""
        self.make(Rewire(op, input, OpOutput(producer, output_index)))

    def rename(self, op: OpRef, name: str) -> None:
        """Give an op another friendly name, in the annotation too."""
        self.make(Rename(op, name))

    def set_attribute(self, op: OpRef, key: str, value: object) -> None:
        """Set an attribute of the ``<data>`` of an op; None removes it."""
        self.make(SetAttribute(op, key, None if value is None else _text(value)))

    def set_tensor_names(self, op: OpRef, output_index: int, names: Sequence[str]) -> None:
        """Set the tensor names of an output."""
        self.make(SetTensorNames(OpOutput(op, output_index), tuple(names)))

    def set_rt_info(self, key: str | Sequence[str], value: str | float | bool | None, *, force: bool = False) -> None:
        """Set an entry of the model-level rt_info; None removes it, or the whole group of this name.

        Parameters
        ----------
        key : str or sequence of str
            Key or path: ``runtime_options/KV_CACHE_PRECISION``, or ``["runtime_options", "KV_CACHE_PRECISION"]``.
            In text, each ``/`` separates a group from its content. Missing groups are added.
        value : str, number, bool or None
            Numbers are written as Python writes them, a bool as ``true`` or ``false``.
        force : bool
            Replace a group of entries by the value, or a value on the path by a group, which is refused otherwise.

        Raises
        ------
        EditError
            The key or the value cannot be written.
        """
        self.make(SetRtInfo(_rt_info_key(key), _rt_info_text(value), force))

    # -- whole surgeries ---------------------------------------------------------------

    def locate(self) -> DecoderStack:
        """Locate the decoder stack of the part with the edits so far."""
        return self._located(self.document)

    def _located(self, document: Document) -> DecoderStack:
        from irtools.decoder import locate

        return locate(document, config=self._config)

    def annotate(self, *, force: bool = False) -> None:
        """Write the annotation, as :meth:`irtools.export.Export.annotate` does."""
        from irtools.model.draft import require_target
        from irtools.surgery.annotate import annotating

        document = self.document
        require_target(document)  # before the stack, which a draft may not have
        edits, notes = annotating(document, self._located(document), force=force)
        self._notes += notes
        self.make(*edits)

    def strip(self) -> None:
        """Remove the annotation."""
        self.make(SetRtInfo(ANNOTATION_KEY, None))

    def graft(self, vocabulary: int, *, force: bool = False) -> Grafting:
        """Add a draft head over the first tokens to a target; see :func:`irtools.surgery.graft.target.grafting`."""
        from irtools.surgery.graft.target import grafting

        return self._grafted(grafting(self.document, vocabulary, force=force))

    def ungraft(self) -> Grafting:
        """Remove the draft head of a target; see :func:`irtools.surgery.graft.target.ungrafting`."""
        from irtools.surgery.graft.target import ungrafting

        return self._grafted(ungrafting(self.document))

    def _grafted(self, grafting: Grafting) -> Grafting:
        self._notes += grafting.notes
        self.make(*grafting.edits)
        return grafting

    def expose(
        self,
        layers: Sequence[int] | int | str,
        *,
        names: str | Sequence[str] | None = None,
        concat: str | None = None,
        stack: DecoderStack | None = None,
    ) -> Exposure:
        """Add model outputs for hidden states; see :func:`irtools.surgery.expose.exposing`."""
        from irtools.surgery.expose import exposing

        document = self.document
        exposure = exposing(document, stack or self._located(document), layers, names=names, concat=concat)
        self._notes += exposure.notes
        self.make(*exposure.edits)
        return exposure

    def conceal(
        self,
        layers: Sequence[int] | int | str | None = None,
        *,
        names: str | Sequence[str] | None = None,
        concat: str | None = None,
    ) -> Exposure:
        """Remove exposed outputs, by default all; see :func:`irtools.surgery.expose.concealing`."""
        from irtools.surgery.expose import concealing

        document = self.document
        count = len(self._located(document).layers) if isinstance(layers, str) and "last" in layers.lower() else None
        exposure = concealing(document, layers, names=names, concat=concat, count=count)
        self.make(*exposure.edits)
        return exposure


def _rt_info_key(key: object) -> str | tuple[str, ...]:
    if isinstance(key, str):
        return key
    if isinstance(key, list | tuple) and key and all(isinstance(one, str) for one in key):
        return tuple(key)
    raise EditError(f"{key!r} is not the key of an rt_info entry; give text, or a list of text for a path")


def _rt_info_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Real):
        return _text(value)
    raise EditError(f"{value!r} is not a value of an rt_info entry; give text, a number or a bool")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
