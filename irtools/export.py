"""An export and the operations on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.display import Drawable, register_drawer
from irtools.errors import EditError
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.ir.save import Progress, Saved
    from irtools.lint.engine import Verification
    from irtools.prove.run import Proof
    from irtools.prove.settings import Settings
    from irtools.surgery.editor import Editor
    from irtools.surgery.patch import Patch
    from irtools.surgery.piece import Piece

__all__ = ["Export", "open_export"]


class Export(ModelDirectory, Drawable):
    """One export: a directory of IR files, or a single ``.xml``.

    All methods accept the part names of :meth:`part`.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._patches: dict[Path, Patch] = {}

    def __repr__(self) -> str:
        return f"Export({str(self.path)!r})"

    def locate(self, part: str = "target") -> DecoderStack:
        """Locate the decoder stack of a part in its file, without pending changes (see ``edit().locate()``).

        Raises
        ------
        LocateRefusedError
            The part is not a decoder-only language model, or the witnesses contradict each other.
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
        """Apply the rules to the files; weights and a device are not needed.

        Parameters
        ----------
        expect_mtp : bool, optional
            True if the export must have an MTP head, False if it must not have one.
        draft : path-like, optional
            Directory of a draft to verify with the export.
        target_runtime : str, optional
            OpenVINO GenAI release that must run the export.
        select, ignore : sequence of str
            Codes or groups of rules.
        rules : sequence of path-like
            Folders of additional rules.

        Returns
        -------
        Verification
            Frozen; ``findings`` are sorted by file, line and code.

        Raises
        ------
        ExportError
            The directory contains no IR.
        UsageError
            An argument is invalid, or a rule failed.

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
        stack : DecoderStack, optional
            Result of :meth:`locate`, if available.
        force : bool
            Replace an annotation that differs.

        Raises
        ------
        AnnotationDiffersError
            The part has a different annotation, and ``force`` is false.
        ExportError
            There is no such part, or it cannot be read.
        InvalidIRError
            The file is not a well-formed IR, or cannot be edited safely.
        LocateRefusedError
            The part is not a decoder-only language model, or the witnesses contradict each other.
        """
        from irtools.decoder import locate
        from irtools.surgery.annotate import annotate

        document = self._current(part)
        return self._keep(annotate(document, stack or locate(document, config=self.config), force=force))

    def strip(self, part: str = "target") -> Patch:
        """Remove the annotation of a part in memory; :meth:`save` writes it.

        Returns
        -------
        Patch
            ``status`` is ``unchanged`` if there was no annotation.

        Raises
        ------
        ExportError
            There is no such part, or it cannot be read.
        InvalidIRError
            The file is not a well-formed IR, or cannot be edited safely.
        """
        from irtools.surgery.strip import strip

        return self._keep(strip(self._current(part)))

    def edit(self, part: str = "target") -> Editor:
        """Edit a part in memory, in a ``with`` block; :meth:`save` writes it.

        All edits of the block become one change at its end, after a check of the result. An exception in the
        block or in the check discards all of them. Nothing else may change the part while the block is open.

        Returns
        -------
        Editor
            Object whose methods are the edits.

        Raises
        ------
        ExportError
            There is no such part, or it cannot be read.

        Examples
        --------
        >>> import irtools
        >>> export = irtools.open_export("fixtures/falcon")
        >>> with export.edit() as e:
        ...     exposure = e.expose([1, 3])
        ...     e.set_rt_info("purpose", "debugging")
        >>> export.pending[0].status
        'would-write'
        """
        from irtools.surgery.editor import Editor

        return Editor(self._current(part), self._keep, self.config)

    @property
    def pending(self) -> tuple[Patch, ...]:
        """Changes that :meth:`save` would write, one per file; changes of the same file are joined."""
        return tuple(patch for patch in self._patches.values() if patch.changed)

    def _current(self, part: str) -> Document:
        """Part with its pending changes."""
        document = self.part(part)
        known = self._patches.get(document.path)
        return Document(document.path, known.data, part=document.part) if known and known.changed else document

    def _keep(self, patch: Patch) -> Patch:
        """Add a pending change; the documents show the files until it is saved."""
        known = self._patches.get(patch.path)
        if known is not None and known.data != patch.original:
            raise EditError(
                "the part was changed while a block of edits was open, so the edits of the block are discarded; "
                "make all edits in one block, or one block after the other",
                path=patch.path,
            )
        self._patches[patch.path] = known.then(patch) if known else patch
        return patch

    def extract(
        self,
        output_dir: str | Path,
        *,
        layers: str | int | None = None,
        from_: str | Sequence[str] = (),
        to: str | Sequence[str] = (),
        stateless: bool = False,
        part: str = "target",
        check: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Piece:
        """Extract a piece of a part as a separate model with only the weights that it needs.

        Pending changes of the part are included.

        Parameters
        ----------
        output_dir : path-like
            Empty or absent directory for ``openvino_model.xml`` and ``.bin``.
        layers : str or int, optional
            Layers of the decoder stack: ``3``, ``3-5``, ``last`` or ``all``. Use either this or ``from_`` and
            ``to``.
        from_, to : str or sequence of str
            Friendly names of the first and the last ops of the piece; ``name:1`` is output 1 of an op.
        stateless : bool
            Convert states to inputs and outputs.
        check : bool
            Read the piece with OpenVINO before it gets its final name.
        progress : callable, optional
            Called while weights are copied, with bytes done and total bytes.

        Returns
        -------
        Piece
            Inputs, outputs, states and sizes of the piece.

        Raises
        ------
        EditError, UsageError
            The layers or ops do not exist, or no path leads from the first ops to the last.
        LocateRefusedError
            ``layers`` was given for a part without a decoder stack.
        ExportError
            There is no such part, or its weights are missing, too short or unreadable.
        InvalidIRError
            The file is not a well-formed IR.
        CheckError
            OpenVINO cannot read the piece; nothing was written.
        SaveError
            The piece could not be written; everything that was created was removed.

        Examples
        --------
        >>> import irtools, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     piece = irtools.open_export("fixtures/falcon").extract(directory, layers="0", check=False)
        >>> [port.name for port in piece.outputs]
        ['hidden_states.0']
        """
        from irtools.decoder import locate
        from irtools.runtime.check import check_piece
        from irtools.surgery.extract import plan_piece, save_piece

        document = self._current(part)
        plan = plan_piece(
            document,
            lambda: locate(document, config=self.config),
            layers=None if layers is None else str(layers),
            from_=(from_,) if isinstance(from_, str) else tuple(from_),
            to=(to,) if isinstance(to, str) else tuple(to),
            stateless=stateless,
        )
        return save_piece(document, plan, Path(output_dir), check=check_piece if check else None, progress=progress)

    def save(
        self, output_dir: str | Path | None = None, *, check: bool = True, progress: Progress | None = None
    ) -> tuple[Saved, ...]:
        """Write pending changes, in place or as a complete export in another directory.

        Parameters
        ----------
        output_dir : path-like, optional
            Empty or absent directory for a complete export.
        check : bool
            Check each file before it replaces the old one: OpenVINO reads a file with an edited graph, and an
            annotated file is processed as in the runtime.
        progress : callable, optional
            Called while weights are copied, with file, bytes done and total bytes.

        Returns
        -------
        tuple of Saved
            One per changed file.

        Raises
        ------
        SaveError
            The named file could not be written. It is unchanged unless the message says that it was replaced
            and only its directory could not be flushed. In place, files before it may have been written; the
            next call writes the others. With ``output_dir``, everything that was created is removed.
        CheckError
            The runtime rejects one of the files, its weights are missing, or the check could not run; nothing
            was written.
        """
        from irtools.ir.save import Change, save_export, save_files
        from irtools.runtime.check import checker

        changes = [
            Change(patch.path, patch.data, patch.original, checker(patch) if check else None) for patch in self.pending
        ]
        if output_dir is not None:
            return save_export(self.directory, changes, Path(output_dir), progress=progress)
        return save_files(changes, written=lambda change: self._forget(change.path))

    def prove(self, settings: Settings | None = None, progress: Callable[[str], None] | None = None) -> Proof:
        """Run the export: taps, state, MTP head, speculative decoding. See :func:`irtools.prove.run.prove`.

        The files are run as they are on disk, so pending changes raise an ``EditError``.
        """
        from irtools.prove.run import prove

        for patch in self.pending:
            raise EditError("there are pending changes; save them first", path=patch.path)
        return prove(self, settings, progress)

    def _forget(self, path: Path) -> None:
        """Drop a saved change and the cached documents, so the files are read again."""
        del self._patches[path]
        for name in ("parts", "target"):
            self.__dict__.pop(name, None)


def open_export(path: str | Path) -> Export:
    """Open an export.

    Parameters
    ----------
    path : path-like
        A model directory, or one ``.xml`` file.

    Raises
    ------
    ExportError
        The directory or file does not exist, or the directory cannot be read.

    Examples
    --------
    >>> import irtools
    >>> export = irtools.open_export("fixtures/falcon")
    >>> export.target.path.name
    'openvino_model.xml'
    """
    return Export.open(path)


def _draw(shown: object) -> str | None:
    from irtools.render.notebook import svg_of

    return svg_of(shown)


register_drawer(_draw)
