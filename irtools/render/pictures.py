"""Build the picture for a request, and coarser pictures as fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from irtools.decoder import locate
from irtools.decoder.stack import DecoderStack
from irtools.errors import LocateRefusedError, OptionError, RenderError
from irtools.graph.find import find_op
from irtools.graph.view import GraphView
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.provenance import versions
from irtools.render.ops import OpsDrawer
from irtools.render.part import DrawnPart, shown_part
from irtools.render.picture import Box, Picture
from irtools.render.select import LAST_LAYER, around, between, full_order, layer_norms, layer_ops, users
from irtools.render.whole import ExportDrawer
from irtools.surgery.annotate import annotation_status
from irtools.text import plural

__all__ = ["MOST_NODES", "PictureRequest", "format_of", "pictures", "request_for"]

MOST_NODES = {"svg": 500, "png": 300, "pdf": 500, "dot": 0}
"""Maximum number of drawn ops by format, which keeps layout and painting fast. DOT needs no layout: no limit."""
_COARSER = 4


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """Content of a picture. The default is the whole export.

    Attributes
    ----------
    part : str
        Part name as on the command line.
    layer : int or None
        Draw one decoder layer op by op.
    around : str or None
        Friendly name or layer id of an op whose neighbourhood is drawn.
    radius : int
        Maximum distance from that op, in edges.
    between : tuple of str or None
        Draw the paths between two ops.
    pair : bool
        Draw the target and the MTP head, connected as in the runtime.
    full : bool
        Draw every op.
    most : int
        Maximum number of drawn ops; 0 for no limit.
    usual : int
        Number of drawn ops if the layout of ``most`` ops takes too long.
    """

    part: str = "target"
    layer: int | None = None
    around: str | None = None
    radius: int = 2
    between: tuple[str, str] | None = None
    pair: bool = False
    full: bool = False
    most: int = MOST_NODES["svg"]
    usual: int = MOST_NODES["svg"]

    @property
    def limited(self) -> bool:
        """True if the picture shows single ops, whose number ``most`` limits."""
        return self.full or (self.layer, self.around, self.between) != (None, None, None)

    @property
    def generous(self) -> bool:
        """True if more ops than usual are requested. The usual picture is then laid out at the same time."""
        return self.full and self.most > self.usual > 0


def format_of(output: Path, *others: str) -> str:
    """Format of a file by its suffix: one of ``MOST_NODES`` or of ``others``.

    Raises
    ------
    OptionError
        The suffix is another one.
    """
    form = output.suffix.lower().removeprefix(".")
    forms = (*MOST_NODES, *others)
    if form not in forms:
        raise OptionError(f"{output}: the suffix sets the format; use one of .{', .'.join(forms)}")
    return form


def request_for(
    form: str,
    *,
    part: str = "target",
    layer: int | None = None,
    around: str | None = None,
    radius: int | None = None,
    between: tuple[str, str] | None = None,
    pair: bool = False,
    full: bool = False,
    max_nodes: int | None = None,
) -> PictureRequest:
    """Request with the options of ``irtools render``, for a file in a format.

    Raises
    ------
    OptionError
        Two options select different pictures, or ``radius`` is given without ``around``.
    """
    views = {
        "--layer": layer is not None,
        "--around": around is not None,
        "--between": between is not None,
        "--pair": pair,
        "--full": full,
    }
    chosen = [name for name, value in views.items() if value]
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(chosen)} select different pictures: give one of them")
    if radius is not None and around is None:
        raise OptionError("--radius requires --around")
    usual = MOST_NODES.get(form, 0)
    return PictureRequest(
        part, layer, around, 2 if radius is None else radius, between, pair, full, max_nodes or usual, usual
    )


def pictures(export: ModelDirectory, request: PictureRequest, document: Document | None = None) -> Iterator[Picture]:
    """Yield the requested picture, then coarser ones; the layout of the last one is always fast.

    Parameters
    ----------
    document : Document, optional
        Draw this IR alone and ignore ``request.part``.

    Raises
    ------
    RenderError
        The requested content does not exist.
    UsageError
        An op, layer or part does not exist.
    """
    subject = _PictureSubject(export, request, document)
    if request.layer is not None:
        yield from _limited(subject, _layer)
    elif request.around is not None or request.between is not None:
        yield from _limited(subject, _selection)
    elif request.full:
        yield _full(subject, request.most)
        if request.generous:
            yield _full(subject, request.usual)
        yield from _whole(subject)
    else:
        yield from _whole(subject)
    yield _card(subject)


class _PictureSubject:
    """The part that a request draws."""

    def __init__(self, export: ModelDirectory, request: PictureRequest, document: Document | None) -> None:
        self.export = export
        self.request = request
        self.alone = document
        self.document: Document = document or shown_part(export, request.part)
        self.refusal = ""

    @property
    def view(self) -> GraphView:
        return self.document.graph

    @cached_property
    def stack(self) -> DecoderStack | None:
        """The decoder stack of the part; if it has none, ``refusal`` holds the reason."""
        if "logits" not in self._outputs and not self.is_target:
            return None
        try:
            return locate(self.document, config=self.export.config)
        except LocateRefusedError as error:
            self.refusal = str(error.args[0])
            return None

    @property
    def _outputs(self) -> set[str]:
        """Tensor names of the outputs."""
        return {name for result in self.view.results for name in self.view.result_names(result)}

    @cached_property
    def drawn(self) -> DrawnPart:
        """The part with its blocks and weights."""
        return DrawnPart(self.document, self.stack, any_layers=True)

    @property
    def is_target(self) -> bool:
        return any(self.document.path == target.path for target in self.export.target_candidates)

    def title(self, content: str) -> str:
        """Name of the export, and the content of the picture."""
        name = self.export.directory.resolve().name
        return f"{name}: {content}" if content else name

    @cached_property
    def subtitle(self) -> tuple[str, ...]:
        """File, model type, versions, annotation."""
        kind = str(self.export.config.get("model_type", ""))
        made = ", ".join(f"{name} {version}" for name, version in list(versions(self.document).items())[:2])
        facts = [self.document.path.name, kind, made]
        if self.stack is not None:
            facts.append(annotation_status(self.document, self.stack)[1])
        return (" \N{MIDDLE DOT} ".join(fact for fact in facts if fact),)

    @property
    def lines(self) -> tuple[str, ...]:
        """The subtitle, and why a target has no decoder stack."""
        refused = self.refusal and self.is_target
        return (*self.subtitle, f"no decoder stack: {self.refusal}") if refused else self.subtitle


def _limited(subject: _PictureSubject, draw: Callable[[_PictureSubject, int], Picture]) -> Iterator[Picture]:
    """Yield a picture of ops, then the same picture with a quarter of its boxes."""
    picture = draw(subject, subject.request.most)
    yield picture
    yield draw(subject, max(len(picture.boxes) // _COARSER, 1))


def _layer(subject: _PictureSubject, most: int) -> Picture:
    index = subject.request.layer or 0
    if index == LAST_LAYER and subject.drawn.blocks is not None:
        index = len(subject.drawn.blocks.layers) - 1
    if subject.drawn.blocks is None:
        raise RenderError(
            f"no layers to draw: {subject.refusal or 'the part has no decoder stack'}", path=subject.document.path
        )
    ops, folded = layer_ops(subject.drawn, index)
    lines = [*subject.subtitle, f"{plural(folded, 'op')} of shape arithmetic not drawn" if folded else ""]
    title, norms = subject.title(f"layer {index}"), layer_norms(subject.drawn, index)
    sums = [op for block in subject.drawn.blocks.layers[index].blocks if block.kind == "sum" for op in block.ops]
    foot = min(sums, key=subject.view.rank.__getitem__, default=None)
    return OpsDrawer(subject.drawn).draw(ops, title, lines, groups=norms, frames=True, most=most, foot=foot)


def _selection(subject: _PictureSubject, most: int) -> Picture:
    request, view = subject.request, subject.view
    if request.around is not None:
        focus = [find_op(view, request.around)]
        content = f"{plural(request.radius, 'step')} around {view.op_name(focus[0])}"
        ops = around(view, focus[0], request.radius)
    else:
        focus = [find_op(view, name) for name in request.between or ()]
        content = f"from {view.op_name(focus[0])} to {view.op_name(focus[1])}"
        ops = between(view, *focus)
    marked = {user for op in focus for user in users(view, op)}
    return OpsDrawer(subject.drawn).draw(ops, subject.title(content), subject.subtitle, focus=marked, most=most)


def _full(subject: _PictureSubject, most: int) -> Picture:
    ops, rest = full_order(subject.drawn, most)
    lines = subject.lines
    content = "every op" if subject.is_target else f"{subject.document.part}, every op"
    most = 0 if rest else most
    return OpsDrawer(subject.drawn).draw(ops, subject.title(content), lines, rest=rest, most=most, fold=True)


def _whole(subject: _PictureSubject) -> Iterator[Picture]:
    """Yield the overview, then the overview with all layers closed; a part without layers is drawn op by op."""
    request = subject.request
    if request.pair and (subject.export.mtp is None or not subject.is_target):
        raise RenderError("no MTP head (openvino_mtp_model.xml) to draw a pair with", path=subject.export.directory)
    if subject.stack is not None and subject.is_target:
        for opened in (True, False):
            drawer = ExportDrawer(subject.export, subject.stack, subject.alone)
            title = subject.title("target and MTP head" if request.pair else "")
            yield drawer.whole(title, subject.subtitle, opened=opened, wired=request.pair)
    elif subject.drawn.blocks is not None:
        draft = "DFlash draft" if "dflash_mode" in subject.document.rt_info else subject.document.part
        content = "MTP head" if subject.document.part == "mtp" else draft
        for opened in (True, False):
            drawer = ExportDrawer(subject.export, subject.stack)
            yield drawer.head(subject.drawn, subject.title(content), subject.lines, opened=opened)
    else:
        yield from _limited(subject, _full)


def _card(subject: _PictureSubject) -> Picture:
    """One box with the size of the part, whose layout is always fast."""
    count = len(subject.view)
    box = Box("card", "omitted", subject.document.path.name, (plural(count, "op"), *subject.subtitle))
    return Picture(subject.title(""), (), (box,), (), (f"all {plural(count, 'op')}",))
