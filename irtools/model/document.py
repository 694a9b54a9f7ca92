"""One IR file: its bytes, and the data parsed from them on demand."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.display import Drawable
from irtools.errors import about, unreadable
from irtools.ir.op import Op, data_attributes, parse_op
from irtools.ir.reading import read_file
from irtools.ir.rt_info import ANNOTATION_KEY, RtInfo, read_rt_info
from irtools.ir.scan import Scan, Span, same_layout, scan_ir
from irtools.remote import as_path
from irtools.timing import step

if TYPE_CHECKING:
    from irtools.graph.view import GraphView

__all__ = ["Document", "part_name"]


def part_name(path: Path) -> str:
    """Part name of a file: its stem without ``openvino_`` and ``_model``."""
    return path.stem.removeprefix("openvino_").removesuffix("_model") or path.stem


class Document(Drawable):
    """One part of an export: an ``.xml`` with its ``.bin`` beside it.

    The file is read on first use; the weights are never read. Every property of the content raises an
    ``ExportError`` if the file cannot be read, and an ``InvalidIRError`` if it is not a well-formed IR in UTF-8.

    Parameters
    ----------
    path : path-like
        The ``.xml`` file.
    data : bytes, optional
        Content of the file, if it was already read or changed.
    part : str, optional
        Name of the part; defaults to :func:`part_name` of the file.

    Examples
    --------
    >>> document = Document("fixtures/falcon/openvino_model.xml")
    >>> document.part, document.scan.net["version"]
    ('model', '11')
    """

    def __init__(self, path: str | Path, data: bytes | None = None, *, part: str | None = None) -> None:
        self.path = as_path(path)
        self.part = part or part_name(self.path)
        self._like: Document | None = None
        if data is not None:
            self.data = data

    def __repr__(self) -> str:
        return f"Document({str(self.path)!r})"

    @property
    def weights_path(self) -> Path:
        """Path of the ``.bin`` that belongs to the file."""
        return self.path.with_suffix(".bin")

    @cached_property
    def data(self) -> bytes:
        """Bytes of the file, not validated."""
        try:
            with step(f"Reading {self.path}"):
                return read_file(self.path, "xml")
        except OSError as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def scan(self) -> Scan:
        """Layers, edges and rt_info by file position."""
        data = self.data
        with about(self.path), step(f"Parsing {self.path}"):
            scan = scan_ir(data, like=self._like.scan if self._like is not None else None)
        scan.path = self.path
        return scan

    def read_like(self, other: Document) -> None:
        """Share with another document what has the same bytes: layers, edges and the graph; before the first use."""
        self._like = other if other is not self else None

    @cached_property
    def rt_info(self) -> RtInfo:
        """Model-level rt_info, with strings, and mappings for nested entries."""
        return read_rt_info(self.scan)

    @property
    def annotation(self) -> str | None:
        """Hidden-state annotation as written; None without one, ``""`` for one without a value."""
        value = self.rt_info.get(ANNOTATION_KEY)
        return value if value is None or isinstance(value, str) else ""

    @cached_property
    def graph(self) -> GraphView:
        """NetworkX view of the model.

        Raises
        ------
        InvalidIRError
            The wiring of the model or of a body in it has a fault, such as a cycle.
        """
        from irtools.graph.view import GraphView  # Imported late: rt_info needs no networkx.
        from irtools.ir.constants import iter_graphs
        from irtools.ir.integrity import prove

        scan = self.scan
        if self._like is not None and same_layout(scan, self._like.scan):
            return GraphView.of_same(self._like.graph, scan)
        with step(f"Building the graph of {self.path}"):
            graph = GraphView(scan)
            for body in islice(iter_graphs(scan), 1, None):
                prove(body)
        return graph

    def line(self, where: int | Span | Op) -> int:
        """Line number of a byte offset, a span or an op."""
        offset = where if isinstance(where, int) else where.span.start if isinstance(where, Op) else where.start
        return self.scan.line(offset)

    def op(self, index: int) -> Op:
        """Op at a position in ``scan``; for a layer id use ``graph.op``."""
        with about(self.path):
            return parse_op(self.data, self.scan.spans[index])

    def data_attributes(self, index: int) -> dict[str, str]:
        """Attributes of the ``<data>`` of the op at a position in ``scan``; faster than ``op``."""
        return data_attributes(self.data, self.scan.spans[index])
