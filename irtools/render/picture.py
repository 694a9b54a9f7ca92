"""Model of a picture before layout: boxes, frames, arrows, notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from irtools.text import plural, short_repr

__all__ = ["KINDS", "TIMES", "Arrow", "Box", "Frame", "Kind", "Picture", "boxes_of"]

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Kind:
    """Appearance of one kind of box.

    Attributes
    ----------
    label : str
        Text in the legend.
    fill, text : str
        Colours, ``#rrggbb``.
    shape, style : str
        Graphviz attributes; ``filled`` is added to the style.
    """

    label: str
    fill: str
    text: str = "#000000"
    shape: str = "box"
    style: str = ""


# Boxes of one shape differ in lightness by at least 6 steps of L*, so that greyscale prints and
# colour-blind readers can distinguish them. The hues follow Okabe and Ito.
KINDS = {
    "input": Kind("input or output of the model", "#ffffff", shape="box", style="rounded"),
    "norm": Kind("norm", "#ededed"),
    "embedding": Kind("embedding", "#f3d676"),
    "attention": Kind("attention", "#eba14c"),
    "mlp": Kind("dense MLP", "#a3cbe8"),
    "mixer": Kind("linear attention, convolution, state space", "#d58a50"),
    "experts": Kind("experts and their router", "#4a8fbc"),
    "head": Kind("head (logits)", "#2f7a5f", text="#ffffff"),
    "fusion": Kind("fusion of embedding and hidden state", "#6b4270", text="#ffffff"),
    "state": Kind("state, kept between calls", "#dbe9f6", shape="cylinder"),
    "shared": Kind("shared value, drawn once per use", "#ffffff", shape="note", style="dotted"),
    "sum": Kind("residual sum", "#ffffff", shape="circle"),
    "layers": Kind("equal layers, collapsed", "#e3e3e3", shape="box3d"),
    "part": Kind("another part of the export", "#f7f7f7", shape="folder"),
    "tap": Kind("tap: hidden state of these layers", "#222222", text="#ffffff", shape="cds"),
    "op": Kind("other op", "#ffffff"),
    "focus": Kind("selected op", "#ffffff", style="bold"),
    "removed": Kind("only in a", "#ffd9d6", style="dashed"),
    "added": Kind("only in b", "#d3f0d6", style="bold"),
    "changed": Kind("changed op", "#ffe9a8", style="bold"),
    "omitted": Kind("left out", "#ffffff", shape="box", style="dashed"),
}


@dataclass(frozen=True, slots=True)
class Box:
    """One node.

    Attributes
    ----------
    key : str
        Unique in the picture and stable between runs.
    kind : str
        Key of ``KINDS``.
    lines : tuple of str
        Lines below the title.
    hint : str
        Tooltip.
    op : str
        Friendly name, if the box is one op.
    column : str
        Boxes of one column are drawn below each other where possible.
    """

    key: str
    kind: str
    title: str
    lines: tuple[str, ...] = ()
    hint: str = ""
    op: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A labelled frame around boxes and other frames.

    Attributes
    ----------
    lines : tuple of str
        Lines below the title.
    beside : bool
        Place the title beside the first box, so that arrows go around it, instead of above all boxes.
    """

    key: str
    title: str
    items: tuple[Box | Frame, ...]
    lines: tuple[str, ...] = ()
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge between two boxes.

    Attributes
    ----------
    tail, head : str
        Box keys.
    label : str
        Precision and shape of the value.
    style : str
        ``data``, ``skip`` (residual), ``state``, ``tap``, ``shared``, ``wire`` (a connection that
        the runtime makes), ``feed`` (such a connection from below: its tail is placed below its head),
        ``same`` (the same weights), ``gap`` (through ops that are left out), ``only_a`` and ``only_b``
        (an edge of one of two compared graphs) or ``below`` (invisible: places the head below the tail).
    """

    tail: str
    head: str
    label: str = ""
    style: str = "data"


@dataclass(frozen=True, slots=True)
class Picture:
    """A complete picture.

    Attributes
    ----------
    subtitle : tuple of str
        Lines below the title.
    omitted : tuple of str
        Descriptions of omitted content, shown on stderr and in the picture.
    key_lines : tuple of str
        Abbreviations, shown below the legend.
    foot, beside : str
        Key of the box below or beside which the picture would be empty, so that the legend is placed there; without
        one, the legend is below everything.
    legend_columns : int
        Columns of a legend below everything.
    """

    title: str
    subtitle: tuple[str, ...]
    items: tuple[Box | Frame, ...]
    arrows: tuple[Arrow, ...]
    omitted: tuple[str, ...] = ()
    key_lines: tuple[str, ...] = ()
    foot: str = ""
    beside: str = ""
    legend_columns: int = 4

    def __repr__(self) -> str:
        return short_repr(self, self.title, plural(len(self.boxes), "element"))

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All boxes in order, including those in frames."""
        return tuple(boxes_of(self.items))

    def without(self, *sentences: str) -> Picture:
        """Copy the picture and add descriptions of omitted content."""
        return replace(self, omitted=(*self.omitted, *sentences))


def boxes_of(items: tuple[Box | Frame, ...]) -> Iterator[Box]:
    """All boxes of some items, including those in frames."""
    for item in items:
        if isinstance(item, Box):
            yield item
        else:
            yield from boxes_of(item.items)
