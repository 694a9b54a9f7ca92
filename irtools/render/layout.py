"""Script that lays out and draws a DOT file; :mod:`irtools.render.engine` runs it in a child process.

The engine in the pygraphviz wheel is C code that a Python signal handler cannot interrupt, but a
process can be killed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Draw with the arguments of ``dot``: ``-Tpng -oOUTPUT [-Gname=value ...] INPUT``."""
    import pygraphviz

    parser = argparse.ArgumentParser()
    parser.add_argument("-T", dest="form")
    parser.add_argument("-o", dest="output", type=Path)
    parser.add_argument("-G", dest="settings", action="append", default=[])
    parser.add_argument("source", type=Path)
    options = parser.parse_args(arguments)
    drawing = pygraphviz.AGraph(string=options.source.read_text(encoding="utf-8"))
    drawing.graph_attr.update(setting.split("=", 1) for setting in options.settings)
    options.output.write_bytes(drawing.draw(format=options.form, prog="dot"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
