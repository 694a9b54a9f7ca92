"""Pages that need nothing beside themselves: templates, styles and scripts in one file.

A page states its own Content-Security-Policy: only the scripts and the style that it was written
with, by their hashes, and nothing from anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

from irtools._version import __version__
from irtools.text import visible

__all__ = ["packed", "page"]

_FOLDER = "irtools.report"
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)  # a browser would look for the file it names


def page(template: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), **context: object) -> str:
    """Fill in a template.

    Parameters
    ----------
    template : str
        Name of a file in ``templates/``; it extends ``page.html``.
    scripts, styles : sequence of str
        Names of files in ``templates/`` or ``vendor/``, in order. A vendored script comes with its licence.
    **context : object
        For the template. Every value is escaped; text goes through the filter ``shown`` as well, which makes
        control characters visible.

    Returns
    -------
    str
        HTML that can be encoded in UTF-8.
    """
    script = "\n".join(map(_asset, scripts))
    style = "\n".join(map(_asset, styles))
    text = (
        _environment()
        .get_template(template)
        .render(
            script=Markup(script),
            style=Markup(style),
            policy=_policy(script, style),
            version=__version__,
            **context,
        )
    )
    # A path whose bytes are no UTF-8 has lone surrogates.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def packed(value: object) -> str:
    """Compress a value for a page: JSON, raw deflate, base64. Safe between any two tags."""
    text = json.dumps(value, separators=(",", ":"))
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(squeezed.compress(text.encode()) + squeezed.flush()).decode()


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_FOLDER, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = lambda value: visible(str(value))
    return environment


@cache
def _asset(name: str) -> str:
    """A script or style; what is vendored begins with its licence."""
    root = files(_FOLDER)
    vendored = root.joinpath("vendor", name)
    if not vendored.is_file():
        return root.joinpath("templates", name).read_text("utf-8")
    licence = root.joinpath("vendor", f"{name.split('.', 1)[0]}.LICENSE").read_text("utf-8").strip()
    code = _SOURCE_MAP.sub("", vendored.read_text("utf-8"))
    return f"/*!\n{name}\n\n{licence}\n*/\n{code}"


def _policy(script: str, style: str) -> str:
    """The Content-Security-Policy of a page with this script and this style."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
