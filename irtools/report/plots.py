"""Plots of a benchmark as SVG for a page: matplotlib draws them, and the page gives them its font and colours."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lxml import etree
from markupsafe import Markup

from irtools.errors import UsageError
from irtools.report.record_figures import figure_text
from irtools.text import cut

__all__ = ["Plot", "bench_plots", "require_plots"]

_INK = "#010203"
"""Colour of axes and text, which the page replaces by its own."""
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#3d8fc4", "#777777")
"""Okabe and Ito's colours, which colour-blind people can tell apart, made readable on a light and a dark ground."""
_SIZE = (6.4, 3.4)
_WIDEST = 2
"""Upper end of an interval that is shown, divided by the highest median: two repetitions can give any interval."""
_LONGEST = 40
"""Characters of a label."""
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_STYLE: dict[Any, Any] = {  # matplotlib types its keys as literals
    "svg.fonttype": "none",
    "svg.hashsalt": "irtools",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _INK,
    "grid.alpha": 0.12,
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot for a page.

    Attributes
    ----------
    svg : Markup
        Each point has a ``title`` with its figure, and the attribute ``data-value`` with the median.
    note : str
        What the plot shows, as a sentence.
    """

    title: str
    svg: Markup
    note: str


@dataclass
class _Series:
    """Points with the same strategy, files and draft, by number of drafted tokens or position."""

    label: str
    points: dict[int, Mapping[str, Any]] = field(default_factory=dict)


def require_plots() -> None:
    """Refuse if matplotlib is not installed.

    Raises
    ------
    UsageError
        With the extra to install.
    """
    if find_spec("matplotlib") is None:
        raise UsageError(
            "the plots need matplotlib, which is not installed; install the extra `plots` "
            "(in a checkout: pip install '.[plots]')"
        )


def bench_plots(record: Mapping[str, Any]) -> tuple[Plot, ...]:
    """Speed-up, speed, acceptance by position and peak memory of a benchmark; without those that were not measured.

    Raises
    ------
    UsageError
        matplotlib is not installed.
    """
    require_plots()
    rows = record["rows"]
    plots = (
        _over_drafts(record, rows, "speed_up", "Speed-up over plain decoding", "times as fast as plain"),
        _over_drafts(record, rows, "tokens_per_second", "Speed", "tokens per second"),
        _by_position(record, rows),
        _memory(record, rows),
    )
    return tuple(plot for plot in plots if plot is not None)


def _over_drafts(
    record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], key: str, title: str, unit: str
) -> Plot | None:
    plain = {row["name"]: row["figures"][key] for row in rows if not row["assistant_tokens"]}
    series = list(_series(record, rows, key))
    if not series:
        return None
    figure, axes = _axes("drafted tokens at a time", unit)
    for number, one in enumerate(series):
        _draw(axes, one, number)
    for label, drawn in plain.items() if key != "speed_up" else (("plain", {"median": 1.0, "low": 1.0, "high": 1.0}),):
        if drawn is not None:
            axes.axhline(drawn["median"], color=_INK, linewidth=1, linestyle="--", label=label)
            axes.axhspan(*_ends(drawn), color=_INK, alpha=0.08, linewidth=0)
    shown = [*(point for one in series for point in one.points.values()), *filter(None, plain.values())]
    shown += [{"median": 1.0, "high": 1.0}] if key == "speed_up" else []
    axes.set_ylim(0, _top(shown))
    axes.set_xticks(sorted({point for one in series for point in one.points}))
    axes.legend(fontsize=8, frameon=False, labelcolor=_INK)
    note = "Median over the repetitions; the bars are intervals with 95 % confidence."
    return Plot(title, _svg(figure, key, series, title), note)


def _by_position(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Only the largest number of drafted tokens of each series, because it has every position."""
    series = []
    for name, some in _grouped(record, rows).items():
        measured = [row for row in some if row["acceptance_by_position"]]
        if measured:
            row = max(measured, key=lambda row: row["assistant_tokens"])
            label = f"{name}, {row['assistant_tokens']} at a time"
            series.append(_Series(label, dict(enumerate(row["acceptance_by_position"], 1))))
    if not series:
        return None
    figure, axes = _axes("position in the draft", "accepted share")
    for number, one in enumerate(series):
        _draw(axes, one, number)
    axes.set_ylim(0, 1.02)
    axes.set_xticks(sorted({point for one in series for point in one.points}))
    axes.legend(fontsize=8, frameon=False, labelcolor=_INK)
    title = "Acceptance by position"
    note = (
        "Share of the tokens drafted at a position that the target accepts; the first drafted token is at position 1."
    )
    return Plot(title, _svg(figure, "position", series, title), note)


def _memory(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Plot | None:
    drawn = [(row["name"], row["figures"]["peak_memory"]) for row in rows if row["figures"]["peak_memory"]]
    if not drawn:
        return None
    figure, axes = _axes("peak memory, MiB", "", height=0.8 + 0.32 * len(drawn))
    series = []
    for number, (name, memory) in enumerate(drawn):
        axes.barh([number], [memory["median"] / 2**20], color=_SERIES[0], height=0.6, gid=f"point-{number}-0")
        series.append(_Series(name, {0: memory}))
    axes.set_yticks(range(len(drawn)), [cut(name, _LONGEST) for name, _ in drawn])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    note = "Largest resident set of the process of each row."
    return Plot("Memory", _svg(figure, "memory", series, "Memory"), note)


def _ends(figure: Mapping[str, Any]) -> tuple[float, float]:
    """Ends of an interval; the median where there is none, as with one repetition."""
    known = figure["high"] is not None
    return (figure["low"], figure["high"]) if known else (figure["median"], figure["median"])


def _top(figures: Sequence[Mapping[str, Any]]) -> float:
    """Upper end of an axis: the intervals, unless they are so wide that the medians could not be told apart."""
    highest = max(figure["median"] for figure in figures)
    return float(min(max(figure["high"] or figure["median"] for figure in figures), _WIDEST * highest) * 1.05)


# -- series ----------------------------------------------------------------------------


def _grouped(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows that draft, by what they differ in besides the number of drafted tokens."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["assistant_tokens"]:
            groups.setdefault(_label(record, row), []).append(row)
    return groups


def _label(record: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    other = Path(row["model"]).name if row["model"] != record["model"]["path"] and not row["copy"] else ""
    draft = Path(row["draft"]).name if row["draft"] not in (None, row["model"]) else ""
    return cut(", ".join(part for part in (row["strategy"], draft, other, row["copy"]) if part), _LONGEST)


def _series(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], key: str) -> Iterator[_Series]:
    for label, some in _grouped(record, rows).items():
        points = {row["assistant_tokens"]: row["figures"][key] for row in some if row["figures"][key]}
        if points:
            yield _Series(label, dict(sorted(points.items())))


# -- drawing ---------------------------------------------------------------------------


def _axes(across: str, up: str, *, height: float = _SIZE[1]) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_SIZE[0], height), layout="constrained")
        axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _draw(axes: Any, series: _Series, number: int) -> None:
    """Draw points with intervals, joined by a line; each point has an id."""
    colour, places = _SERIES[number % len(_SERIES)], list(series.points)
    shift = 0.04 * (number + 1) // 2 * (-1 if number % 2 else 1)  # so that equal points stay visible
    across = [place + shift for place in places]
    medians = [point["median"] for point in series.points.values()]
    ends = [_ends(point) for point in series.points.values()]
    lows = [max(median - low, 0) for median, (low, _) in zip(medians, ends, strict=True)]
    highs = [max(high - median, 0) for median, (_, high) in zip(medians, ends, strict=True)]
    axes.errorbar(across, medians, yerr=[lows, highs], color=colour, capsize=3, linewidth=1.5, label=series.label)
    for place, position, median in zip(places, across, medians, strict=True):
        axes.plot([position], [median], "o", color=colour, gid=f"point-{number}-{place}")


def _svg(figure: Any, name: str, series: Sequence[_Series], title: str) -> Markup:
    """The figure as an SVG element without styles, which the policy of the page would block."""
    import matplotlib as mpl

    written = io.BytesIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    root = etree.fromstring(written.getvalue(), etree.XMLParser(resolve_entities=False, no_network=True))
    for gone in (*root.iter(f"{_SVG}metadata"), *root.iter(f"{_SVG}style")):
        gone.getparent().remove(gone)
    for element in root.iter(etree.Element):
        _plain(element, name)
    for number, one in enumerate(series):
        for place, point in one.points.items():
            drawn = root.find(f".//*[@id='{name}-point-{number}-{place}']")
            if drawn is not None:
                drawn.set("class", "point")
                drawn.set("data-series", one.label)
                drawn.set("data-place", str(place))
                drawn.set("data-value", repr(point["median"]))
                text = etree.Element(f"{_SVG}title")
                text.text = f"{one.label}{f', {place}' if place else ''}: {figure_text(point)}"
                drawn.insert(0, text)
    for attribute in ("width", "height"):
        del root.attrib[attribute]
    root.attrib.update({"role": "img", "aria-label": title, "stroke-linejoin": "round", "class": "plot"})
    etree.cleanup_namespaces(root)
    return Markup(etree.tostring(root, encoding="unicode"))


def _plain(element: Any, name: str) -> None:
    """Turn the style of an element into attributes, and make its id unique on the page."""
    for declaration in (element.attrib.pop("style", None) or "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key and key != "font-family":
            element.set(key, value.replace("url(#", f"url(#{name}-"))
    for key, value in element.attrib.items():
        if value == _INK:
            element.set(key, "currentColor")
        elif key == "id":
            element.set(key, f"{name}-{value}")
        elif key == "clip-path" and f"(#{name}-" not in value:
            element.set(key, value.replace("(#", f"(#{name}-"))
        elif key == _HREF:
            del element.attrib[key]
            element.set("href", f"#{name}-{value.removeprefix('#')}")
