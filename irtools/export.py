"""An export and the operations on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from irtools.display import Drawable
from irtools.errors import EditError, OptionError, about
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.remote import require_local

if TYPE_CHECKING:
    from irtools.advise.advice import Advice
    from irtools.bench.run import Benchmark
    from irtools.bench.schedule import Watcher
    from irtools.bench.settings import BenchSettings
    from irtools.compare.differences import Comparison
    from irtools.decoder.stack import DecoderStack
    from irtools.ir.save import CopyProgress, Saved
    from irtools.lint.engine import Verification, VerifyOptions
    from irtools.model.footprint import Footprint
    from irtools.prove.run import Proof
    from irtools.prove.settings import ProveSettings
    from irtools.prove.steps import Step
    from irtools.render.drawing import Drawing
    from irtools.report.inspection import Inspection
    from irtools.report.serve_config import ServeConfig, ServeSettings
    from irtools.surgery.attach import Attachment
    from irtools.surgery.editor import Editor
    from irtools.surgery.extraction.piece import Piece
    from irtools.surgery.graft.own import DraftHead
    from irtools.surgery.graft.target import Grafting
    from irtools.surgery.patch import Patch

__all__ = ["Export", "diff", "open_export"]


class Export(ModelDirectory, Drawable):
    """One export: a directory of IR files, or a single ``.xml``.

    Each command on exports is a method. Its arguments have the names and defaults of the options that it shares with
    the command (``docs/reference/api.md`` lists the exceptions); a ``part`` is a name that :meth:`part` takes.
    :meth:`annotate`, :meth:`strip`, :meth:`expose`, :meth:`conceal` and :meth:`edit` change a part in memory;
    :meth:`save` writes the changes. Only these methods and :meth:`extract` see changes that are not saved. All others
    read the files.
    :meth:`extract`, :meth:`attach` and :meth:`detach` write at once.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._patches: dict[Path, Patch] = {}
        self._relied: dict[Path, bytes] = {}

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
        options: VerifyOptions | None = None,
        *,
        expect_mtp: bool | None = None,
        draft: str | Path | None = None,
        target_runtime: str | None = None,
        expect_compression: str | Mapping[str, str] | None = None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        rules: Sequence[str | Path] = (),
    ) -> Verification:
        """Apply the rules to the files; a device is not needed, and at most 500,000 bytes of weights are read.

        Configuration files are not read.

        Parameters
        ----------
        options : VerifyOptions, optional
            All options in one value, instead of the other arguments.
        expect_mtp : bool, optional
            True if the export must have an MTP head, False if it must not have one.
        draft : path-like, optional
            Directory of a draft to verify with the export.
        target_runtime : str, optional
            OpenVINO GenAI release that must run the export.
        expect_compression : str or mapping of str to str, optional
            Compression that target and MTP head must have, such as ``int4_asym:64:int8_sym``, or compressions by part.
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
        from irtools.lint.context import DEFAULT_RUNTIME
        from irtools.lint.engine import VerifyOptions, verify

        separate = VerifyOptions(
            expect_mtp=expect_mtp,
            draft=Path(draft) if draft is not None else None,
            target_runtime=target_runtime or DEFAULT_RUNTIME,
            expect_compression={"": expect_compression}
            if isinstance(expect_compression, str)
            else dict(expect_compression or {}),
            select=tuple(select),
            ignore=tuple(ignore),
            rules=tuple(map(Path, rules)),
        )
        if options is not None and separate != VerifyOptions():
            raise OptionError("give either options or the other arguments, not both")
        return verify(self, options or separate)

    def inspect(
        self,
        part: str = "target",
        *,
        context: int | None = None,
        batch: int = 1,
        draft: str | Path | None = None,
        assistant_tokens: int = 3,
        kv_precision: tuple[str, str] | None = None,
        budget: int | None = None,
    ) -> Inspection:
        """Inspect the export: parts, layers, ports, states, weights, decoding strategies and memory.

        Parameters
        ----------
        part : str
            Part whose ports, states and layers are shown.
        context : int, optional
            Tokens in the state of each sequence; by default 4096, or what the model takes.
        batch : int
            Number of sequences.
        draft : path-like, optional
            Directory of a draft with which the decoding strategies are judged, and whose memory is counted.
        assistant_tokens : int
            Tokens drafted per pass, for the memory.
        kv_precision : tuple of two str, optional
            Precisions of keys and of values in the cache; by default several are shown.
        budget : int, optional
            Bytes for which the largest context is shown.

        Raises
        ------
        ExportError
            There is no such part, or it cannot be read.
        InvalidIRError
            The file is not a well-formed IR.

        Examples
        --------
        >>> import irtools
        >>> irtools.open_export("fixtures/falcon").inspect().details()["stack"]["layers"]
        4
        """
        from irtools.report.inspection import Inspection

        draft = Path(draft) if draft is not None else None
        return Inspection(
            self,
            part,
            context=context,
            batch=batch,
            draft=draft,
            assistant_tokens=assistant_tokens,
            kv_precision=kv_precision,
            budget=budget,
        )

    def footprint(
        self,
        *,
        context: int | None = None,
        batch: int = 1,
        draft: str | Path | None = None,
        assistant_tokens: int = 3,
    ) -> Footprint:
        """Estimate from the files of the export the memory that OpenVINO GenAI needs for it on a CPU.

        Parameters
        ----------
        context : int, optional
            Tokens in the state of each sequence; by default 4096, or what the model takes.
        batch : int
            Number of sequences.
        draft : path-like, optional
            Directory of a draft; without one, an MTP head is the draft.
        assistant_tokens : int
            Tokens drafted per pass, for the checkpoints of recurrent state.

        Raises
        ------
        UsageError
            A number is below one.

        Examples
        --------
        >>> import irtools
        >>> footprint = irtools.open_export("fixtures/falcon").footprint(context=128)
        >>> footprint.total("f32") - footprint.total("f16")  # 8 states of width 8, 2 bytes more per value
        16384
        >>> footprint.largest_context(2**30, "u8", "u4")  # the model takes no more tokens
        2048
        """
        from irtools.model.footprint import footprint

        opened = ModelDirectory.open(draft) if draft is not None else None
        return footprint(self, context=context, batch=batch, draft=opened, assistant_tokens=assistant_tokens)

    def render(
        self,
        output: str | Path | None = None,
        *,
        part: str = "target",
        layer: int | None = None,
        around: str | None = None,
        radius: int | None = None,
        between: tuple[str, str] | None = None,
        pair: bool = False,
        full: bool = False,
        max_nodes: int | None = None,
        format: str = "svg",
    ) -> Drawing:
        """Draw the export, or a section of it op by op.

        Parameters
        ----------
        output : path-like, optional
            A ``.svg``, ``.png``, ``.pdf`` or ``.dot`` file for the picture.
        part : str
            Part to draw.
        layer : int, optional
            One decoder layer, op by op; -1 is the last.
        around : str, optional
            Friendly name or layer id of an op that is drawn with its neighbours.
        radius : int, optional
            Number of steps around the op. Default: 2.
        between : pair of str, optional
            The ops between two ops.
        pair : bool
            Target and MTP head, connected as in the runtime.
        full : bool
            Every op.
        max_nodes : int, optional
            Maximum number of ops. Default: 500, for PNG 300.
        format : str
            Format of the picture without ``output``, whose suffix sets it.

        Returns
        -------
        Drawing
            The picture with its bytes; ``picture.omitted`` lists omitted content.

        Raises
        ------
        RenderError
            No layout engine is available (``dot`` needs none), or there is nothing to draw.
        UsageError
            An op, layer or part does not exist, or two arguments select different pictures.

        Examples
        --------
        >>> import irtools
        >>> irtools.open_export("fixtures/falcon").render(layer=1, format="dot").data[:7]
        b'digraph'
        """
        from irtools.ir.output import write_output
        from irtools.render.drawing import render
        from irtools.render.pictures import format_of, request_for

        form = format if output is None else format_of(Path(output))
        request = request_for(
            form,
            part=part,
            layer=layer,
            around=around,
            radius=radius,
            between=between,
            pair=pair,
            full=full,
            max_nodes=max_nodes,
        )
        drawing = render(self, request, form)
        if output is not None:
            write_output(Path(output), drawing.data, [self.directory])
        return drawing

    def report(
        self,
        output: str | Path | None = None,
        *,
        part: str = "target",
        expect_mtp: bool | None = None,
        draft: str | Path | None = None,
        target_runtime: str | None = None,
        context: int | None = None,
        batch: int = 1,
        proof: Mapping[str, Any] | None = None,
        bench: Mapping[str, Any] | None = None,
    ) -> str:
        """Verify the export and show it on one HTML page with a picture that expands down to each op.

        Parameters
        ----------
        output : path-like, optional
            File for the page.
        part : str
            Part whose ports, states and layers are shown.
        expect_mtp, draft, target_runtime
            As for :meth:`verify`.
        context, batch
            As for :meth:`inspect`.
        proof, bench : mapping, optional
            Records of a proof and a benchmark of this export, to show.

        Returns
        -------
        str
            The page.

        Raises
        ------
        ExportError
            The directory contains no IR.
        OptionError
            A record is damaged or about other files.
        UsageError
            An argument is invalid, a rule failed, or matplotlib is not installed for the plots of a benchmark.

        Examples
        --------
        >>> import irtools
        >>> irtools.open_export("fixtures/falcon").report()[:15]
        '<!doctype html>'
        """
        from irtools.ir.output import write_output
        from irtools.lint.engine import ModelVerification
        from irtools.report.html import View, render_report

        verification = self.verify(expect_mtp=expect_mtp, draft=draft, target_runtime=target_runtime)
        records = {kind: record for kind, record in (("proof", proof), ("bench", bench)) if record is not None}
        view = View(part, context, batch, records=records, draft=Path(draft) if draft is not None else None)
        page = render_report(self, ModelVerification(self.path, verification), view)
        if output is not None:
            write_output(Path(output), page.encode(), [self.directory])
        return page

    def diff(
        self, other: str | Path | ModelDirectory, *, part: str | None = None, ignore: Collection[str] = ()
    ) -> Comparison:
        """Compare with another export; see :func:`irtools.diff`.

        Parameters
        ----------
        other : path-like or Export
            The other export.
        part : str, optional
            Only this part.
        ignore : collection of str
            Categories of differences to ignore.
        """
        return diff(self, other, part=part, ignore=ignore)

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
        UsageError
            The part is a draft, which reads the hidden states of a target.
        """
        from irtools.decoder import locate
        from irtools.model.draft import require_target
        from irtools.surgery.annotate import annotate

        document = self._current(part)
        require_target(document)  # before the stack, which a draft may not have
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

    def expose(
        self,
        layers: Sequence[int] | int | str,
        *,
        concat: str | None = None,
        names: str | Sequence[str] | None = None,
        part: str = "target",
    ) -> Patch:
        """Add hidden states as model outputs in memory; :meth:`save` writes it.

        Parameters
        ----------
        layers : sequence of int, int or str
            Decoder layers: numbers, or text such as ``1,3-5``, ``last`` or ``all``.
        concat : str, optional
            Name of one output that concatenates the layers in the given order.
        names : str or sequence of str, optional
            One name per layer, or a name with ``{layer}`` in it. Default: ``hidden_states.{layer}``, or no single
            outputs if ``concat`` is given.

        Returns
        -------
        Patch
            ``status`` is ``unchanged`` if the outputs exist already.

        Raises
        ------
        EditError
            A layer does not exist, a name is taken or reserved, or the values cannot be concatenated.
        LocateRefusedError
            The part is not a decoder-only language model, or the witnesses contradict each other.

        Examples
        --------
        >>> import irtools
        >>> export = irtools.open_export("fixtures/falcon")
        >>> export.expose("0,last").changed, export.conceal().changed, export.pending
        (True, True, ())
        """
        return self._edited(part, lambda editor: editor.expose(layers, names=names, concat=concat))

    def conceal(
        self,
        layers: Sequence[int] | int | str | None = None,
        *,
        concat: str | None = None,
        names: str | Sequence[str] | None = None,
        part: str = "target",
    ) -> Patch:
        """Remove outputs that :meth:`expose` added in memory, by default all; :meth:`save` writes it.

        Parameters
        ----------
        layers, concat, names
            The arguments with which the outputs were added, to remove only these.

        Returns
        -------
        Patch
            ``status`` is ``unchanged`` if there are no such outputs.

        Raises
        ------
        EditError
            An output with such a name was not added by :meth:`expose`.
        """
        return self._edited(part, lambda editor: editor.conceal(layers, names=names, concat=concat))

    def graft(
        self,
        vocabulary: int | None = None,
        *,
        own_head: bool = False,
        tokens: Sequence[int] | None = None,
        draft: Export | None = None,
        weights: str | None = None,
        force: bool = False,
    ) -> DraftHead:
        """Give a draft a smaller head in memory; :meth:`save` writes it.

        The text stays the target's: a token that the draft head does not cover is never drafted.

        Parameters
        ----------
        vocabulary : int, optional
            Number of tokens that the draft head covers, from id 0 on; by default all for a head of its own.
        own_head : bool
            True to add the draft head to the MTP head, with new weights, instead of to the target.
        tokens : sequence of int, optional
            Token ids that a head of its own covers, instead of ``vocabulary``.
        draft : Export, optional
            A DFlash draft for this target that gets a head of its own; its ``save`` writes the change.
        weights : str, optional
            ``int4`` or ``int8`` to compress a head of its own with NNCF; by default its rows are those of lm_head. The
            compressed rows are kept in a temporary directory.
        force : bool
            True to replace another draft head that irtools added.

        Raises
        ------
        UsageError
            The options contradict each other, or nncf is not installed.
        EditError
            There is no MTP head, the number is out of range, there is another draft head, or the weights of lm_head
            have a form that is not known.
        LocateRefusedError
            There are no logits that one MatMul with constant weights computes.

        Examples
        --------
        >>> import irtools
        >>> export = irtools.open_export("fixtures/qwen3_5_vl_trained")
        >>> head = export.graft(128)
        >>> head.rows, head.vocabulary, head.patch.status
        (128, 512, 'would-write')
        """
        from irtools.surgery.graft.directory import chosen_tokens, require_graftable, require_mtp, require_ungrafted
        from irtools.surgery.graft.own import own_head as add_own_head

        separate = own_head or draft is not None
        if separate:
            require_local(self.directory, "a head of its own")
        if weights is not None and not separate:
            raise OptionError("weights need own_head=True or a draft; a draft head in the target shares lm_head's")
        compress = None
        if weights is not None:
            from irtools.runtime.compression import compressor

            compress = compressor(weights)
        chosen = chosen_tokens(self.target, vocabulary, tokens, separate=separate)
        if not separate:
            mtp = require_mtp(self)
            require_graftable(self._current("mtp"))
            self._rely_on(mtp)
            with self.edit() as editor:
                grafting = editor.graft(vocabulary or 0, force=force)
            return self._draft_head(editor, grafting)
        if draft is None:
            require_mtp(self)
            require_ungrafted(self._current("target"))
            self._rely_on(self.target)
        owner, part = (draft, "target") if draft is not None else (self, "mtp")
        document = owner._settled(part)
        with about(document.path):
            head = add_own_head(
                self.target,
                document,
                chosen,
                replaces_hidden=draft is not None,
                force=force and draft is None,
                compress=compress,
            )
        owner._keep(head.patch)
        return head

    def ungraft(self, *, own_head: bool = False) -> DraftHead:
        """Remove a draft head that :meth:`graft` added in memory, byte for byte; :meth:`save` writes it.

        Parameters
        ----------
        own_head : bool
            True for the head of its own of the MTP head, False for the draft head of the target.

        Raises
        ------
        EditError
            The draft head was not added by :meth:`graft`.
        """
        from irtools.surgery.graft.directory import require_mtp
        from irtools.surgery.graft.own import without_own_head

        if own_head:
            require_local(self.directory, "removing a head of its own")
            require_mtp(self)
            document = self._settled("mtp")
            with about(document.path):
                head = without_own_head(self.target, document)
            self._keep(head.patch)
            return head
        with self.edit() as editor:
            grafting = editor.ungraft()
        return self._draft_head(editor, grafting)

    @staticmethod
    def _draft_head(editor: Editor, grafting: Grafting) -> DraftHead:
        from irtools.surgery.graft.own import DraftHead

        assert editor.patch is not None, "the end of the block sets it"
        return DraftHead(editor.patch, grafting.rows, grafting.vocabulary, grafting.head_bytes, grafting.graft_bytes)

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

    def _edited(self, part: str, surgery: Callable[[Editor], object]) -> Patch:
        with self.edit(part) as editor:
            surgery(editor)
        assert editor.patch is not None, "the end of the block sets it"
        return editor.patch

    @property
    def pending(self) -> tuple[Patch, ...]:
        """Changes that :meth:`save` would write, one per file; changes of the same file are joined."""
        return tuple(patch for patch in self._patches.values() if patch.changed)

    def _current(self, part: str) -> Document:
        """Part with its pending changes."""
        document = self.part(part)
        known = self._patches.get(document.path)
        return Document(document.path, known.data, part=document.part) if known and known.changed else document

    def _settled(self, part: str) -> Document:
        """Part with its pending changes, of which none may be of the weights: they show only when they are saved."""
        document = self._current(part)
        known = self._patches.get(document.path)
        if known is not None and known.weights is not None:
            raise EditError("a change of the weights is pending; save it first", path=document.path)
        return document

    def _rely_on(self, document: Document) -> None:
        """Have the next save require that the file of a part is still as it was read: a change was computed from it."""
        self._relied.setdefault(document.path, document.data)

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

    @overload
    def extract(
        self,
        output_dir: str | Path,
        *,
        layers: str | int | None = ...,
        from_: str | Sequence[str] = ...,
        to: str | Sequence[str] = ...,
        stages: None = ...,
        stateless: bool = ...,
        part: str = ...,
        check: bool = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> Piece: ...

    @overload
    def extract(
        self,
        output_dir: str | Path,
        *,
        stages: str,
        stateless: bool = ...,
        part: str = ...,
        check: bool = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> tuple[Piece, ...]: ...

    def extract(
        self,
        output_dir: str | Path,
        *,
        layers: str | int | None = None,
        from_: str | Sequence[str] = (),
        to: str | Sequence[str] = (),
        stages: str | None = None,
        stateless: bool = False,
        part: str = "target",
        check: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Piece | tuple[Piece, ...]:
        """Extract a piece of a part as a separate model with only the weights that it needs.

        Pending changes of the part are included.

        Parameters
        ----------
        output_dir : path-like
            Empty or absent directory for ``openvino_model.xml`` and ``.bin``.
        layers : str or int, optional
            Layers of the decoder stack: ``3``, ``3-5``, ``3-``, ``last`` or ``all``, or ``from_``.
        from_, to : str or sequence of str
            Friendly names of the first and the last ops of the piece; ``name:1`` is output 1 of an op. With
            ``layers``, ``to`` replaces the end of the last layer: ``layers="3-", to="logits"`` has the head.
        stages : str, optional
            Layers of consecutive pieces, such as ``0-11,12-23,24-``, in the directories ``stage-0``, ``stage-1``, ...
            ``stages.json`` says which output feeds which input; one after the other they equal the whole model.
        stateless : bool
            Convert states to inputs and outputs.
        check : bool
            Read the piece with OpenVINO before it gets its final name.
        progress : callable, optional
            Called while weights are copied, with bytes done and total bytes.

        Returns
        -------
        Piece or tuple of Piece
            Inputs, outputs, states and sizes of the piece, or of each stage.

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
        from irtools.surgery.extraction.extract import plan_piece, plan_stages, require_choice, save_piece, save_stages

        document = self._current(part)
        located = partial(locate, document, config=self.config)
        checked = check_piece if check else None
        chosen = None if layers is None else str(layers)
        first, last = ((names,) if isinstance(names, str) else tuple(names) for names in (from_, to))
        if stages is not None:
            from irtools.report.extract import manifest

            require_choice(chosen, first, last, stages)
            planned = plan_stages(document, located, stages, stateless=stateless)
            return save_stages(
                document,
                planned,
                Path(output_dir),
                manifest=manifest(document.path, planned),
                check=checked,
                progress=progress,
            )
        plan = plan_piece(document, located, layers=chosen, from_=first, to=last, stateless=stateless)
        return save_piece(document, plan, Path(output_dir), check=checked, progress=progress)

    def attach(
        self,
        mtp_from: str | Path | ModelDirectory,
        output_dir: str | Path | None = None,
        *,
        force: bool = False,
        check: bool = True,
        progress: CopyProgress | None = None,
    ) -> Attachment:
        """Put the MTP head of another export of the same base beside the target, and declare it in ``config.json``.

        The files of the head are cloned, hard-linked (the ``.bin``) or copied; their bytes stay as they are.

        Parameters
        ----------
        mtp_from : path-like or Export
            The other export.
        output_dir : path-like, optional
            Empty or absent directory for a complete export.
        force : bool
            Replace another MTP head.
        check : bool
            Read the head with OpenVINO and apply the rules as with ``expect_mtp`` before a file is in place.
        progress : callable, optional
            Called while weights are copied, with file, bytes done and total bytes.

        Returns
        -------
        Attachment
            What was compared and written; ``status`` is ``unchanged`` if the same head was there already.

        Raises
        ------
        EditError
            The other export has no MTP head; or this one cannot take it, has another one or pending changes.
        ExportError
            A file does not exist or cannot be read.
        InvalidIRError
            A file is not a well-formed IR.
        CheckError
            OpenVINO cannot read the head, a rule finds an error, or the check could not run; nothing was written.
        SaveError
            A file could not be written; the message says what was.

        Examples
        --------
        >>> import irtools, pathlib, shutil, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tuned = shutil.copytree("fixtures/qwen3_5_vl", pathlib.Path(directory, "tuned"))
        ...     (tuned / "openvino_mtp_model.xml").unlink()
        ...     export = irtools.open_export(tuned)
        ...     export.attach("fixtures/qwen3_5_vl", check=False).status, export.detach().status
        ('written', 'written')
        """
        from irtools.lint.attached import check_attachment
        from irtools.surgery.attach import plan_attachment

        self._require_saved()
        other = mtp_from if isinstance(mtp_from, ModelDirectory) else ModelDirectory.open(mtp_from)
        plan = plan_attachment(self, other, force=force)
        if check and plan.changed:
            plan = replace(plan, notes=plan.notes + check_attachment(plan))
        return self._written(plan, output_dir, progress)

    def detach(
        self,
        output_dir: str | Path | None = None,
        *,
        force: bool = False,
        progress: CopyProgress | None = None,
    ) -> Attachment:
        """Remove the MTP head that :meth:`attach` put beside the target, and restore ``config.json`` byte for byte.

        Parameters
        ----------
        output_dir : path-like, optional
            Empty or absent directory for a complete export without the head.
        force : bool
            Remove files of the head that changed since, and leave a ``config.json`` that changed as it is.
        progress : callable, optional
            As for :meth:`attach`.

        Returns
        -------
        Attachment
            What was written and removed; ``status`` is ``unchanged`` if there is no MTP head.

        Raises
        ------
        EditError
            The head was not put there by :meth:`attach`, or a file changed since.
        SaveError
            A file could not be written or removed; the message says what was.
        """
        from irtools.surgery.attach import plan_removal

        self._require_saved()
        plan = plan_removal(self, force=force)
        return self._written(plan, output_dir, progress)

    def _written(self, plan: Attachment, output_dir: str | Path | None, progress: CopyProgress | None) -> Attachment:
        from irtools.surgery.attach import write_attachment

        if not plan.changed and output_dir is None:
            return plan
        done = write_attachment(plan, None if output_dir is None else Path(output_dir), progress=progress)
        self._forget_files()
        return done

    def save(
        self, output_dir: str | Path | None = None, *, check: bool = True, progress: CopyProgress | None = None
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
        from irtools.ir.save import FileChange, save_export, save_files
        from irtools.runtime.check import checker

        changes = [
            FileChange(patch.path, patch.data, patch.original, checker(patch) if check else None, patch.weights)
            for patch in self.pending
        ]
        relied = {path: data for path, data in self._relied.items() if path not in self._patches}
        if output_dir is not None:
            return save_export(self.directory, changes, Path(output_dir), read=relied, progress=progress)
        return save_files(changes, written=lambda change: self._forget(change.path), read=relied)

    def prove(
        self,
        settings: ProveSettings | None = None,
        progress: Callable[[str], None] | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> Proof:
        """Run the export: taps, state, MTP head, speculative decoding.

        Parameters
        ----------
        settings : ProveSettings, optional
            The options of the command.
        progress : callable, optional
            Called with a sentence at the start of each piece of work.
        on_step : callable, optional
            Called with each step as soon as it has ended.

        Returns
        -------
        Proof
            Steps with their checks, and the record, valid against ``irtools/prove/proof.schema.json``.

        Raises
        ------
        EditError
            There are pending changes. The files are run as they are on disk.
        ExportError
            The target, or the draft in the settings, does not exist.
        InvalidIRError
            The target cannot be read.
        UsageError
            A setting is invalid for the export; or openvino-genai is not installed, and no other step than
            ``runtime`` is selected or a setting needs it.
        """
        from irtools.prove.run import prove

        require_local(self.directory, "a proof")
        self._require_saved()
        return prove(self, settings, progress, on_step)

    def bench(self, settings: BenchSettings | None = None, watcher: Watcher | None = None) -> Benchmark:
        """Measure how fast the export generates, plainly and with drafts, and whether to draft.

        Parameters
        ----------
        settings : BenchSettings, optional
            The options of the command.
        watcher : Watcher, optional
            Functions that are called before each row of each repetition, and when a row is done.

        Returns
        -------
        Benchmark
            Rows, and the record, valid against ``irtools/bench/bench.schema.json``. A row that was refused, crashed or
            hung is a row, not an error. After an interrupt by the user it contains what was measured.

        Raises
        ------
        EditError
            There are pending changes. The files are run as they are on disk.
        ExportError
            The target, a draft or another export in the settings does not exist.
        UsageError
            openvino-genai is not installed, the prompts cannot be read or tokenized, or a setting is invalid for the
            export.
        """
        from irtools.bench.run import bench

        require_local(self.directory, "a benchmark")
        self._require_saved()
        return bench(self, settings, watcher)

    def serve_config(
        self, output_dir: str | Path, settings: ServeSettings | None = None, *, draft: str | Path | None = None
    ) -> ServeConfig:
        """Work out the files that serve the export as it was verified; nothing is written.

        Parameters
        ----------
        output_dir : path-like
            Directory that the files are for: paths in them start there. It need not exist.
        settings : ServeSettings, optional
            The options of the command.
        draft : path-like, optional
            Directory of a draft.

        Returns
        -------
        ServeConfig
            The files by name, the release that they need, and what each request needs.

        Raises
        ------
        EditError
            There are pending changes. The files are served as they are on disk.
        ExportError
            The decoding strategy is not available, or the server cannot use it.
        RemoteError
            The export is at a URL.
        UsageError
            The strategy needs a draft, a setting does not fit it, or protobuf is not installed.

        Examples
        --------
        >>> import irtools
        >>> config = irtools.open_export("fixtures/qwen3_5_vl_trained").serve_config("served")
        >>> config.strategy.name, config.release, list(config.files)
        ('mtp', '2026.4', ['graph.pbtxt', 'ovms_config.json'])
        """
        from irtools.report.serve_config import ServeSettings, serve_config

        self._require_saved()
        for directory in (self.directory, *([Path(draft)] if draft is not None else [])):
            require_local(directory, "a server configuration")
        chosen = settings or ServeSettings()
        found = self.verify(draft=draft, target_runtime=chosen.release or None)
        opened = ModelDirectory.open(draft) if draft is not None else None
        return serve_config(self, opened, found, Path(output_dir), chosen)

    def advise(
        self,
        corpus: Sequence[str | Path] = (),
        *,
        generate: int = 0,
        acceptance: float = 0.8,
        bench: str | Path | Mapping[str, Any] | None = None,
        calibrate: bool = False,
        device: str = "CPU",
        progress: Callable[[str], None] | None = None,
    ) -> Advice:
        """Advise on the size of the draft head that :meth:`graft` adds; nothing is written.

        Parameters
        ----------
        corpus : sequence of path-like
            Text files in UTF-8 as the model will write them; their tokens are counted with the export's tokenizer.
            Default: short texts that irtools ships, of code, prose and chat.
        generate : int
            Number of tokens that the target writes from shipped prompts, to be counted instead of a corpus.
        acceptance : float
            Probability that the target accepts a drafted token if it accepted all before it, with the whole
            vocabulary.
        bench : path-like or mapping, optional
            Record of :meth:`bench` for this export, as the source of times.
        calibrate : bool
            Time plain decoding and drafting with two sizes of the draft head in OpenVINO GenAI, as the source of times.
        device : str
            OpenVINO device for ``generate`` and ``calibrate``.
        progress : callable, optional
            Called with a sentence at the start of each piece of work.

        Returns
        -------
        Advice
            Rows by size with coverage, bytes and expected tokens per pass; with times also speeds, and ``best``.

        Raises
        ------
        EditError
            There are pending changes, no MTP head, or an lm_head whose rows cannot be chosen.
        LocateRefusedError
            There are no logits that one MatMul with constant weights computes.
        UsageError
            openvino-genai is not installed or cannot tokenize or run the export, an argument is out of range, or the
            record is about other files.
        """
        from irtools.advise.advice import advise

        require_local(self.directory, "advice on draft heads")
        self._require_saved()
        return advise(
            self,
            corpus,
            generate=generate,
            acceptance=acceptance,
            record=bench,
            calibrate=calibrate,
            device=device,
            progress=progress,
        )

    def _require_saved(self) -> None:
        """Refuse to run files that pending changes will replace."""
        for patch in self.pending:
            raise EditError("there are pending changes; save them first", path=patch.path)

    def _forget(self, path: Path) -> None:
        """Drop a saved change."""
        del self._patches[path]
        self._relied.pop(path, None)
        if not self._patches:
            self._relied.clear()
        self._forget_files()

    def _forget_files(self) -> None:
        """Drop what is cached, so the files are read again."""
        for name in ("parts", "target", "config", "generation_config"):
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


def diff(
    a: str | Path | ModelDirectory,
    b: str | Path | ModelDirectory,
    *,
    part: str | None = None,
    ignore: Collection[str] = (),
) -> Comparison:
    """Compare two exports, or two IRs.

    Ops are paired by structure, layer by layer, so that other names, ids and orders in the file are no structural
    differences.

    Parameters
    ----------
    a, b : path-like or Export
        Model directories, or ``.xml`` files.
    part : str, optional
        Only this part.
    ignore : collection of str
        Categories of differences to ignore: ``parts``, ``ports``, ``states``, ``structure``, ``shapes``, ``weights``
        (with ``values``), ``values``, ``annotation``, ``rt_info``, ``versions``, ``names``, ``config``, ``files``.

    Returns
    -------
    Comparison
        The properties ``equal``, ``counts`` and ``exit_code`` summarise it. An unreadable part has an ``error``; the
        other parts are compared.

    Raises
    ------
    UsageError
        An unknown category.
    ExportError
        A file, directory or part does not exist.

    Examples
    --------
    >>> import irtools
    >>> irtools.diff("fixtures/falcon", "fixtures/falcon").equal
    True
    """
    from irtools.compare.engine import compare

    return compare(a, b, ignore=ignore, part=part)
