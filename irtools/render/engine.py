"""Lay out DOT text in a child process that can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from irtools.errors import RenderError
from irtools.render.metrics import fit_text

__all__ = ["DPI", "FORMATS", "LARGEST_SIDE", "LARGE_DPI", "Layout", "engine_command"]

FORMATS = ("svg", "png", "pdf")
"""What an engine draws."""
DPI = 144
"""Of a PNG: twice the points of the SVG, sharp on today's screens."""
LARGE_DPI = 96
"""Of a PNG with many boxes: drawing and packing pixels takes longer than the layout."""
LARGEST_SIDE = 5000
"""Pixels of a PNG; a larger drawing is scaled down (drawing and packing more takes seconds)."""

_FONTS = Path(__file__).parent / "fonts"
# What Liberation Sans covers; other letters need the fonts of the machine.
_COVERED = re.compile("[\x00-\u024f\u0370-\u052f\u2000-\u206f\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff]*")
_PROLOGUE = re.compile(r"<!DOCTYPE.*?>\s*|<!--.*?-->\s*", re.DOTALL)


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
            "drawing needs Graphviz: put `dot` on PATH, or install the extra `render` of ov-irtools "
            "(in a checkout: pip install '.[render]'); -o FILE.dot works without"
        )
    return (sys.executable, "-P", str(Path(__file__).with_name("layout.py")))


class Layout:
    """A layout under way in a process of its own.

    Parameters
    ----------
    dot : str
        What to lay out.
    form : str
        One of ``FORMATS``.
    dpi : int
        Of a PNG.

    Raises
    ------
    RenderError
        There is no engine, or it cannot be run.
    """

    def __init__(self, dot: str, form: str, *, dpi: int = DPI) -> None:
        self._form = form
        self._folder = tempfile.TemporaryDirectory(prefix="irtools-")
        folder = Path(self._folder.name)
        (folder / "in.dot").write_text(dot, encoding="utf-8")
        (folder / "fonts.conf").write_text(_font_configuration(dot, folder), encoding="utf-8")
        self._output, self._messages = folder / f"out.{form}", folder / "messages"
        side = round(LARGEST_SIDE / dpi, 2)
        settings = [f"-Gdpi={dpi}", f"-Gsize={side},{side}"] if form == "png" else []
        command = [*engine_command(), f"-T{form}", f"-o{self._output}", *settings, str(folder / "in.dot")]
        environment = {**os.environ, "FONTCONFIG_FILE": str(folder / "fonts.conf")}
        with self._messages.open("wb") as messages:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, env=environment
                )
            except OSError as error:
                self._folder.cleanup()
                raise RenderError(f"{command[0]}: cannot be run: {error.strerror}") from error

    def result(self) -> bytes | None:
        """The drawing, None while it is not finished.

        An SVG has no document type and no comments: nothing in it names another file.

        Raises
        ------
        RenderError
            The engine failed.
        """
        code = self._process.poll()
        if code is None:
            return None
        if code or not self._output.is_file():
            said = self._messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RenderError(f"Graphviz could not draw this ({said[-1] if said else f'exit code {code}'})")
        data = self._output.read_bytes()
        return fit_text(_PROLOGUE.sub("", data.decode("utf-8"))).encode() if self._form == "svg" else data

    def close(self) -> None:
        """Kill the process if it still runs, and remove its files."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def _font_configuration(dot: str, folder: Path) -> str:
    """Show the engine our own font, and those of the machine only when the text needs them.

    With one font the result does not depend on the machine, and no cache of hundreds of
    fonts has to be built first.
    """
    system = "" if _COVERED.fullmatch(dot) else '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>'
        f"<dir>{escape(str(_FONTS))}</dir>{system}<cachedir>{escape(str(folder))}</cachedir></fontconfig>\n"
    )
