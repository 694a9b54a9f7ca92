"""Run by :mod:`irtools.render.engine` as a process of its own: DOT on stdin, a drawing on stdout.

The engine inside the pygraphviz wheel is C code that no Python signal handler interrupts;
a process can be killed.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Lay out and draw: ``layout.py FORMAT [NAME=VALUE ...]`` (graph attributes)."""
    import pygraphviz

    drawing = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
    for setting in arguments[1:]:
        name, _, value = setting.partition("=")
        drawing.graph_attr[name] = value
    sys.stdout.buffer.write(drawing.draw(format=arguments[0], prog="dot"))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
