"""Convert a picture to DOT text, the input of every engine and the output of ``-o x.dot``."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

import graphviz

from irtools.render.metrics import text_width
from irtools.render.picture import KINDS, Arrow, Box, Frame, Picture, boxes_of
from irtools.text import shortened

__all__ = ["FONT", "to_dot"]

FONT = "Liberation Sans,Arial,Helvetica,sans-serif"
_ARROWS = {
    "data": {"weight": "8"},
    "skip": {"weight": "1", "style": "bold", "color": "#666666"},
    "state": {"style": "dashed", "minlen": "0", "dir": "both", "arrowsize": "0.5", "color": "#3b6ea5"},
    "tap": {"color": "#222222", "arrowhead": "none", "minlen": "0", "style": "bold"},
    "shared": {"style": "dotted", "arrowsize": "0.6"},
    "wire": {"style": "dashed", "penwidth": "1.6", "color": "#8a1c5b", "fontcolor": "#8a1c5b"},
    "feed": {"style": "dashed", "penwidth": "1.6", "color": "#8a1c5b", "fontcolor": "#8a1c5b", "dir": "back"},
    "below": {"style": "invis", "weight": "20"},
    "only_a": {"style": "dashed", "color": "#b3261e", "fontcolor": "#b3261e", "penwidth": "1.6"},
    "only_b": {"style": "bold", "color": "#1b7837", "fontcolor": "#1b7837", "penwidth": "1.6"},
    "gap": {"style": "dashed", "color": "#666666"},
    "same": {"style": "dashed", "color": "#8a1c5b", "fontcolor": "#8a1c5b", "arrowhead": "none"},
}
_LINES = {
    "data": "value",
    "skip": "residual connection",
    "state": "state, read and written",
    "tap": "hidden state",
    "shared": "shared value",
    "wire": "connection that the runtime makes",
    "same": "same weights",
    "only_a": "only in a",
    "only_b": "only in b",
    "gap": "through ops that are left out",
}
"""Meaning of the line styles, in the order of the legend."""
_CORNER_COLUMNS, _CORNER_ROWS = 2, 3
_LEGEND_SIZE, _SWATCH, _SPACE = 9, 22, 4
"""Size of the text of the legend, width of a swatch, space between cells; in points."""
_CELL_STYLES = ("rounded", "dashed", "dotted")
_TITLE_WIDTH = 76
"""Characters in a line below the title: longer ones would make a narrow picture wide."""
_BETWEEN = " \N{MIDDLE DOT} "
_NAME, _HINT = 160, 1000
"""Longest words of a line and of a tooltip; Graphviz, viewers and PDF have limits of their own."""


def _text(value: str) -> str:
    """Escape text for an HTML-like label; cut long names."""
    return escape(_harmless(shortened(value, _NAME)))


def _harmless(value: str) -> str:
    """Replace characters that XML does not allow, or that would turn the text around."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)


def _label(box: Box) -> str:
    if not box.title and not box.lines:
        return ""
    lines = [f"<b>{_text(box.title)}</b>"] if box.title else []
    lines += [f'<font point-size="9">{_text(line)}</font>' for line in box.lines if line]
    return f"<{'<br/>'.join(lines)}>"


def _node(graph: graphviz.Digraph, box: Box) -> None:
    kind = KINDS[box.kind]
    attributes = {"fillcolor": kind.fill, "fontcolor": kind.text, "shape": kind.shape}
    if kind.style:
        attributes["style"] = f"filled,{kind.style}"
    if kind.shape == "circle":
        attributes |= {"width": "0.28", "fixedsize": "true", "margin": "0"}
    if kind.shape == "cds":
        attributes |= {"margin": "0.16,0.04"}
    if box.column:
        attributes["group"] = box.column
    if box.hint:
        attributes["tooltip"] = graphviz.escape(_harmless(" ".join(shortened(box.hint, _HINT).splitlines())))
    graph.node(box.key, label=_label(box), **attributes)


def _frame_label(frame: Frame) -> str:
    lines = [f"<b>{_text(frame.title)}</b>"]
    lines += [f'<font point-size="9">{_text(line)}</font>' for line in frame.lines]
    return "<" + "".join(f'{line}<br align="left"/>' for line in lines) + ">"


def _frame(graph: graphviz.Digraph, frame: Frame) -> None:
    """Draw a frame; its title is a node, because edges go around nodes but across the label of a cluster."""
    title = f"{frame.key}title"
    with graph.subgraph(name=f"cluster_{frame.key}") as inner:
        inner.attr(style="rounded", color="#777777", margin="10", peripheries="1", label="")
        inner.node(title, label=_frame_label(frame), shape="plain", style="", tooltip=" ", **{"class": "title"})
        _items(inner, frame.items)


