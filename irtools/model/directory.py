"""A model directory and the parts of the export in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from irtools.errors import ExportError, unreadable
from irtools.ir.mistaken import file_instead, meant_instead, missing_instead
from irtools.ir.reading import read_json
from irtools.model.document import Document, part_name
from irtools.remote import as_path

__all__ = ["MTP_FILE", "TARGET_FILES", "ModelDirectory"]

TARGET_FILES = ("openvino_model.xml", "openvino_language_model.xml")
"""File names that the runtime accepts for a target."""
MTP_FILE = "openvino_mtp_model.xml"
_SIDE_PARTS = ("tokenizer", "embeddings", "encoder", "mtp", "vision", "resampler", "merger", "projection", "decoder")


class ModelDirectory:
    """A directory of IR files, or a single ``.xml``.

    Attributes
    ----------
    path : Path
        The path as given: the directory or the ``.xml``.
    directory : Path
        The model directory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        self._only = self.path if self.path.suffix == ".xml" and not self.path.is_dir() else None
        self.directory = self.path.parent if self._only else self.path

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a model directory or one ``.xml`` file.

        Raises
        ------
        ExportError
            There is no such directory or file, or the directory cannot be read.
        """
        export = cls(path)
        try:
            if not (export.path.is_dir() or export.path.is_file()):
                raise ExportError("no such file or directory", path=export.path, hint=missing_instead(export.path))
        except OSError as error:
            raise unreadable(export.path, error) from error
        if export.path.is_file() and export.path.suffix != ".xml":
            raise ExportError(file_instead(export.path), path=export.path)
        _ = export.parts  # Fails here if unreadable.
        return export

    @cached_property
    def parts(self) -> Mapping[str, Document]:
        """All IRs of the directory by part name; the files are read on first use.

        Files that would have the same short name (``model.xml`` beside ``openvino_model.xml``) have their stems
        as part names.
        """
        paths = self._ir_files()
        # A short name must also differ from the stems of other files.
        taken = Counter(name for path in paths for name in {part_name(path), path.stem})
        names = (part_name(path) if taken[part_name(path)] == 1 else path.stem for path in paths)
        return {name: Document(path, part=name) for name, path in zip(names, paths, strict=True)}

    def whole(self) -> ModelDirectory:
        """The whole directory, also for a single ``.xml``; its documents are those of this object."""
        whole = ModelDirectory(self.directory)
        whole.parts = self.parts
        return whole

    def _ir_files(self) -> list[Path]:
        try:
            # Not `glob`, which finds nothing in an unreadable directory and raises no error.
            return sorted(path for path in self.directory.iterdir() if path.suffix == ".xml")
        except OSError as error:
            if self._only:  # the file may be readable although its directory is not
                return [self._only]
            raise unreadable(self.directory, error) from error

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Content of ``config.json``; empty without one.

        Raises
        ------
        ExportError
            The file cannot be read or is not a JSON object in UTF-8.
        """
        path = self.directory / "config.json"
        try:
            content = read_json(path)
        except OSError as error:
            raise unreadable(path, error) from error
        except ValueError as error:
            raise ExportError(f"is not valid JSON ({error}); restore it from the checkpoint", path=path) from error
        if content is None and not path.exists():
            return {}
        if not isinstance(content, dict):
            raise ExportError("is not a JSON object; restore it from the checkpoint", path=path)
        return content

    @cached_property
    def generation_config(self) -> Mapping[str, Any]:
        """Content of ``generation_config.json``; empty if it is missing or unreadable, which a rule reports."""
        try:
            content = read_json(self.directory / "generation_config.json")
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def target_candidates(self) -> tuple[Document, ...]:
        """Candidates for the target: files with a name from ``TARGET_FILES``, else parts of no other known kind."""
        if self._only:
            known = (document for document in self.parts.values() if document.path == self._only)
            return (next(known, Document(self._only)),)
        named = tuple(document for name in TARGET_FILES if (document := self._file(name)) is not None)
        if named:
            return named
        return tuple(document for name, document in self.parts.items() if not any(word in name for word in _SIDE_PARTS))

    @cached_property
    def target(self) -> Document:
        """The part with the decoder stack.

        Raises
        ------
        ExportError
            There is no candidate, or more than one.
        """
        candidates = self.target_candidates
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = " and ".join(document.path.name for document in candidates)
            raise ExportError(f"{names} could both be the target; name the .xml you mean", path=self.directory)
        if {"encoder", "decoder"} <= self.parts.keys():
            raise ExportError(
                "an encoder-decoder export (openvino_encoder_model.xml beside "
                "openvino_decoder_model.xml) has no decoder-only stack to annotate",
                path=self.directory,
            )
        missing = f"no {' or '.join(TARGET_FILES)} here"
        if not self.parts:
            message, hint = f"{missing} (no .xml at all)", meant_instead(self.directory, TARGET_FILES)
            raise ExportError(message, path=self.directory, hint=hint)
        seen = ", ".join(document.path.name for document in self.parts.values())
        raise ExportError(f"{missing} ({seen})", path=self.directory, hint="give an OpenVINO export")

    @property
    def mtp(self) -> Document | None:
        """The MTP head; None without one."""
        return self.find_part("mtp")

    def find_part(self, name: str) -> Document | None:
        """Part by the name that the runtime uses, such as ``text_embeddings``; None if it does not exist.

        If several files share the name, the result is ``openvino_<name>_model.xml``, as in the runtime.
        """
        return self._file(f"openvino_{name}_model.xml") or self.parts.get(name)

    def _file(self, name: str) -> Document | None:
        return next((document for document in self.parts.values() if document.path.name == name), None)

    def part(self, name: str) -> Document:
        """Part by name: ``target``, ``mtp``, or a stem without ``openvino_`` and ``_model``.

        If several files share a short name, the short name means the file that the runtime reads; the whole stem
        of a file selects exactly that file.

        Raises
        ------
        ExportError
            There is no such part.
        """
        if name == "target":
            return self.target
        found = self.parts.get(name) or self.find_part(name)
        if found is None:
            raise ExportError(f"no part {name!r}; it has {', '.join(['target', *self.parts])}", path=self.directory)
        return found
