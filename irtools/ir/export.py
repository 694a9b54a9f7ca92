"""A model directory and its parts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.errors import ExportError
from irtools.ir.document import Document, part_name
from irtools.ir.listing import meant_instead
from irtools.ir.reading import read_file

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.ir.save import Progress, Saved
    from irtools.lint.engine import Verification
    from irtools.surgery.patch import Patch

__all__ = ["Export", "open_export"]

TARGET_FILES = ("openvino_model.xml", "openvino_language_model.xml")
"""Names the runtime knows a target by."""
MTP_FILE = "openvino_mtp_model.xml"
_SIDE_PARTS = ("tokenizer", "embeddings", "encoder", "mtp", "vision", "resampler", "merger", "projection", "decoder")


class Export:
    """One export: a directory of IR files, or a single ``.xml``.

    Attributes
    ----------
    path : Path
        As given.
    directory : Path
        The model directory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._only = self.path if self.path.suffix == ".xml" and not self.path.is_dir() else None
        self.directory = self.path.parent if self._only else self.path
        self._patches: dict[Path, Patch] = {}

    def __repr__(self) -> str:
        return f"Export({str(self.path)!r})"

    def _repr_svg_(self) -> str | None:
        from irtools.render.notebook import svg_of

        return svg_of(self)

    @cached_property
    def parts(self) -> Mapping[str, Document]:
        """Every IR of the directory by the name of its part (not read yet).

        Files whose short names would be the same (``model.xml`` beside ``openvino_model.xml``) go by
        their whole stems.
        """
        paths = self._ir_files()
        # A short name may not be the whole stem of another file either.
        taken = Counter(name for path in paths for name in {part_name(path), path.stem})
        names = (part_name(path) if taken[part_name(path)] == 1 else path.stem for path in paths)
        return {name: Document(path, part=name) for name, path in zip(names, paths, strict=True)}

    def _ir_files(self) -> list[Path]:
        try:
            # Not `glob`: it finds nothing in a directory that may not be read.
            return sorted(path for path in self.directory.iterdir() if path.suffix == ".xml")
        except OSError as error:
            if self._only:  # can be read all the same
                return [self._only]
            reason = (error.strerror or type(error).__name__).lower()
            raise ExportError(f"cannot be read: {reason}", path=self.directory) from error

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The content of ``config.json``; empty when there is none.

        Raises
        ------
        ExportError
            It is no JSON object in UTF-8.
        """
        path = self.directory / "config.json"
        try:
            content = json.loads(read_file(path))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ExportError(f"cannot be read: {error.strerror}", path=path) from error
        except (ValueError, RecursionError) as error:
            raise ExportError(f"is not valid JSON ({error}); restore it from the checkpoint", path=path) from error
        if not isinstance(content, dict):
            raise ExportError("holds no JSON object; restore it from the checkpoint", path=path)
        return content

    @property
    def target_candidates(self) -> tuple[Document, ...]:
        """The files that could be the target: by the names the runtime knows, else the only other IR."""
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
            There is none, or more than one file could be it.
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
        if not self.parts:
            nothing = f"no {' or '.join(TARGET_FILES)} here (no .xml at all)"
            raise ExportError(f"{nothing}; {meant_instead(self.directory, TARGET_FILES)}", path=self.directory)
        seen = ", ".join(document.path.name for document in self.parts.values())
        raise ExportError(f"no {' or '.join(TARGET_FILES)} here ({seen}); give an OpenVINO export", path=self.directory)

    @property
    def mtp(self) -> Document | None:
        """The MTP head, or None."""
        return self.find_part("mtp")

    def find_part(self, name: str) -> Document | None:
        """A part that the runtime knows by a name, such as ``text_embeddings``; None when it is not there.

        Of files that share the name, the runtime takes ``openvino_<name>_model.xml``.
        """
        return self._file(f"openvino_{name}_model.xml") or self.parts.get(name)

    def _file(self, name: str) -> Document | None:
        return next((document for document in self.parts.values() if document.path.name == name), None)

    def part(self, name: str) -> Document:
        """A part by name: ``target``, ``mtp``, or a stem without ``openvino_`` and ``_model``.

        Of files that share such a name, each goes by its whole stem; unless it is such a stem, the
        name stands for the one that the runtime takes.

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

    def locate(self, part: str = "target") -> DecoderStack:
        """Locate the decoder stack of a part.

        Parameters
        ----------
        part : str
            As :meth:`part` takes it.

        Returns
        -------
        DecoderStack

        Raises
        ------
        LocateRefusedError
            No decoder-only language model, or the witnesses contradict each other.
        """
        from irtools.decoder import locate

        return locate(self.part(part), config=self.config)

    def verify(
        self,
        *,
        expect_mtp: bool | None = None,
        draft: str | Path | None = None,
        target_runtime: str | None = None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        rules: Sequence[str | Path] = (),
    ) -> Verification:
        """Run the rules over the files; neither weights nor a device are needed.

        Parameters
        ----------
        expect_mtp : bool, optional
            True: it is to be released with an MTP head; False: without one.
        draft : path-like, optional
            Directory of a draft to judge together with it.
        target_runtime : str, optional
            OpenVINO GenAI release that it is meant for.
        select, ignore : sequence of str
            Codes or groups of rules.
        rules : sequence of path-like
            Folders of your own rules.

        Returns
        -------
        Verification
            Frozen; ``findings`` are sorted by file, line and code.

        Raises
        ------
        ExportError
            There is no IR here.
        UsageError
            An argument makes no sense, or a rule failed.

        Examples
        --------
        >>> import irtools
        >>> [finding.code for finding in irtools.open_export("fixtures/mixtral").verify(select=["EXP"]).findings]
        ['EXP003', 'EXP003']
        """
        from irtools.lint.engine import DEFAULT_RUNTIME, Options, verify

        options = Options(
            expect_mtp=expect_mtp,
            draft=Path(draft) if draft is not None else None,
            target_runtime=target_runtime or DEFAULT_RUNTIME,
            select=tuple(select),
            ignore=tuple(ignore),
            rule_folders=tuple(map(Path, rules)),
        )
        return verify(self, options)

    def annotate(self, part: str = "target", *, stack: DecoderStack | None = None, force: bool = False) -> Patch:
        """Annotate a part in memory; :meth:`save` writes it.

        Parameters
        ----------
        part : str
            As :meth:`part` takes it.
        stack : DecoderStack, optional
            If it has been located already.
        force : bool
            Replace an annotation that says something else.

        Returns
        -------
        Patch

        Raises
        ------
        AnnotationDiffersError
            There is another annotation, and no ``force``.
        ExportError
            There is no such part, or it cannot be read.
        InvalidIRError
            The file is no well-formed IR, or cannot be edited safely.
        LocateRefusedError
            No decoder-only language model, or the witnesses contradict each other.
        """
        from irtools.surgery import annotate

        return self._keep(annotate(self.part(part), stack or self.locate(part), force=force))

    def strip(self, part: str = "target") -> Patch:
        """Take the annotation out of a part in memory; :meth:`save` writes it.

        Parameters
        ----------
        part : str
            As :meth:`part` takes it.

        Returns
        -------
        Patch
            ``status`` is ``unchanged`` when there was none.

        Raises
        ------
        ExportError
            There is no such part, or it cannot be read.
        InvalidIRError
            The file is no well-formed IR, or cannot be edited safely.
        """
        from irtools.surgery import strip

        return self._keep(strip(self.part(part)))

    def _keep(self, patch: Patch) -> Patch:
        """Remember a change; the documents stay what the files are until it is saved."""
        self._patches[patch.path] = patch
        return patch

    def save(
        self, output_dir: str | Path | None = None, *, check: bool = True, progress: Progress | None = None
    ) -> tuple[Saved, ...]:
        """Write what was changed, in place or as a complete export elsewhere.

        Parameters
        ----------
        output_dir : path-like, optional
            Empty or absent directory for a complete export.
        check : bool
            Rehearse what the runtime does before an annotated file is replaced.
        progress : callable, optional
            Called while weights are copied: file, bytes done, bytes in all.

        Returns
        -------
        tuple of Saved
            One per changed file.

        Raises
        ------
        SaveError
            The file that it names could not be written: it is as it was, unless the message says
            that it was replaced and only its directory could not be flushed. In place, other files
            may have been written before it; only what is left is written by the next call. With
            ``output_dir`` what had been created is removed.
        CheckError
            The runtime would not take one of the files, its weights are missing, or the check could
            not be run; nothing was written.
        """
        from irtools.ir.save import Change, save_export, save_files

        changes = []
        for patch in filter(lambda patch: patch.changed, self._patches.values()):
            judge = None
            if check and patch.new is not None:
                from irtools.runtime.check import checker

                judge = checker(patch.path, patch.new)
            changes.append(Change(patch.path, patch.data, patch.original, judge))
        if output_dir is not None:
            return save_export(self.directory, changes, Path(output_dir), progress=progress)
        return save_files(changes, written=lambda change: self._forget(change.path))

    def _forget(self, path: Path) -> None:
        """Read the files again when they are asked for next: one of them has been written."""
        del self._patches[path]
        for name in ("parts", "target"):
            self.__dict__.pop(name, None)


def open_export(path: str | Path) -> Export:
    """Open an export.

    Parameters
    ----------
    path : path-like
        A model directory, or one ``.xml`` file.

    Returns
    -------
    Export

    Raises
    ------
    ExportError
        There is no such directory or file, or the directory cannot be read.

    Examples
    --------
    >>> import irtools
    >>> export = irtools.open_export("fixtures/falcon")
    >>> export.target.path.name
    'openvino_model.xml'
    """
    export = Export(path)
    try:
        if not (export.path.is_dir() or export.path.is_file()):
            raise ExportError("no such file or directory", path=export.path)
    except OSError as error:
        raise ExportError(f"cannot be read: {error.strerror}", path=export.path) from error
    if export.path.is_file() and export.path.suffix != ".xml":
        raise ExportError("give a model directory or an .xml file", path=export.path)
    _ = export.parts  # unreadable: say so before anything else
    return export
