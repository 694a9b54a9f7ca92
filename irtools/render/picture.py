"""What a picture consists of, before anything is laid out: boxes, frames, arrows, notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

__all__ = ["KINDS", "TIMES", "Arrow", "Box", "Frame", "Kind", "Picture", "walk"]

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of box looks.

    Attributes
    ----------
    label : str
        In the legend.
    fill, text : str
        Colours, ``#rrggbb``.
    shape : str
        Of Graphviz.
    style : str
        Of Graphviz, beside ``filled``.
    """

    label: str
    fill: str
    text: str = "#000000"
    shape: str = "box"
    style: str = ""


# Boxes of one shape differ in lightness by at least 6 steps of L*, so they stay apart in greyscale
# and for colour-blind readers; the hues (after Okabe and Ito) only help those who see them.
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
    "layers": Kind("equal layers, closed", "#e3e3e3", shape="box3d"),
    "part": Kind("another part of the export", "#f7f7f7", shape="folder"),
    "tap": Kind("tap: hidden state of these layers", "#222222", text="#ffffff", shape="cds"),
    "op": Kind("op that no pattern names", "#ffffff"),
    "focus": Kind("the op that was asked for", "#ffffff", style="bold"),
    "omitted": Kind("left out", "#ffffff", shape="box", style="dashed"),
}


@dataclass(frozen=True, slots=True)
class Box:
    """One node.

    Attributes
    ----------
    key : str
        Unique in the picture, stable from run to run.
    kind : str
        Key of ``KINDS``.
    title : str
        First line.
    lines : tuple of str
        The lines below it.
    hint : str
        Shown by a viewer when the pointer rests on it.
    op : str
        Friendly name of the op it stands for, if one.
    column : str
        Boxes of one column are drawn below each other where that is possible.
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
    key : str
    title : str
    items : tuple of Box or Frame
    lines : tuple of str
        The lines below the title.
    beside : bool
        Put the title beside the first box, where arrows go around it, and not above all.
    """

    key: str
    title: str
    items: tuple[Box | Frame, ...]
    lines: tuple[str, ...] = ()
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge.

    Attributes
    ----------
    tail, head : str
        Keys of boxes.
    label : str
        Precision and shape of the value.
    style : str
        ``data``, ``skip`` (residual), ``state``, ``tap``, ``shared``, ``wire`` (done by the
        runtime, not in the files), ``same`` (the same weights) or ``below`` (not drawn: only
        puts the head below the tail).
    """

    tail: str
    head: str
    label: str = ""
    style: str = "data"


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn.

    Attributes
    ----------
    title : str
    subtitle : tuple of str
        Lines below the title.
    items : tuple of Box or Frame
    arrows : tuple of Arrow
    omitted : tuple of str
        What was left out, a sentence each: told on stderr and in the picture.
    key_lines : tuple of str
        Abbreviations, shown below the legend.
    """

    title: str
    subtitle: tuple[str, ...]
    items: tuple[Box | Frame, ...]
    arrows: tuple[Arrow, ...]
    omitted: tuple[str, ...] = field(default=())
    key_lines: tuple[str, ...] = field(default=())

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All boxes, in order, those in frames included."""
        return tuple(walk(self.items))

    def without(self, *sentences: str) -> Picture:
        """The same picture saying that more was left out."""
        return replace(self, omitted=(*self.omitted, *sentences))


def walk(items: tuple[Box | Frame, ...]) -> Iterator[Box]:
    """Every box in a tree of frames."""
    for item in items:
        if isinstance(item, Box):
            yield item
        else:
            yield from walk(item.items)