def _titles(graph: graphviz.Digraph, items: Sequence[Box | Frame], arrows: Sequence[Arrow]) -> None:
    """Place the titles of frames, with edges of the whole graph: those of a frame would pull their ends into it."""
    frames = [item for item in items if isinstance(item, Frame)]
    frame_of = {box.key: frame for frame in frames for box in boxes_of(frame.items)}
    for frame in frames:
        title = f"{frame.key}title"
        inside = {box.key: None for box in boxes_of(frame.items)}
        enter = [arrow for arrow in arrows if arrow.head in inside and arrow.tail not in inside]
        first = next((item.key for item in frame.items if isinstance(item, Box)), "")
        if frame.beside and first and enter:
            with graph.subgraph() as row:
                row.attr(rank="same")
                row.edge(title, first, style="invis")  # puts the title to the left of the box; weight 0 would not
        else:
            above = dict.fromkeys(arrow.tail for arrow in enter if arrow.style in ("data", "wire", "below"))
            above |= dict.fromkeys(_ends_of({frame_of[key].key for key in above if key in frame_of}, frame_of, arrows))
            below = inside.keys() - {arrow.head for arrow in arrows if arrow.tail in inside}
            _title_between(graph, frame, above, [key for key in inside if key in below])
        _titles(graph, frame.items, arrows)


def _ends_of(frames: Collection[str], frame_of: Mapping[str, Frame], arrows: Sequence[Arrow]) -> Iterator[str]:
    """Last boxes of frames: a frame below them has the whole width, one beside their last row has only the rest."""
    inner = {arrow.tail for arrow in arrows if frame_of.get(arrow.tail) is frame_of.get(arrow.head)}
    return (key for key, frame in frame_of.items() if frame.key in frames and key not in inner)


def _title_between(graph: graphviz.Digraph, frame: Frame, above: Iterable[str], below: Iterable[str]) -> None:
    """Keep the title of a frame below what leads into the frame, and above its first boxes and frame."""
    title = f"{frame.key}title"
    for key in above:
        graph.edge(key, title, style="invis", weight="0")
    for number, key in enumerate(below):
        graph.edge(title, key, style="invis", weight="0" if number else "2")
    for inner in [item for item in frame.items if isinstance(item, Frame)][:1]:  # the others are below it
        graph.edge(title, f"{inner.key}title", style="invis", weight="0")


def _items(graph: graphviz.Digraph, items: tuple[Box | Frame, ...]) -> None:
    for item in items:
        if isinstance(item, Box):
            _node(graph, item)
        else:
            _frame(graph, item)


def _edge(graph: graphviz.Digraph, arrow: Arrow) -> None:
    attributes = dict(_ARROWS[arrow.style])
    if arrow.label:
        attributes["label"] = f"<&nbsp;{_text(arrow.label)}>"
    upper, lower = (arrow.head, arrow.tail) if arrow.style == "feed" else (arrow.tail, arrow.head)
    graph.edge(upper, lower, **attributes)


def _title(picture: Picture) -> str:
    rows = [f'<tr><td align="left"><b><font point-size="15">{_text(picture.title)}</font></b></td></tr>']
    for line in picture.subtitle:
        rows += [f'<tr><td align="left">{_text(part)}</td></tr>' for part in _wrapped(line)]
    for line in picture.omitted:
        rows += [f'<tr><td align="left"><b>{_text(part)}</b></td></tr>' for part in _wrapped(f"Left out: {line}")]
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="2">{"".join(rows)}</table>>'


def _wrapped(line: str) -> list[str]:
    """Lines of a subtitle; one with facts is broken between them."""
    facts = line.split(_BETWEEN)
    kept = _BETWEEN.join(fact.replace(" ", "\N{NO-BREAK SPACE}") for fact in facts) if len(facts) > 1 else line
    return [
        part.replace("\N{NO-BREAK SPACE}", " ").removesuffix(_BETWEEN.rstrip()) for part in wrap(kept, _TITLE_WIDTH)
    ]


def _legend(picture: Picture) -> tuple[list[str], int]:
    """Cells of the legend, a swatch and its meaning each, and the width of the meanings in points."""
    used = {box.kind for box in picture.boxes} - {"focus"}
    kinds = [kind for name, kind in KINDS.items() if name in used]
    lines = list(_line_styles(picture))
    texts = (*(kind.label for kind in kinds), *(_LINES[style] for style in lines))
    width = max(map(_text_width, texts), default=0)
    cells = []
    for kind in kinds:
        swatch = _text({"circle": "+", "cds": "0"}.get(kind.shape, " "))
        style = f' style="{kind.style}"' if kind.style in _CELL_STYLES else ""
        cells.append(
            f'<td border="1"{style} bgcolor="{kind.fill}" width="{_SWATCH}">'
            f'<font color="{kind.text}">{swatch}</font></td>'
            f'<td align="left" width="{width}">{_text(kind.label)}</td>'
        )
    return cells + [_line(style, width) for style in lines], width


