"""Lay out DOT text in a child process that can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from irtools.errors import RenderError

__all__ = ["DPI", "FORMATS", "LARGEST_SIDE", "LayoutTimeoutError", "draw", "engine_command"]

FORMATS = ("svg", "png", "pdf")
"""What an engine draws."""
DPI = 144
"""Of a PNG: twice the points of the SVG, sharp on today's screens."""
LARGEST_SIDE = 5000
"""Pixels of a PNG; a larger drawing is scaled down (drawing and packing more takes seconds)."""

_FONTS = Path(__file__).parent / "fonts"
# What Liberation Sans covers; other letters need the fonts of the machine.
_COVERED = re.compile("[\x00-\u024f\u0370-\u052f\u2000-\u206f\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff]*")
_PROLOGUE = re.compile(r"<!DOCTYPE.*?>\s*|<!--.*?-->\s*", re.DOTALL)


class LayoutTimeoutError(RenderError):
    """The layout took longer than allowed and was killed."""


@cache
def engine_command() -> tuple[str, ...]:
    """The command that lays out: ``dot`` on PATH, else the engine inside pygraphviz.

    Raises
    ------
    RenderError
        There is neither.
    """
    dot = shutil.which("dot")
    if dot:
        return (dot,)
    if find_spec("pygraphviz") is None or not sys.executable:
        raise RenderError(
            "drawing needs Graphviz: put `dot` on PATH or install the extra `ov-irtools[render]`; "
            "-o FILE.dot works without"
        )
    return (sys.executable, "-P", str(Path(__file__).with_name("layout.py")))


def _arguments(command: tuple[str, ...], form: str) -> list[str]:
    side = round(LARGEST_SIDE / DPI, 2)
    settings = [f"dpi={DPI}", f"size={side},{side}"] if form == "png" else []
    if len(command) == 1:
        return [command[0], f"-T{form}", *(f"-G{setting}" for setting in settings)]
    return [*command, form, *settings]


@contextmanager
def _environment(text: str) -> Iterator[dict[str, str]]:
    """Show the engine our own font, and those of the machine only when the text needs them.

    With one font the result does not depend on the machine, and no cache of hundreds of
    fonts has to be built first.
    """
    with tempfile.TemporaryDirectory(prefix="irtools-") as folder:
        system = "" if _COVERED.fullmatch(text) else '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
        configuration = Path(folder, "fonts.conf")
        configuration.write_text(
            '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>'
            f"<dir>{escape(str(_FONTS))}</dir>{system}<cachedir>{escape(folder)}</cachedir></fontconfig>\n",
            encoding="utf-8",
        )
        yield {**os.environ, "FONTCONFIG_FILE": str(configuration)}


def draw(dot: str, form: str, *, seconds: float) -> bytes:
    """Lay out DOT text and draw it.

    Parameters
    ----------
    dot : str
    form : str
        One of ``FORMATS``.
    seconds : float
        After which the engine is killed.

    Returns
    -------
    bytes
        The file; an SVG without document type and comments, so that it can stand inside HTML.

    Raises
    ------
    LayoutTimeoutError
        It took too long.
    RenderError
        There is no engine, or it failed.
    """
    command = _arguments(engine_command(), form)
    with _environment(dot) as environment:
        try:
            done = subprocess.run(
                command,
                input=dot.encode(),
                capture_output=True,
                timeout=max(seconds, 0.01),
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LayoutTimeoutError(f"the layout took longer than {seconds:.1f} s") from None
        except OSError as error:
            raise RenderError(f"{command[0]}: cannot be run: {error.strerror}") from error
    if done.returncode or not done.stdout:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RenderError(f"Graphviz could not draw this ({reason[-1] if reason else done.returncode})")
    if form != "svg":
        return done.stdout
    return _PROLOGUE.sub("", done.stdout.decode("utf-8")).encode()
