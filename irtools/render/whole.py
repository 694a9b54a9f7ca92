"""Draw the overview of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import networkx as nx

from irtools.anatomy.describe import SYMBOLS, symbolic
from irtools.decoder.stack import DecoderStack
from irtools.errors import RenderError
from irtools.graph.closure import closure
from irtools.graph.view import Source
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.own_head import own_head_text
from irtools.render.layers import LONGEST_INPUT, LayerDrawer, value_text
from irtools.render.part import DRAFT_HEAD, DrawnHead, DrawnPart, weight_line
from irtools.render.picture import TIMES, Arrow, Box, Frame, Picture
from irtools.render.sketch import Sketch
from irtools.text import cut, plural

__all__ = ["ExportDrawer"]

_LEGEND_RANKS = 3
"""Ranks of boxes that the legend needs beside it."""
_RANKS_BESIDE = 0.8
"""Ranks of boxes for each entry of a legend in one column beside them: more would leave a large place empty."""
_VISION = ("vision", "resampler", "merger", "audio", "projection", "embeddings_pos")


class ExportDrawer:
    """Draws an export, or two parts of it.

    Parameters
    ----------
    stack : DecoderStack or None
        Decoder stack of the target; None if only a head is drawn.
    alone : Document, optional
        Draw this target without the other parts of the export.
    """

    def __init__(self, export: ModelDirectory, stack: DecoderStack | None, alone: Document | None = None) -> None:
        self.export = export
        self._stack = stack
        self._alone = alone
        self.sketch = Sketch()
        self.omitted: list[str] = []

    @cached_property
    def target(self) -> DrawnPart:
        """The target part."""
        return DrawnPart(self._alone or self.export.target, self._stack)

    @cached_property
    def mtp(self) -> DrawnPart | None:
        """The MTP head."""
        if self._alone is not None or self.export.mtp is None:
            return None
        return DrawnPart(self.export.mtp)

    @property
    def stack(self) -> DecoderStack:
        """The decoder stack of the target."""
        if self._stack is None:
            raise RenderError("no decoder stack to draw", path=self.export.directory)
        return self._stack

    def whole(self, title: str, subtitle: Sequence[str], *, opened: bool, wired: bool = False) -> Picture:
        """Draw inputs, embedding, layers, head, taps, other parts and MTP head.

        Parameters
        ----------
        opened : bool
            Open one layer of each kind.
        wired : bool
            Keep the layers of the target closed, and connect it with the MTP head as the runtime does.
        """
        embeds = self._inputs(vision=not wired)
        named = f"target: {self.target.document.path.name}"
        with self.sketch.frame("target", named, (self._part_line(self.target),), beside=True):
            self._target(embeds, opened=opened and not wired)
        if self.mtp is not None and self.mtp.head is not None:
            self._mtp(self.mtp, wired=wired, opened=opened)
        return self._picture(title, subtitle, opened=opened)

    def head(self, part: DrawnPart, title: str, subtitle: Sequence[str], *, opened: bool) -> Picture:
        """Draw a head or a draft: inputs, layers, output."""
        with self.sketch.frame("head", part.document.path.name, (self._part_line(part),), beside=True):
            self.omitted += draw_head(self.sketch, part, opened=opened)
        return self._picture(title, subtitle, opened=opened)

    def _picture(self, title: str, subtitle: Sequence[str], *, opened: bool) -> Picture:
        omitted = (*self.omitted, *(() if opened else ("the inside of the layers",)))
        arrows = self.sketch.arrows
        picture = Picture(title, tuple(subtitle), self.sketch.items, arrows, omitted, SYMBOLS)
        entries = len({box.kind for box in picture.boxes}) + len({arrow.style for arrow in arrows} - {"below"})
        return replace(picture, **self._legend_place(_depths(arrows), entries))

    def _legend_place(self, depths: Mapping[str, int], entries: int) -> Mapping[str, Any]:
        """Where the picture would be empty: below the end of a short part, or beside the only part."""
        frames = [item for item in self.sketch.items if isinstance(item, Frame)]
        longest = max(depths.values(), default=0)
        if len(frames) > 1:
            head = next((key for key in ("drafts", "mlogits", "mout") if key in self.sketch), "")
            shorter = min((key for key in ("logits", head) if key in depths), key=depths.__getitem__, default="")
            return {"foot": shorter if longest - depths.get(shorter, 0) >= _LEGEND_RANKS else ""}
        first = next((item.key for frame in frames for item in frame.items if isinstance(item, Box)), "")
        return {"beside": first} if longest <= _RANKS_BESIDE * entries else {"legend_columns": 2}

    def _part_line(self, part: DrawnPart) -> str:
        layers = len(part.blocks.layers) if part.blocks else 0
        hidden = f", hidden size {part.stack.hidden_size}" if part.stack else ""
        weights = [weight for weight in part.weights if weight.kind != DRAFT_HEAD]
        return f"{plural(layers, 'layer')}{hidden}, {weight_line(weights)}"

    # -- inputs --------------------------------------------------------------------

    def _inputs(self, *, vision: bool) -> str:
        """Draw the boxes above the target; return the key of the box that computes its embeddings."""
        embedding = self.export.find_part("text_embeddings") if self._alone is None else None
        if embedding is None or self.target.view.op_type(self.stack.embedding) != "Parameter":
            return ""
        part = DrawnPart(embedding)
        lines = [
            f"{name}: {weight_line(DrawnPart(document).weights).removeprefix('weights ')}"
            for name, document in self.export.parts.items()
            if vision and any(word in name for word in _VISION)
        ]
        if lines:  # the first box: the engine then places the target, which reads it, to the left of an MTP head
            self.sketch.box("vision", "part", "Vision parts", lines)
        self.sketch.box("input_ids", "input", "input_ids", ("i64 [B, S]",))
        self.sketch.box("embeddings", "embedding", "Text embeddings", (embedding.path.name, weight_line(part.weights)))
        self.sketch.arrow("input_ids", "embeddings")
        return "embeddings"

    # -- the target ----------------------------------------------------------------------

    def _target(self, embeds: str, *, opened: bool) -> None:
        part, stack, view = self.target, self.stack, self.target.view
        current = self._start(embeds)
        if part.blocks is None:
            return
        drawer = LayerDrawer(self.sketch, part, part.blocks, "t", opened=opened)
        end = drawer.draw(current)
        self.omitted += drawer.omitted
        last = len(stack.layers) - 1
        self.sketch.box("taplast", "tap", f"tap {last}, after the norm")
        self.sketch.arrow(end, "taplast", style="tap")
        shape = self._weight_shape(stack.head)
        self.sketch.box("head", "head", "Head", (shape, part.weight_line([stack.head])), op=view.op_name(stack.head))
        self.sketch.arrow(end, "head", value_text(part, stack.head_input))
        below = "head"
        for op in stack.logits_tail:
            key = self.sketch.box(f"tail{op}", "op", view.op_type(op), op=view.op_name(op))
            self.sketch.arrow(below, key)
            below = key
        source = view.inputs(stack.logits)[0]
        port = view.port(source)
        text = f"{port.element_type} {symbolic(port.shape, 'logits')}" if port else ""
        self.sketch.box("logits", "input", "logits", (text,))
        self.sketch.arrow(below, "logits")
        if part.graft is not None:
            facts = (f"the first {part.graft.rows:,} rows of the head", "" if part.graft.first else "not in use")
            self.sketch.box("graft", "head", "Draft head", facts, op=view.op_name(part.graft.matmul))
            self.sketch.arrow("head", "graft", style="below")
            self.sketch.arrow("head", "graft", "same weights", "same")

    def _start(self, embeds: str) -> str:
        """Draw the embedding and its inputs; return the key of the box that enters layer 0."""
        part, stack, view = self.target, self.stack, self.target.view
        if view.op_type(stack.embedding) == "Parameter":
            current = _input_box(self.sketch, part, stack.embedding, "tin")
            if embeds:
                self.sketch.arrow(embeds, current, style="wire")
                self.sketch.arrow("vision", current, "image features", "wire")
        else:
            above = closure([stack.embedding], view.pred.__getitem__)
            ids = [_input_box(self.sketch, part, key, "tin") for key in view.parameters if key in above]
            current = self.sketch.box(
                "embedding",
                "embedding",
                "Token embedding",
                (self._weight_shape(stack.embedding), part.weight_line([stack.embedding])),
                op=view.op_name(stack.embedding),
            )
            for key in ids:
                self.sketch.arrow(key, current)
        return current

    def _weight_shape(self, op: int) -> str:
        """Shape of the largest weight that an op reads."""
        weights = sorted(self.target.weights_of([op]), key=lambda weight: weight.elements)
        if not weights:
            return ""
        partner = "embedding" if op == self.stack.head else "head"
        tied = f", shared with the {partner}" if "+" in weights[-1].kind else ""
        return f" {TIMES} ".join(map(str, weights[-1].shape)) + tied

    # -- the MTP head ----------------------------------------------------------------------

    def _mtp(self, part: DrawnPart, *, wired: bool, opened: bool) -> None:
        """Draw the MTP head beside the target, connected as in the runtime."""
        with self.sketch.frame("mtp", f"MTP head: {part.document.path.name}", (self._part_line(part),), beside=True):
            self.omitted += draw_head(self.sketch, part, opened=opened)
        inputs = {name: f"min{key}" for key in part.view.parameters for name in part.view.op(key).outputs[0].names}
        self.sketch.arrow("taplast", inputs.get("hidden_states", ""), "hidden state", "feed")
        self.sketch.arrow("embeddings", inputs.get("inputs_embeds", ""), "next token", "wire")
        if part.view.result_named("logits") is not None:
            return
        graft = self.target.graft
        source = "draft head" if graft is not None and graft.first else "target"
        self.sketch.box("headclone", "head", "Head", (f"cloned from the {source} by the runtime",))
        self.sketch.box("drafts", "input", "draft logits")
        self.sketch.arrow("mout", "headclone", style="wire")
        self.sketch.arrow("headclone", "drafts", style="wire")
        if wired:
            self.sketch.arrow("head" if source == "target" else "graft", "headclone", "same weights", "same")


def _depths(arrows: Sequence[Arrow]) -> Mapping[str, int]:
    """Rank of each box: the number of boxes above each other that lead to it."""
    leads = nx.DiGraph((arrow.tail, arrow.head) for arrow in arrows if arrow.style in ("data", "wire", "below"))
    groups = nx.condensation(leads)  # blocks of an unusual stack can read each other
    depths: dict[str, int] = {}
    for group in nx.topological_sort(groups):
        members = groups.nodes[group]["members"]
        above = (depths[tail] for key in members for tail in leads.pred[key] if tail not in members)
        depths |= dict.fromkeys(members, len(members) + max(above, default=0))
    return depths


def _input_box(sketch: Sketch, part: DrawnPart, key: int, prefix: str) -> str:
    view = part.view
    lines = (value_text(part, Source(key, view.output(key).id)),)
    title = cut(view.input_name(key), LONGEST_INPUT)
    return sketch.box(f"{prefix}{key}", "input", title, lines, op=view.op_name(key))


def _before_layers(part: DrawnPart, head: DrawnHead) -> set[int]:
    """Ops between the inputs of a part without fusion and its first layer, such as the embedding of patches."""
    stream, first = head.blocks.stream, head.blocks.layers[0].entry
    if head.fusion is not None or first in head.inputs:
        return set()
    return closure([first], stream.sources.__getitem__) - set(head.inputs)


def draw_head(sketch: Sketch, part: DrawnPart, *, opened: bool) -> list[str]:
    """Draw a head: inputs, fusion, layers, final norm, output; return descriptions of omitted content."""
    head, view = part.head, part.view
    if head is None:
        return []
    names: Mapping[int, tuple[str, ...]] = {key: view.op(key).outputs[0].names for key in view.parameters}
    for key in head.inputs:
        _input_box(sketch, part, key, "min")
    current = f"min{head.inputs[0]}" if head.inputs else ""
    before = _before_layers(part, head)
    if before:
        lines = (plural(len(before), "op"), part.weight_line(before))
        embeds = any(part.kinds.get(op) == "embedding" for op in before)
        kind, title = ("embedding", "Embedding") if embeds else ("op", "Before the layers")
        sketch.arrow(current, sketch.box("mbefore", kind, title, lines))
        current = "mbefore"
    if head.fusion is not None:
        projection = head.fusion.ops["projection"]
        order = [name for role in ("first", "second") for name in names.get(head.fusion.ops[role], ())[:1]]
        fused = ("norm of each, then concat:", ", ".join(order), part.weight_line([projection]))
        current = sketch.box("mfusion", "fusion", "Fusion", fused, op=view.op_name(projection))
        for role in ("first", "second"):
            sketch.arrow(f"min{head.fusion.ops[role]}", current)
    drawer = LayerDrawer(
        sketch,
        part,
        head.blocks,
        "m",
        opened=opened,
        inputs={view.input_name(key): f"min{key}" for key in head.inputs},
    )
    end = drawer.draw(current)
    for op in head.tail:
        kind, title = ("head", "Head") if op == head.tail[0] else ("op", view.op_type(op))
        sketch.box(f"mtail{op}", kind, title, (weight_line(part.weights_of([op])),), op=view.op_name(op))
        sketch.arrow(end, f"mtail{op}")
        end = f"mtail{op}"
    source = Source(head.tail[-1], view.output(head.tail[-1]).id) if head.tail else head.end
    text = f"{out.element_type} {symbolic(out.shape, head.name)}" if (out := view.port(source)) else ""
    sketch.box("mout", "input", cut(head.name, LONGEST_INPUT), (value_text(part, source) if "?" in text else text,))
    sketch.arrow(end, "mout")
    if view.result_named("logits") is not None and head.name != "logits":
        own = part.own_head
        facts = (own_head_text(own), part.weight_line([own.matmul])) if own is not None else ()
        sketch.box("mhead", "head", "Head of its own", facts, op=view.op_name(own.matmul) if own is not None else "")
        sketch.box("mlogits", "input", "logits")
        sketch.arrow(end, "mhead")
        sketch.arrow("mhead", "mlogits")
    return drawer.omitted
