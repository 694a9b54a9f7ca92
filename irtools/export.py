"""An export, and what is done with it."""

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
    """One export: a directory of IR files, or a single ``.xml``."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._patches: dict[Path, Patch] = {}

    def __repr__(self) -> str:
        return f"Export({str(self.path)!r})"

    def locate(self, part: str = "target") -> DecoderStack:
        """Locate the decoder stack of a part, as its file is; for pending changes see ``edit().locate()``.

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
        from irtools.decoder import locate
        from irtools.surgery.annotate import annotate

        document = self._current(part)
        return self._keep(annotate(document, stack or locate(document, config=self.config), force=force))

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
        from irtools.surgery.strip import strip

        return self._keep(strip(self._current(part)))

    def edit(self, part: str = "target") -> Editor:
        """Edit a part in memory, in a ``with`` block; :meth:`save` writes it.

        What the block does becomes one change when it ends: it is checked as a whole, and after an
        exception, whether in the block or of the check, nothing of it is kept. Nothing else may change the part
        while the block is open.

        Parameters
        ----------
        part : str
            As :meth:`part` takes it.

        Returns
        -------
        Editor
            Its methods are the edits.

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
        """The changes that :meth:`save` would write, one per file; several of one file are joined."""
        return tuple(patch for patch in self._patches.values() if patch.changed)

    def _current(self, part: str) -> Document:
        """A part with the changes that have been kept so far; itself without any."""
        document = self.part(part)
        known = self._patches.get(document.path)
        return Document(document.path, known.data, part=document.part) if known and known.changed else document

    def _keep(self, patch: Patch) -> Patch:
        """Remember a change; the documents stay what the files are until it is saved."""
        known = self._patches.get(patch.path)
        if known is not None and known.data != patch.original:
            raise EditError(
                "the part was changed while a block of edits was open, so what the block does is not kept; "
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
        """Cut a piece out of a part, and write it as a model of its own with just the weights that it needs.

        Of a part with pending changes it is a piece of what :meth:`save` would write.

        Parameters
        ----------
        output_dir : path-like
            Empty or absent; gets ``openvino_model.xml`` and ``.bin``.
        layers : str or int, optional
            ``3``, ``3-5``, ``last`` or ``all``: layers of the decoder stack; or else ``from_`` and ``to``.
        from_, to : str or sequence of str
            Friendly names of the first ops of the piece and of the last; ``name:1`` is an output of one.
        stateless : bool
            Turn states into inputs and outputs.
        part : str
            As :meth:`part` takes it.
        check : bool
            Let OpenVINO read the piece before it is there.
        progress : callable, optional
            Called while weights are copied: bytes done, bytes in all.

        Returns
        -------
        Piece
            What was cut: inputs, outputs, states, sizes.

        Raises
        ------
        EditError, UsageError
            There are no such layers or ops, or no way leads from the ones to the others.
        LocateRefusedError
            ``layers`` of a part without decoder stack.
        ExportError
            There is no such part, or its weights are missing, too short or unreadable.
        InvalidIRError
            The file is no well-formed IR.
        CheckError
            OpenVINO cannot read the piece; nothing was written.
        SaveError
            It could not be written; what had been created was removed.

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
        """Write what was changed, in place or as a complete export elsewhere.

        Parameters
        ----------
        output_dir : path-like, optional
            Empty or absent directory for a complete export.
        check : bool
            Let OpenVINO read a file whose graph was edited, and rehearse what the runtime does with one that
            is annotated, before the old one is replaced.
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
        from irtools.runtime.check import checker

        changes = [
            Change(patch.path, patch.data, patch.original, checker(patch) if check else None) for patch in self.pending
        ]
        if output_dir is not None:
            return save_export(self.directory, changes, Path(output_dir), progress=progress)
        return save_files(changes, written=lambda change: self._forget(change.path))

    def prove(self, settings: Settings | None = None, progress: Callable[[str], None] | None = None) -> Proof:
        """Run the export: its taps, its state, its MTP head, drafted decoding. See :func:`irtools.prove.run.prove`.

        What runs are the files, so a change that is pending is refused with an ``EditError``.
        """
        from irtools.prove.run import prove

        for patch in self.pending:
            raise EditError("there are changes that have not been written; save them first", path=patch.path)
        return prove(self, settings, progress)

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
    return Export.open(path)


def _draw(shown: object) -> str | None:
    from irtools.render.notebook import svg_of

    return svg_of(shown)


register_drawer(_draw)
