"""Sphinx configuration of the documentation; ``make docs`` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

from irtools import __version__  # noqa: E402

project = "irtools"
author = "the irtools developers"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "command_options",
    "public_names",
    "rule_index",
    "schema_tables",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["colon_fence"]  # for what docs/_ext/command_options.py writes
# Anchors are those of GitHub, so that a link works in both places; docs/check.py checks them there.
myst_heading_anchors = 4

smartquotes = False  # it would turn the two hyphens of an option into a dash

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

default_role = "py:obj"  # a name in single backquotes in a docstring
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_preprocess_types = True
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
# Sphinx looks up the name of each attribute, such as `config`, and finds those of several classes.
suppress_warnings = ["ref.python"]

copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp"

html_theme = "furo"
html_title = f"irtools {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

_NEEDS = re.compile(r"^```(\w+) needs-(\w+)$", re.MULTILINE)
_MARKED = re.compile(r"^(```\w+) (?:varies|output)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")
_ROOT_PAGES = {
    "changelog": "CHANGELOG.md",
    "develop/contributing": "CONTRIBUTING.md",
    "develop/security": "SECURITY.md",
    "develop/fixtures": "fixtures/README.md",
}
"""Pages whose text is a file outside of this directory."""


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take the text of a root page from its file, lead links to it there, and turn marks of blocks into words."""
    file = ROOT / _ROOT_PAGES[docname] if docname in _ROOT_PAGES else Path(app.env.doc2path(docname))
    if file.suffix != ".md":
        return
    pages = {ROOT / path: f"/{name}.md" for name, path in _ROOT_PAGES.items()}

    def lead(match: re.Match[str]) -> str:
        target = (file.parent / match[1]).resolve()
        if target in pages:
            link = pages[target]
        elif docname in _ROOT_PAGES and target.is_relative_to(ROOT / "docs"):
            link = f"/{target.relative_to(ROOT / 'docs')}"
        elif docname in _ROOT_PAGES:
            link = os.path.relpath(target, (ROOT / "docs" / docname).parent)
        else:
            link = match[1]
        return f"]({link}{match[2] or ''})"

    text = _LINK.sub(lead, file.read_text("utf-8") if docname in _ROOT_PAGES else source[0])
    text = _NEEDS.sub(r"*Needs a \2, so it is not run when this page is built:*\n\n```\1", text)
    source[0] = _MARKED.sub(r"\1", text)


def setup(app: Sphinx) -> None:
    """Register what this documentation adds to Sphinx."""
    app.connect("source-read", _read)
