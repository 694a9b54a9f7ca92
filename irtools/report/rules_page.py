"""Write docs/reference/rules.md, or check that it is up to date.

python -m irtools.report.rules_page           write docs/reference/rules.md of the checkout
python -m irtools.report.rules_page --check   exit with 1 if it differs from the rules
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from irtools.lint.rule import load_rules, source_of
from irtools.report.rules import rules_markdown

__all__ = ["main", "reference"]

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "reference" / "rules.md"


def reference() -> str:
    """Content of the page, from the built-in rules."""
    builtin = (_ROOT / "rules").resolve()
    return rules_markdown(rule for rule in load_rules() if Path(source_of(rule)).resolve().parent == builtin)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page; return the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/reference/rules.md from the rules.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is outdated")
    options = parser.parse_args(arguments)
    page, current = reference(), _PAGE.read_text("utf-8") if _PAGE.exists() else ""
    if not options.check:
        _PAGE.write_text(page, "utf-8")
        return 0
    changes = list(difflib.unified_diff(current.splitlines(True), page.splitlines(True), str(_PAGE), "the rules"))
    sys.stderr.writelines(changes[:40])
    return int(bool(changes))


if __name__ == "__main__":
    sys.exit(main())
