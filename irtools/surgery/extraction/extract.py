"""Extraction of a piece of an IR as a separate model with only the weights that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from irtools.surgery.extraction.carve import carve
from irtools.surgery.extraction.piece import Piece, Plan
from irtools.surgery.extraction.region import find_region
from irtools.surgery.extraction.request import between_ops, of_layers, parse_layers

__all__ = ["PieceCheck", "plan_piece", "require_choice", "save_piece"]

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
        Locates the decoder stack; called only if ``layers`` is given.
    layers, from_, to, stateless
        As for :meth:`irtools.export.Export.extract`, with the same errors.
    """
    require_choice(layers, from_, to)
    view = document.graph
    if layers is not None:
        try:
            stack = locate()
        except LocateRefusedError as error:
            error.hint = "--from OP and --to OP work without a decoder stack."
            raise
        with about(document.path):
            first, last = parse_layers(layers, len(stack.layers))
        request = of_layers(view, stack, first, last, stateless=stateless)
    else:
        with about(document.path):
            request = between_ops(view, from_, to, stateless=stateless)
    return carve(view, find_region(view, request))


def require_choice(layers: str | None, from_: Sequence[str], to: Sequence[str]) -> None:
    """Raise an OptionError for options that select nothing, or exclude each other."""
    if layers is None and not (from_ or to):
        raise OptionError("nothing is selected; give --layers such as 3-5, or --from OP and --to OP")
    if layers is not None and (from_ or to):
        raise OptionError("--layers and --from/--to exclude each other; give only one of them")
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
    if plan.ranges.needed:
        require_weights(document.weights_path, plan.ranges.needed, "the piece")
    _require_sound(document, plan)
    notes = create_files(
        output_dir,
        {f"{_STEM}.bin": plan.ranges.read(document.weights_path, progress), f"{_STEM}.xml": plan.data},
        directory=document.path.parent,
        check=partial(check, plan, output_dir) if check else None,
    )
    return Piece(
        path=output_dir / f"{_STEM}.xml",
        weights_path=output_dir / f"{_STEM}.bin",
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
