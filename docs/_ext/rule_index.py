"""Page of the rules: an entry of the index for each code and name, so that a search leads to the rule, and a filter."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from irtools.lint.rule import load_rules

PAGE = "reference/rules"


class RuleIndex(SphinxTransform):
    """Add the entries to the section of each rule."""

    default_priority = 800  # before the domains collect their entries

    def apply(self, **kwargs: Any) -> None:
        """Change the page of the rules only."""
        if self.env.docname != PAGE:
            return
        rules = {f"{rule.code} {rule.name}": rule for rule in load_rules()}
        for section in self.document.findall(nodes.section):
            rule = rules.get(section[0].astext())
            if rule is not None:
                names = (rule.code, rule.name)
                index = addnodes.index(entries=[("single", name, section["ids"][0], "main", None) for name in names])
                section.insert(1, index)


def _add_filter(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    if pagename == PAGE:
        app.add_js_file("rules.js")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform and the filter."""
    app.add_transform(RuleIndex)
    app.connect("html-page-context", _add_filter)
    return {"parallel_read_safe": True}