def _text_width(text: str) -> int:
    return math.ceil(text_width(text, _LEGEND_SIZE) or 0)


def _legend_table(cells: Sequence[str], lines: Sequence[str], columns: int, width: int) -> str:
    """A table of legend cells and lines; all pieces of one legend have the same width."""
    whole = columns * (_SWATCH + width) + (2 * columns - 1) * _SPACE
    cells = [*cells, *[f'<td width="{_SWATCH}"></td><td width="{width}"></td>'] * (-len(cells) % columns)]
    rows = ["".join(cells[at : at + columns]) for at in range(0, len(cells), columns)]
    rows += [f'<td align="left" colspan="{2 * columns}" width="{whole}">{_text(line)}</td>' for line in lines]
    if not rows:
        return ""
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    style = f'border="0" cellborder="0" cellspacing="{_SPACE}"'
    return f'<<font point-size="{_LEGEND_SIZE}"><table {style}>{table}</table></font>>'


def _legend_nodes(graph: graphviz.Digraph, picture: Picture) -> None:
    """Draw the legend below or beside a box, where the picture would be empty: a few rows for each rank of boxes.

    One node with the whole legend would push the boxes beside it apart.
    """
    columns = _CORNER_COLUMNS if picture.foot else 1
    cells, width = _legend(picture)
    lines = (", ".join(picture.key_lines),) if columns > 1 else picture.key_lines
    size = columns * _CORNER_ROWS
    pieces = [_legend_table(cells[start : start + size], (), columns, width) for start in range(0, len(cells), size)]
    pieces += [_legend_table((), lines, columns, width)] if lines else []
    keys = [f"legend{number}" for number in range(len(pieces))]
    for key, table in zip(keys, pieces, strict=True):
        graph.node(key, label=table, shape="plain", style="", tooltip=" ", group="legend")
    for above, below in pairwise(keys):
        graph.edge(above, below, style="invis", weight="20")
    if picture.foot:
        graph.edge(picture.foot, keys[0], style="invis", weight="0")
    else:
        with graph.subgraph() as row:
            row.attr(rank="same")
            row.edge(picture.beside, keys[0], style="invis")


def _line_styles(picture: Picture) -> Iterator[str]:
    """Styles of the drawn arrows, one for each meaning; a picture with plain arrows only explains none."""
    used = {"wire" if arrow.style == "feed" else arrow.style for arrow in picture.arrows}
    return (style for style in _LINES if style in used and used - {"data", "below"})


def _line(style: str, text: int) -> str:
    """Cells of the legend with a piece of line: the lower border of a small cell."""
    look = _ARROWS[style]
    width = "2" if look.get("style") == "bold" or "penwidth" in look else "1"
    dashes = f' style="{look["style"]}"' if look.get("style") in _CELL_STYLES else ""
    color = look.get("color", "#000000")
    piece = f'<td border="{width}" sides="B" color="{color}"{dashes} width="{_SWATCH}" height="6"></td>'
    below = '<tr><td height="5"></td></tr>'
    return (
        f'<td><table border="0" cellborder="0" cellspacing="0"><tr>{piece}</tr>{below}</table></td>'
        f'<td align="left" width="{text}">{_text(_LINES[style])}</td>'
    )


def to_dot(picture: Picture) -> str:
    """Convert a picture to DOT text; equal pictures give equal text."""
    graph = graphviz.Digraph("irtools", comment=None)
    graph.attr(
        label=_title(picture),
        labelloc="t",
        labeljust="l",
        fontname=FONT,
        fontsize="10",
        nodesep="0.25",
        ranksep="0.3",
        bgcolor="#ffffff",
        pad="0.2",
        tooltip=" ",
        newrank="true",
    )
    graph.attr(
        "node", fontname=FONT, fontsize="11", style="filled", shape="box", margin="0.12,0.05", height="0.3", width="0.3"
    )
    graph.attr("edge", fontname=FONT, fontsize="8.5", arrowsize="0.7", fontcolor="#333333")
    with graph.subgraph(name="cluster_all") as inner:
        apart = picture.foot or picture.beside
        words = (", ".join(picture.key_lines),) if picture.key_lines else ()
        cells, width = _legend(picture)
        legend = "" if apart else _legend_table(cells, words, picture.legend_columns, width)
        inner.attr(label=legend, labelloc="b", labeljust="l", peripheries="0", margin="4")
        _items(inner, picture.items)
        if apart:
            _legend_nodes(inner, picture)
    _titles(graph, picture.items, picture.arrows)
    for arrow in picture.arrows:
        _edge(graph, arrow)
    return str(graph.source)
