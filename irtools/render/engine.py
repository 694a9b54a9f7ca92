"""Lay out DOT text in a child process, which can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from irtools.errors import RenderError
from irtools.ir.files import scratch
from irtools.render.metrics import fit_text

__all__ = ["DPI", "FORMATS", "LARGEST_SIDE", "LARGE_DPI", "Layout", "engine_command"]

FORMATS = ("svg", "png", "pdf")
"""Output formats that need an engine."""
DPI = 144
"""PNG resolution: two pixels per SVG point, sharp on high-resolution screens."""
LARGE_DPI = 96
"""Resolution of a PNG with many boxes: painting and compressing the pixels takes longer than the layout."""
LARGEST_SIDE = 5000
"""Maximum side of a PNG in pixels. A larger drawing is scaled down, because compressing it takes seconds."""

_FONTS = Path(__file__).parent / "fonts"
# Characters that Liberation Sans covers; others need system fonts.
_COVERED = re.compile("[\x00-\u024f\u0370-\u052f\u2000-\u206f\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff]*")
_PROLOGUE = re.compile(r"<!DOCTYPE.*?>\s*|<!--.*?-->\s*", re.DOTALL)


@cache
def engine_command() -> tuple[str, ...]:
    """Layout command: ``dot`` on PATH, otherwise the engine in pygraphviz.

    Raises
    ------
    RenderError
        Neither is available.
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
    """A running layout process for DOT text; ``form`` is one of ``FORMATS``, ``dpi`` the resolution of a PNG.

    Raises
    ------
    RenderError
        No engine is available, or it cannot be started.
    """

    def __init__(self, dot: str, form: str, *, dpi: int = DPI) -> None:
        self._form = form
        self._folder = ExitStack()
        folder = self._folder.enter_context(scratch("draw"))
        (folder / "in.dot").write_text(dot, encoding="utf-8")
        # fontconfig writes a .uuid beside fonts, which must not be in the installed package.
        fonts = folder / "fonts"
        fonts.mkdir()
        for font in _FONTS.glob("*.ttf"):
            shutil.copyfile(font, fonts / font.name)
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
                self._folder.close()
                raise RenderError(f"{command[0]}: cannot be run: {error.strerror}") from error

    def result(self) -> bytes | None:
        """Return the drawing, or None while the layout is running.

        The document type and the comments of an SVG are removed, so that it refers to no other file.

        Raises
        ------
        RenderError
            The engine failed.
        """
        code = self._process.poll()
        if code is None:
            return None
        if code or not self._output.is_file():
            messages = self._messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RenderError(f"Graphviz could not draw this ({messages[-1] if messages else f'exit code {code}'})")
        data = self._output.read_bytes()
        return fit_text(_PROLOGUE.sub("", data.decode("utf-8"))).encode() if self._form == "svg" else data

    def close(self) -> None:
        """Kill the process if it is running, and remove its files."""
        self._process.kill()
        self._process.wait()
        self._folder.close()


def _font_configuration(dot: str, folder: Path) -> str:
    """Fontconfig file with the packaged font, and with the system fonts only if the text needs them.

    With one font the result is the same on every machine, and fontconfig does not have to index hundreds of fonts.
    """
    system = "" if _COVERED.fullmatch(dot) else '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>'
        f"<dir>{escape(str(folder / 'fonts'))}</dir>{system}<cachedir>{escape(str(folder))}</cachedir></fontconfig>\n"
    )
