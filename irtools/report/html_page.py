"""Self-contained pages: template, styles and scripts in one file.

The Content-Security-Policy of a page allows only its own script and style, by their hashes, and blocks
all other sources.
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
from irtools.report.html_text import literals
from irtools.text import printable, shortened, visible

__all__ = ["packed", "page"]

_FOLDER = "irtools.report"
_LEVEL = 4
"""Of zlib: 6 takes twice as long for a page that is 5 % smaller."""
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)  # a browser would look for the file it names


def page(
    template: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), css: str = "", **context: object
) -> str:
    """Render a template as HTML that can be encoded in UTF-8.

    Parameters
    ----------
    template : str
        Name of a file in ``templates/`` that extends ``page.html``.
    scripts, styles : sequence of str
        Names of files in ``templates/`` or ``vendor/``, in order. A vendored script includes its licence.
    css : str
        Further style rules.
    **context : object
        Variables of the template. All values are escaped. The filter ``shown`` also makes the control characters
        of a text visible; ``prose`` also sets literals, which our sentences have in backticks.
    """
    script = "\n".join(map(_asset, scripts))
    style = "\n".join([*map(_asset, styles), css])
    context |= {"script": Markup(script), "style": Markup(style), "policy": _policy(script, style)}
    text = _environment().get_template(template).render(version=__version__, **context)
    # Lone surrogates stand for the bytes of a path that is not valid UTF-8.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def packed(value: object) -> Markup:
    """Encode a value as JSON, raw deflate and base64, which needs no escaping in HTML."""
    text = json.dumps(value, separators=(",", ":")).encode()
    squeezed = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return Markup(base64.b64encode(squeezed.compress(text) + squeezed.flush()).decode())


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_FOLDER, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = lambda value: visible(shortened(str(value)))
    environment.filters["prose"] = lambda value: literals(visible(shortened(str(value))))
    return environment


def _harmless(value: object) -> object:
    """Every value of a template without control and bidirectional characters; they can come from the export."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _asset(name: str) -> str:
    """Text of a script or style; a vendored file is preceded by its licence."""
    root = files(_FOLDER)
    vendored = root.joinpath("vendor", name)
    if not vendored.is_file():
        return root.joinpath("templates", name).read_text("utf-8")
    licence = root.joinpath("vendor", f"{name.split('.', 1)[0]}.LICENSE").read_text("utf-8").strip()
    code = _SOURCE_MAP.sub("", vendored.read_text("utf-8"))
    return f"/*!\n{name}\n\n{licence}\n*/\n{code}"


def _policy(script: str, style: str) -> str:
    """Content-Security-Policy of a page with a script and a style."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
