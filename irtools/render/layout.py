"""Run by :mod:`irtools.render.engine` as a process of its own: lays out a DOT file and draws it.

The engine inside the pygraphviz wheel is C code that no Python signal handler interrupts;
a process can be killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Draw: ``layout.py -Tpng -oOUTPUT [-Gname=value ...] INPUT``, as ``dot`` takes them."""
    import pygraphviz

    *settings, source = arguments
    drawing = pygraphviz.AGraph(string=Path(source).read_text(encoding="utf-8"))
    form = output = ""
    for setting in settings:
        if setting.startswith("-T"):
            form = setting[2:]
        elif setting.startswith("-o"):
            output = setting[2:]
        else:
            name, _, value = setting.removeprefix("-G").partition("=")
            drawing.graph_attr[name] = value
    Path(output).write_bytes(drawing.draw(format=form, prog="dot"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
