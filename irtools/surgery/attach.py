"""Put the MTP head of another export beside a target, and take it away again.

Nothing is computed: the two files of the head are placed as they are, and config.json declares the head. A record
beside them makes the removal exact.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from irtools.errors import EditError, unreadable
from irtools.ir.constants import iter_graphs, read_constants
from irtools.ir.files import scratch
from irtools.ir.json_text import set_number
from irtools.ir.listing import real_path
from irtools.ir.markup import spliced
from irtools.ir.place import Drop, Put, Step, place_files, same_content
from irtools.ir.reading import read_file
from irtools.ir.save import CopyProgress, save_export
from irtools.ir.weights_file import require_weights
from irtools.model.config import declared_mtp, mtp_place
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.remote import require_local
from irtools.surgery.attach_record import RECORD_FILE, AttachRecord, ConfigEdit, mark_of, read_record
from irtools.surgery.fit import Side, Trait, require_head, require_target, traits
from irtools.text import short_repr

__all__ = ["MTP_WEIGHTS", "Attachment", "plan_attachment", "plan_removal", "write_attachment"]

MTP_WEIGHTS = MTP_FILE.removesuffix(".xml") + ".bin"
"""Name of the weights of an MTP head."""
_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Attachment:
    """An MTP head that is put beside a target or taken away: what was compared, and what is written.

    Attributes
    ----------
    path : Path
        ``openvino_mtp_model.xml`` beside the target.
    source : Path or None
        The same file of the other export; None for a removal.
    traits : tuple of Trait
        Properties of the two exports that were compared.
    declared : str
        Key of config.json that is changed; empty if the file stays as it is.
    notes : tuple of str
        Messages for the user.
    written : tuple of Path
        Files that were written; empty before that.
    removed : tuple of Path
        Files that were removed.
    """

    path: Path
    source: Path | None
    traits: tuple[Trait, ...] = ()
    declared: str = ""
    notes: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    target: Path = field(default=Path(), repr=False)

    def __repr__(self) -> str:
        return short_repr(self, str(self.path), self.status, *(f"from {path}" for path in (self.source,) if path))

    @property
    def changed(self) -> bool:
        """True if a file changes."""
        return bool(self.steps)

    @property
    def status(self) -> str:
        """``unchanged``, ``would-write`` or ``written``."""
        if self.written or self.removed:
            return "written"
        return "would-write" if self.changed else "unchanged"

    @property
    def config(self) -> bytes | None:
        """New content of config.json; None if it does not change."""
        contents = (step.source for step in self.steps if isinstance(step, Put) and step.path.name == _CONFIG)
        return next((content for content in contents if isinstance(content, bytes)), None)


# -- attach ----------------------------------------------------------------------------


def plan_attachment(export: ModelDirectory, other: ModelDirectory, *, force: bool = False) -> Attachment:
    """Compare two exports, and work out how the export gets the MTP head of the other one.

    Nothing is written. The files of the head are read in pieces, to compare them with present ones and to hash them.
    Of other weights, a few kilobytes are read.

    Parameters
    ----------
    force : bool
        Replace another MTP head.

    Raises
    ------
    EditError
        The two are one directory, the other one has no head, or the export cannot take it or has another one.
    ExportError
        A directory or file does not exist, or cannot be read.
    InvalidIRError
        A file is not a well-formed IR.
    """
    here, there = export.directory, other.directory
    for directory in (here, there):
        require_local(directory, "attaching an MTP head")
    if real_path(here) == real_path(there):
        raise EditError("is also given with --mtp-from; give the directory of another export", path=here)
    side, source = Side(export), Side(other)
    head = require_head(source)
    require_target(side, head, source)
    files = {name: real_path(there / name) for name in (MTP_WEIGHTS, MTP_FILE)}
    constants = read_constants(tuple(iter_graphs(head.part.document.scan)))
    needed = max((constant.end for constant in constants), default=0)
    require_weights(there / MTP_WEIGHTS, needed, MTP_FILE)
    known = read_record(here)
    equal = {name: _equal(here / name, path) for name, path in files.items()}
    mark = cache(mark_of)
    if not force:
        begun = known is not None and known.files.get(MTP_WEIGHTS) == mark(files[MTP_WEIGHTS])[0]
        _require_free(here, equal, begun=begun)
    edit, change, remarks = _declaration(export, other, known)
    steps: list[Step] = []
    if not all(equal.values()) or (known is not None and change is not None):
        marks = {name: mark(path) for name, path in files.items()}
        record = AttachRecord(real_path(there).name, {name: mark for name, (mark, _) in marks.items()}, edit)
        puts = {name: Put(here / name, files[name], marks[name][1]) for name in files}
        # The record is written first: after a crash, attaching again and removing know what was begun.
        steps += [Put(here / RECORD_FILE, record.data())] if record != known else []
        if not equal[MTP_WEIGHTS]:
            # An old .xml would read the new weights.
            steps += [Drop(here / MTP_FILE)] if os.path.lexists(here / MTP_FILE) else []
            steps.append(puts[MTP_WEIGHTS])
        steps += [change] if change is not None else []
        steps += [] if all(equal.values()) else [puts[MTP_FILE]]
    elif change is not None:
        steps.append(change)
        remarks += (f"the same MTP head was already there, so --remove will not remove it; {_CONFIG} now declares it",)
    compared = traits(side, head, source)
    notes = tuple(trait.note for trait in compared if trait.note) + remarks
    declared = edit.key if change is not None and edit is not None else ""
    target = export.target.path
    path = here / MTP_FILE
    return Attachment(path, there / MTP_FILE, compared, declared, notes, steps=tuple(steps), target=target)


def _equal(path: Path, source: Path) -> bool:
    """True if a file exists, also through a link, and has the content of the source."""
    try:
        return path.is_file() and same_content(path, source)
    except OSError as error:
        raise unreadable(path, error, "; repair it, or remove it") from error


def _require_free(here: Path, equal: dict[str, bool], *, begun: bool) -> None:
    """Refuse a directory with another head; weights that an interrupted run has ``begun`` with are allowed."""
    if os.path.lexists(here / MTP_FILE) and not all(equal.values()):
        raise EditError("already has another MTP head; give --force to replace it", path=here)
    if os.path.lexists(here / MTP_WEIGHTS) and not equal[MTP_WEIGHTS] and not begun:
        message = f"exists without {MTP_FILE} and has different content; remove it, or give --force to replace it"
        raise EditError(message, path=here / MTP_WEIGHTS)


def _declaration(
    export: ModelDirectory, other: ModelDirectory, known: AttachRecord | None
) -> tuple[ConfigEdit | None, Put | None, tuple[str, ...]]:
    """The edit of config.json for the record, the change of the file if it is due, and notes."""
    path = export.directory / _CONFIG
    earlier = known.config if known is not None else None
    if not export.config:
        return earlier, None, (f"there is no {_CONFIG} that could declare the MTP head",)
    declared = declared_mtp(export.config)
    if declared is not None and declared.count > 0:
        return earlier, None, ()
    data = read_file(path)
    section, key = mtp_place(export.config, other.config)
    try:
        splice = set_number(data, section, key, 1)
    except ValueError as error:
        message = f"is not in UTF-8, so it is not edited; convert it, or set {'.'.join((*section, key))} to 1 yourself"
        raise EditError(message, path=path) from error
    edit = ConfigEdit.of(".".join((*section, key)), data, splice)
    return edit, Put(path, spliced(data, [splice]), original=data), ()


# -- remove ----------------------------------------------------------------------------


def plan_removal(export: ModelDirectory, *, force: bool = False) -> Attachment:
    """Work out how an attached MTP head is taken away, and config.json put back.

    Parameters
    ----------
    force : bool
        Remove the files of the head although they changed after they were attached, and leave a config.json that
        changed as it is.

    Raises
    ------
    EditError
        The head was not put there by :func:`plan_attachment`, or a file changed since.
    """
    here = export.directory
    require_local(here, "removing an MTP head")
    path, target = here / MTP_FILE, export.target.path
    known = read_record(here)
    if known is None:
        if os.path.lexists(path):
            message = (
                f"has an MTP head that `irtools attach` did not put there (there is no {RECORD_FILE}); "
                "remove the file and its .bin yourself if that is what you want"
            )
            raise EditError(message, path=here)
        return Attachment(path, None, target=target)
    present = [name for name in (MTP_FILE, MTP_WEIGHTS) if os.path.lexists(here / name)]
    for name in present:
        if not force and ((here / name).is_dir() or mark_of(here / name)[0] != known.files.get(name)):
            message = "was changed after it was attached, so it is not removed; give --force to remove it anyway"
            raise EditError(message, path=here / name)
    change, notes = _restored(here, known, force)
    steps: list[Step] = [Drop(here / name) for name in present]
    steps += [change] if change is not None else []
    steps.append(Drop(here / RECORD_FILE))
    declared = known.config.key if change is not None and known.config is not None else ""
    return Attachment(path, None, declared=declared, notes=notes, steps=tuple(steps), target=target)


def _restored(here: Path, known: AttachRecord, force: bool) -> tuple[Put | None, tuple[str, ...]]:
    """The change that puts config.json back; None if it is as before."""
    path, edit = here / _CONFIG, known.config
    if edit is None:
        return None, ()
    try:
        data = read_file(path)
    except OSError as error:
        raise unreadable(path, error) from error
    undone = edit.undo(data)
    if undone is not None:
        return (Put(path, undone, original=data) if undone != data else None), ()
    advice = f"{edit.key} was {edit.old}" if edit.old else f"{edit.key} was not there"
    if not force:
        message = (
            f"was changed after the MTP head was attached, so it cannot be put back ({advice}); "
            "give --force to leave it as it is"
        )
        raise EditError(message, path=path)
    return None, (f"{path} was changed after the MTP head was attached and stays as it is ({advice} before)",)


# -- writing ---------------------------------------------------------------------------


def write_attachment(
    attachment: Attachment, output_dir: Path | None = None, *, progress: CopyProgress | None = None
) -> Attachment:
    """Write what was worked out, in place or as a complete export in another directory.

    In place, every moment has the head complete or not at all: its ``.bin`` comes before its ``.xml``, and an old
    ``.xml`` goes before its ``.bin``. An interrupted call is completed by the same call.

    Returns
    -------
    Attachment
        With the files that were written and removed.

    Raises
    ------
    SaveError
        A file could not be written; the message says what was.
    """
    directory = attachment.path.parent
    if output_dir is None:
        saved = place_files(attachment.steps, locked=attachment.target, progress=progress)
        links = tuple(note for file in saved if (note := file.link_note))
        written = tuple(file.path for file in saved)
        removed = tuple(path for path in _dropped(attachment.steps) if path not in written)
        return replace(attachment, written=written, removed=removed, notes=attachment.notes + links)
    instead: dict[str, Path | None] = {path.name: None for path in _dropped(attachment.steps)}
    with scratch("attach") as made:
        for step in attachment.steps:
            if isinstance(step, Put):
                instead[step.path.name] = _as_file(step, made)
        save_export(directory, (), output_dir, instead=instead, progress=progress)
    placed = tuple(output_dir / name for name, source in instead.items() if source is not None)
    return replace(attachment, written=placed or (output_dir,))


def _as_file(step: Put, into: Path) -> Path:
    """The file with the new content; its mode is that of the old one."""
    if isinstance(step.source, Path):
        return step.source
    path = into / step.path.name
    path.write_bytes(step.source)
    if step.path.exists():
        path.chmod(stat.S_IMODE(step.path.stat().st_mode))
    return path


def _dropped(steps: Sequence[Step]) -> list[Path]:
    return [step.path for step in steps if isinstance(step, Drop)]
