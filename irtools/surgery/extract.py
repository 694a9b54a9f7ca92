"""Cut a piece out of an IR: a model of its own with just the weights that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from irtools.decoder.stack import DecoderStack
from irtools.errors import CheckError, LocateRefusedError, OptionError, about
from irtools.ir.create import create_files
from irtools.ir.document import Document
from irtools.ir.weights_file import require_weights
from irtools.surgery.carve import carve
from irtools.surgery.patch import Expected
from irtools.surgery.piece import Piece, Plan
from irtools.surgery.region import find_region
from irtools.surgery.wanted import between_ops, of_layers, parse_layers

__all__ = ["plan_piece", "require_choice", "save_piece"]

_STEM = "openvino_model"
# Compiling larger ones would take the memory and the time that extracting saves.
_COMPILED_WEIGHTS = 64 << 20
_COMPILED_XML = 4 << 20


def plan_piece(
    document: Document,
    locate: Callable[[], DecoderStack],
    *,
    layers: str | None = None,
    from_: Sequence[str] = (),
    to: Sequence[str] = (),
    stateless: bool = False,
) -> Plan:
    """Work out a piece; nothing is written.

    Parameters
    ----------
    document : Document
    locate : callable
        Locates its decoder stack; called for ``layers`` only.
    layers, from_, to, stateless
        What to cut out, as :meth:`irtools.ir.export.Export.extract` takes it, which says what is refused too.
    """
    require_choice(layers, from_, to)
    view = document.graph
    if layers is not None:
        try:
            stack = locate()
        except LocateRefusedError as error:
            error.hint = "--from OP and --to OP need no decoder stack."
            raise
        with about(document.path):
            first, last = parse_layers(layers, len(stack.layers))
        request = of_layers(view, stack, first, last, stateless=stateless)
    else:
        with about(document.path):
            request = between_ops(view, from_, to, stateless=stateless)
    return carve(view, find_region(view, request))


def require_choice(layers: str | None, from_: Sequence[str], to: Sequence[str]) -> None:
    """Refuse options that ask for nothing, or for two things at once.

    Raises
    ------
    OptionError
    """
    if layers is None and not (from_ or to):
        raise OptionError("say what to extract: --layers 3-5, or --from OP and --to OP")
    if layers is not None and (from_ or to):
        raise OptionError("--layers and --from/--to exclude each other; give one")
    if layers is None and not (from_ and to):
        given, missing = ("--from", "--to") if from_ else ("--to", "--from")
        raise OptionError(f"{given} needs {missing}: the op that the piece {'ends' if from_ else 'begins'} with")


def save_piece(
    document: Document,
    plan: Plan,
    output_dir: Path,
    *,
    check: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Piece:
    """Write a piece as ``openvino_model.xml`` and ``.bin``.

    Parameters
    ----------
    document : Document
        What it was worked out from.
    plan : Plan
    output_dir : Path
        Empty or absent.
    check : bool
        Let OpenVINO read it before it is there.
    progress : callable, optional
        Called with the bytes of weights that are done, and all.

    Raises
    ------
    ExportError
        The weights are missing, too short or unreadable; nothing was written.
    CheckError
        OpenVINO cannot read the piece; nothing was written.
    SaveError
        It could not be written; what had been created was removed.
    """
    if plan.ranges.needed:
        require_weights(document.weights_path, plan.ranges.needed, "the piece")
    notes = create_files(
        output_dir,
        {f"{_STEM}.bin": plan.ranges.read(document.weights_path, progress), f"{_STEM}.xml": plan.data},
        directory=document.path.parent,
        check=_judge(plan, output_dir) if check else None,
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


def _judge(plan: Plan, output_dir: Path) -> Callable[[Sequence[Path]], tuple[str, ...]]:
    """A check for :func:`create_files`; that a piece does not compile is noted, for that can be what it is to show."""
    expected = Expected(len(plan.inputs), tuple((port.name,) for port in plan.outputs), {})
    small = plan.weights_bytes <= _COMPILED_WEIGHTS and plan.xml_bytes <= _COMPILED_XML

    def judge(files: Sequence[Path]) -> tuple[str, ...]:
        from irtools.runtime.check import check_file as read

        weights, xml = files
        remarks = read(xml, weights, expected=expected, compiling=small)
        problems = [remark.message for remark in remarks if remark.problem]
        if problems:
            what = "; ".join(problems)
            raise CheckError(f"{what}; nothing was written, --no-check writes it all the same", path=output_dir)
        advice = "; unless that is what it is to show, cut elsewhere"
        advice += ", or give --stateless" if plan.states else ""
        return tuple(f"{remark.message}{advice}" for remark in remarks)

    return judge
