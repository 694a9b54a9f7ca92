"""Entries of the model-level rt_info, and changes of them, as text and as JSON."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from irtools.errors import IrtoolsError, UsageError, about
from irtools.ir.rt_info import entry_path, leaves
from irtools.model.document import Document
from irtools.model.provenance import flat_rt_info, origin
from irtools.report.terminal import Column, Style, table
from irtools.surgery.edits import SetRtInfo
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply
from irtools.text import clipped, did_you_mean, visible

__all__ = ["change_details", "changes_text", "chosen", "entries_details", "entries_text"]

_LONGEST_COMMAND = 4000
_Path = tuple[str, ...]


def chosen(document: Document, keys: Sequence[str]) -> Mapping[str, str]:
    """Entries of the flat rt_info by path: all, or those of some keys and groups.

    Raises
    ------
    UsageError
        There is no such entry.
    """
    if not keys:
        return flat_rt_info(document)
    found: dict[str, str] = {}
    with about(document.path):
        entries = dict(leaves(document.rt_info))
        for key in keys:
            wanted = entry_path(document.scan, key)
            inside = {"/".join(path): value for path, value in entries.items() if path[: len(wanted)] == wanted}
            if not inside:
                hint = did_you_mean(key, map("/".join, entries)) or "`irtools rt-info show MODEL_DIR` lists the entries"
                raise UsageError(f"there is no rt_info entry {key!r}", hint=hint)
            found |= inside
    return found


def entries_details(entries: Mapping[str, str]) -> dict[str, object]:
    """JSON form of entries: value and origin by path."""
    return {key: {"value": value, "origin": origin(key)} for key, value in entries.items()}


def entries_text(entries: Mapping[str, str], style: Style, *, full: bool) -> str:
    """Table of entries; with ``full``, long values are whole."""
    if not entries:
        return "no rt_info entries"
    columns = (Column("key", fold="anywhere"), Column("value", fold="anywhere"), Column("from", fold="words"))
    rows = [(key, value if full else clipped(value), origin(key)) for key, value in entries.items()]
    return table(columns, rows, style, whole=full)


def change_details(
    document: Document, patch: Patch, values: Mapping[str, str | None], model: Path, part: str
) -> dict[str, Any]:
    """JSON form of a change: each entry before and after, and the commands that restore the bytes of the file.

    Parameters
    ----------
    document : Document
        The part before the change.
    values : mapping of str to str or None
        The values that were set, None for a removed entry.
    """
    before = dict(leaves(document.rt_info))
    new = Document(document.path, patch.data)
    after = dict(leaves(new.rt_info))
    changed = [path for path in dict.fromkeys((*before, *after)) if before.get(path) != after.get(path)]
    changes = [{"key": "/".join(path), "before": before.get(path), "after": after.get(path)} for path in changed]
    wanted = [entry_path(document.scan, key) for key in values]
    # The last edit is undone first.
    order = sorted(changed, key=lambda path: -max(at for at, key in enumerate(wanted) if _related(path, key)))
    commands, exact = _undo([(path, before.get(path)) for path in order], document, new, model, part)
    return {"changes": changes, "undo": commands, "undo_exact": exact}


def _related(path: _Path, key: _Path) -> bool:
    shared = min(len(path), len(key))
    return path[:shared] == key[:shared]


def _undo(
    old: Sequence[tuple[_Path, str | None]], before: Document, after: Document, model: Path, part: str
) -> tuple[list[str], bool]:
    """Commands that restore the entries, if there are some; and True if they restore every byte of the file."""
    try:
        back = apply(after, [SetRtInfo("/".join(path), value) for path, value in old]).data
    except IrtoolsError:
        return [], False
    exact = back == before.data
    if not exact and dict(leaves(Document(after.path, back).rt_info)) != dict(leaves(before.rt_info)):
        return [], False
    commands = []
    for removes, group in groupby(old, lambda entry: entry[1] is None):
        words = ["irtools", "rt-info", "remove" if removes else "set", os.fspath(model)]
        words += ["/".join(path) if value is None else f"{'/'.join(path)}={value}" for path, value in group]
        commands.append(shlex.join([*words, *(["--part", part] if part != "target" else [])]))
    short = sum(map(len, commands)) <= _LONGEST_COMMAND
    return (commands, exact) if short else ([], False)


def changes_text(details: Mapping[str, Any], *, undo: bool) -> str:
    """A line for each changed entry; with ``undo``, also how to restore the file."""
    lines = [
        f"{visible(change['key'])}: {_side(change['before'])} -> {_side(change['after'])}"
        for change in details["changes"]
    ]
    commands = " && ".join(details["undo"])
    if undo and commands and commands == visible(commands):  # the line can be pasted
        lines.append(f"undo{'' if details['undo_exact'] else ' (entries, not every byte)'}: {commands}")
    elif undo:
        lines.append("undo: no command on one line restores the entries; `patch -R -p1` reverts what --diff prints")
    return "\n".join(lines)


def _side(value: str | None) -> str:
    return "none" if value is None else visible(clipped(value))
