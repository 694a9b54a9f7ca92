"""The command that is useful after another one, for a line that ends its output."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from irtools.text import is_url

__all__ = ["STEPS", "next_step"]

STEPS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "annotate": (
        ("mtp", "`irtools prove {export}` runs the export to test the annotation and the MTP head"),
        (
            "",
            "`irtools prove {export} --steps taps` runs the model to test the annotation; "
            "`irtools verify {export} --draft DIR` checks a DFlash draft for it",
        ),
    ),
    "attach": (("", "`irtools prove {export} --steps head` measures how often the head's drafts are right"),),
    "graft": (
        ("draft", "`irtools bench {export} --draft {draft}` measures the speed and the acceptance rate of this draft"),
        ("before", "`irtools bench {export} --against {before}` compares speed and acceptance rate with those before"),
        ("", "`irtools bench {export}` measures the speed and the acceptance rate of drafting"),
    ),
}
"""Alternatives by command: what must be known of the export, and the line. The first one that applies is printed.

The other commands have none: after them the user has what was asked for, or their output names the next command.
`verify` has none because its output goes through pipes and into logs, and its findings name commands.
"""


def next_step(
    command: str, export: Path, *, mtp: bool = False, draft: Path | None = None, before: Path | None = None
) -> str:
    """Return the line about the next command after ``command``; ``""`` if there is none for this export.

    Parameters
    ----------
    export : Path
        What the next command gets: the model directory, or the ``.xml`` that was given.
    mtp : bool
        True if the export has an MTP head.
    draft : Path or None
        Draft in a separate directory.
    before : Path or None
        The same export before the command, if that is still there.
    """
    paths = {name: str(path) for name, path in (("export", export), ("draft", draft), ("before", before)) if path}
    if any(map(is_url, paths.values())):  # the next commands run the files
        return ""
    known = {"": True, "mtp": mtp, "draft": "draft" in paths, "before": "before" in paths}
    shown = {name: shlex.quote(path) for name, path in paths.items()}
    return next((line.format(**shown) for needed, line in STEPS.get(command, ()) if known[needed]), "")
