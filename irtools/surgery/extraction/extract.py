"""Extraction of a piece of an IR as a separate model with only the weights that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from irtools.decoder.stack import DecoderStack
from irtools.errors import CheckError, LocateRefusedError, OptionError, about
from irtools.ir.constants import byte_size, iter_graphs, read_constants
from irtools.ir.create import create_files
from irtools.ir.integrity import find_faults
from irtools.ir.scan import scan_ir
from irtools.ir.weights_file import require_weights
from irtools.model.document import Document
from irtools.remote import require_local
from irtools.surgery.extraction.carve import carve
from irtools.surgery.extraction.piece import Piece, Plan
from irtools.surgery.extraction.region import find_region
from irtools.surgery.extraction.request import between_ops, of_layers, parse_layers, residual_stream
from irtools.surgery.extraction.stages import Stage, parse_stages, stage_name
from irtools.surgery.extraction.stages import plan_stages as staged

__all__ = ["MANIFEST", "PieceCheck", "plan_piece", "plan_stages", "require_choice", "save_piece", "save_stages"]

MANIFEST = "stages.json"
"""File that says which output of a stage feeds which input."""
_STEM = "openvino_model"

PieceCheck = Callable[[Plan, Path, Sequence[Path]], tuple[str, ...]]


def plan_piece(
    document: Document,
    locate: Callable[[], DecoderStack],
    *,
    layers: str | None = None,
    from_: Sequence[str] = (),
    to: Sequence[str] = (),
    stateless: bool = False,
) -> Plan:
    """Work out a piece; write nothing.

    Parameters
    ----------
    locate : callable
        Locates the decoder stack; called only if ``layers`` is given, or a shape is needed.
    layers, from_, to, stateless
        As for :meth:`irtools.export.Export.extract`, with the same errors.
    """
    require_choice(layers, from_, to)
    view = document.graph
    if layers is not None:
        stack = _located(locate)
        with about(document.path):
            first, last = parse_layers(layers, len(stack.layers))
            request = of_layers(view, stack, first, last, stateless=stateless, to=to)
    else:
        with about(document.path):
            request = between_ops(view, from_, to, stateless=stateless)
    region = find_region(view, request)
    if layers is None and any(cut.kind == "shape" for cut in region.cuts):
        # All values of the residual stream have one shape, so that of an earlier one can be read from another one.
        with suppress(LocateRefusedError):
            region = find_region(view, residual_stream(view, locate(), request))
    return carve(view, region)


def plan_stages(
    document: Document, locate: Callable[[], DecoderStack], stages: str, *, stateless: bool = False
) -> list[Stage]:
    """Work out consecutive pieces of the decoder stack; write nothing.

    Parameters
    ----------
    stages : str
        Layers of each stage: ``0-11,12-23,24-``.

    Raises
    ------
    EditError, UsageError
        The stages are not consecutive layers from the first to the last.
    LocateRefusedError
        The part has no decoder stack.
    """
    stack = _located(locate)
    with about(document.path):
        return staged(document.graph, stack, parse_stages(stages, len(stack.layers)), stateless=stateless)


def _located(locate: Callable[[], DecoderStack]) -> DecoderStack:
    try:
        return locate()
    except LocateRefusedError as error:
        error.hint = "--from OP and --to OP work without a decoder stack."
        raise


def require_choice(layers: str | None, from_: Sequence[str], to: Sequence[str], stages: str | None = None) -> None:
    """Raise an OptionError for options that select nothing, or exclude each other."""
    if stages is not None:
        if layers is not None or from_ or to:
            raise OptionError("--stages selects all layers; leave out --layers, --from and --to")
        return
    if layers is None and not (from_ or to):
        raise OptionError("nothing is selected; give --layers such as 3-5, --stages, or --from OP and --to OP")
    if layers is not None and from_:
        raise OptionError("--layers and --from cannot be used together; give one of them")
    if layers is None and not (from_ and to):
        present, missing, end = ("--from", "--to", "last") if from_ else ("--to", "--from", "first")
        raise OptionError(f"{present} needs {missing} too; give the {end} op of the piece")


def save_piece(
    document: Document,
    plan: Plan,
    output_dir: Path,
    *,
    check: PieceCheck | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Piece:
    """Write a piece as ``openvino_model.xml`` and ``.bin``.

    Parameters
    ----------
    output_dir : Path
        Empty or absent.
    check : callable, optional
        Reads the new files before they are in place: takes the plan, the output directory and the paths of
        weights and XML, returns notes, raises ``CheckError``.
    progress : callable, optional
        Called with the number of weight bytes written, and the total.

    Raises
    ------
    ExportError
        The weights are missing, too short or unreadable; nothing was written.
    CheckError
        OpenVINO cannot read the piece, or its ops are wired wrongly, which is found without OpenVINO too; nothing was
        written.
    SaveError
        The files could not be written; new files were removed.
    """
    files = _files(document, [("", plan)], progress)
    notes = create_files(
        output_dir, files, directory=document.path.parent, check=partial(check, plan, output_dir) if check else None
    )
    return _written(plan, output_dir, notes)


def save_stages(
    document: Document,
    stages: Sequence[Stage],
    output_dir: Path,
    *,
    manifest: bytes,
    check: PieceCheck | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Piece, ...]:
    """Write each stage as a piece in a directory of its own, and ``stages.json``, all or none.

    Parameters and errors are those of :func:`save_piece`. ``manifest`` is the content of ``stages.json``.
    """
    names = [stage_name(number) for number in range(len(stages))]
    plans = [stage.plan for stage in stages]
    notes: dict[str, tuple[str, ...]] = {}

    def check_all(files: Sequence[Path]) -> tuple[str, ...]:
        for at, (name, plan) in enumerate(zip(names, plans, strict=True)):
            if check is not None:
                notes[name] = check(plan, output_dir / name, files[2 * at : 2 * at + 2])
        return ()

    files = _files(document, [(f"{name}/", plan) for name, plan in zip(names, plans, strict=True)], progress)
    files[MANIFEST] = manifest
    create_files(output_dir, files, directory=document.path.parent, check=check_all if check else None)
    return tuple(
        _written(plan, output_dir / name, notes.get(name, ())) for name, plan in zip(names, plans, strict=True)
    )


def _files(
    document: Document, plans: Sequence[tuple[str, Plan]], progress: Callable[[int, int], None] | None
) -> dict[str, bytes | Iterable[bytes | memoryview]]:
    """Content of the files of pieces; each piece comes with the beginning of its paths."""
    needed = max(plan.ranges.needed for _, plan in plans)
    require_local(document.path, "cutting out a piece")
    if needed:
        require_weights(document.weights_path, needed, "the piece")
    files: dict[str, bytes | Iterable[bytes | memoryview]] = {}
    for folder, plan in plans:
        _require_sound(document, plan)
        files[f"{folder}{_STEM}.bin"] = plan.ranges.read(document.weights_path, progress)
        files[f"{folder}{_STEM}.xml"] = plan.data
    return files


def _written(plan: Plan, directory: Path, notes: tuple[str, ...]) -> Piece:
    return Piece(
        path=directory / f"{_STEM}.xml",
        weights_path=directory / f"{_STEM}.bin",
        xml_bytes=plan.xml_bytes,
        weights_bytes=plan.weights_bytes,
        inputs=plan.inputs,
        outputs=plan.outputs,
        states=plan.states,
        ops=plan.ops,
        constants=plan.constants,
        notes=(*plan.notes, *notes),
    )


def _require_sound(document: Document, plan: Plan) -> None:
    """Refuse a piece with a fault that it took over from the graph; ``--no-check`` leaves out only OpenVINO."""
    with about(document.path):
        graphs = list(iter_graphs(scan_ir(plan.data)))
        for fault in find_faults(graphs)[:1]:
            raise CheckError(f"the piece would be faulty: {fault.message}; `irtools verify` shows all faults")
        for constant in read_constants(graphs):
            size = byte_size(constant.element_type, constant.elements)
            if size is not None and size > constant.size:
                raise CheckError(
                    f"the piece would be faulty: the constant {constant.name!r} has {constant.size:,} bytes, but its "
                    f"shape needs {size:,}; export the model again"
                )
