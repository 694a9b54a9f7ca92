"""Check an edited file with OpenVINO, and an annotated target as OpenVINO GenAI loads it.

The rehearsal runs in its own process, because OpenVINO may print and a damaged file may crash it. The process
can be started early: it then loads OpenVINO and reads the old file while the decoder stack is being located.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.errors import CheckError, os_reason
from irtools.remote import is_remote
from irtools.runtime.child import Child
from irtools.surgery.patch import Expected
from irtools.timing import step

if TYPE_CHECKING:
    from irtools.ir.save import FileCheck
    from irtools.surgery.extraction.piece import Plan
    from irtools.surgery.patch import Patch

__all__ = ["Remark", "check_file", "check_piece", "checker", "warm_up"]

_UNCHECKED = ", or give --no-check to write without a check"
_TIMEOUT = 900.0
"""Seconds without an answer. A model of 265,000 ops takes 7."""

# Compiling a larger piece would take the memory and the time that extracting saves.
_COMPILED_WEIGHTS = 64 << 20
_COMPILED_XML = 4 << 20

_waiting: list[Child] = []


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark of the rehearsal.

    Attributes
    ----------
    problem : bool
        True if the runtime would refuse the file, False for a note.
    message : str
        Without a full stop.
    """

    problem: bool
    message: str


def warm_up(path: Path | None = None) -> None:
    """Start the process of the next :func:`check_file`, and return at once.

    It reads the ``.xml`` with its weights ahead. Without a path it only loads OpenVINO; a second call can give one.
    """
    if not _waiting:
        _waiting.append(_start(path))
        atexit.register(_stop)
    elif path is not None and not is_remote(path):
        _waiting[0].tell({"ahead": _files(path)})


def _stop() -> None:
    while _waiting:
        _waiting.pop().close()


def _start(original: Path | None) -> Child:
    if not sys.executable:
        raise CheckError("the new file cannot be checked without a Python executable; give --no-check")
    child = Child("irtools.runtime.rehearsal")
    child.tell({"ahead": _files(original)})
    return child


def _files(path: Path | None) -> list[str] | None:
    """Files of an IR to read ahead; None if one is missing, or is a pipe, which OpenVINO would wait for."""
    if path is None:
        return None
    files = [os.fspath(file.absolute()) for file in (path, path.with_suffix(".bin"))]
    return files if all(map(os.path.isfile, files)) else None


def check_file(
    xml_path: Path,
    bin_path: Path,
    annotation: str | None = None,
    *,
    original: Path | None = None,
    expected: Expected | None = None,
    compiling: bool = False,
) -> tuple[Remark, ...]:
    """Read a file with OpenVINO, and rehearse how the runtime loads an annotated target.

    Parameters
    ----------
    xml_path, bin_path : Path
        The IR. ``xml_path`` may have any suffix.
    annotation : str, optional
        The annotation that the file should contain. Without it, the file is only read.
    original : Path, optional
        The file that will be replaced, if it has the same graph; see :func:`warm_up`.
    expected : Expected, optional
        The graph that OpenVINO should read.
    compiling : bool
        Also compile the model for the CPU. A failure is a note, not a problem.

    Returns
    -------
    tuple of Remark
        Problems if the runtime would refuse the annotation, or if OpenVINO cannot read the files or reads
        another graph. Notes on what could not be rehearsed and on other requirements of the runtime.

    Raises
    ------
    CheckError
        The weights are missing, or the rehearsal could not run.
    """
    # Imported late: these take 0.1 s, and the process should start before.
    from irtools.ir.rt_info import ANNOTATION_KEY
    from irtools.ir.weights_file import require_weights
    from irtools.model.annotation import parse_annotation

    parsed = parse_annotation(annotation) if annotation is not None else None
    if parsed is not None and parsed.fault:
        return (Remark(True, f"the annotation is malformed: it {parsed.fault}"),)
    locators = parsed.locators if parsed is not None else {}
    require_weights(bin_path, 0, "the IR", otherwise=_UNCHECKED, error=CheckError)
    request = {
        "expected": expected and [expected.inputs, expected.outputs, list(expected.ops.values())],
        "compile": compiling,
        "original": _files(original),
        "xml": os.fspath(xml_path.absolute()),
        "bin": os.fspath(bin_path.absolute()),
        "key": ANNOTATION_KEY,
        "annotation": annotation,
        "layers": [[layer, locator.producer, locator.output_index] for layer, locator in locators.items()],
    }
    with step("Checking the new file with OpenVINO"), _waiting.pop() if _waiting else _start(original) as child:
        reply = child.ask(request, timeout=_TIMEOUT)
    if reply.ended:
        raise CheckError(f"the new file could not be checked: {reply.ended}; give --no-check to write without a check")
    remarks = tuple(Remark(*remark) for remark in reply.value)
    if any(remark.problem for remark in remarks):
        _require_length(xml_path, bin_path, expected)
    return remarks


def _require_length(xml_path: Path, bin_path: Path, expected: Expected | None) -> None:
    """Raise if the weights are too short: OpenVINO words this like other faults."""
    from irtools.ir.constants import iter_graphs, read_constants
    from irtools.ir.weights_file import require_weights
    from irtools.model.document import Document

    constants = read_constants(iter_graphs(Document(xml_path).scan))
    size = bin_path.stat().st_size
    for constant in constants:
        if expected and constant.id in expected.ops and not constant.in_body and constant.end > size:
            raise CheckError(
                f"the edited constant {constant.name!r} reads the bytes {constant.offset} to {constant.end} of the "
                f"weights, which have {size} bytes; give it an offset and a size within the file",
                path=bin_path,
            )
    needed = max((constant.end for constant in constants), default=0)
    require_weights(bin_path, needed, "the IR", otherwise=_UNCHECKED, error=CheckError)


def checker(patch: Patch) -> FileCheck | None:
    """The check of a patched file for :mod:`irtools.ir.save`; None if OpenVINO need not read the file.

    An annotation that the patch leaves as it was is not judged: only problems that the old file did not have
    count then. The check raises ``CheckError`` if there are problems.
    """
    expected = patch.expected if patch.expected is not None and patch.expected.graph else None
    if patch.new is None and expected is None:
        return None
    path, old = patch.path, patch.old
    weights = path.with_suffix(".bin")
    original = path if patch.expected is None else None

    def judge(temporary: Path, new_weights: Path | None = None) -> tuple[str, ...]:
        fetched = _fetched(path, weights)
        remarks = check_file(temporary, new_weights or weights, patch.new, original=original, expected=expected)
        if old is not None and old == patch.new and remarks:
            before = check_file(path, weights, old)
            remarks = tuple(remark for remark in remarks if remark not in before)
        problems = [remark.message for remark in remarks if remark.problem]
        if problems:
            raise CheckError(
                f"the runtime would refuse the new file: {'; '.join(problems)}; nothing was changed", path=path
            )
        partly = ("the check has read the small constants of the weights only; they were not downloaded",)
        return (*(remark.message for remark in remarks), *(partly if fetched else ()))

    return judge


def _fetched(path: Path, weights: Path) -> bool:
    """Get the small constants of an IR at a URL, on which shapes depend; False for one on the disk."""
    from irtools.ir.constants import iter_graphs, read_constants
    from irtools.ir.pread import fetch_small
    from irtools.model.document import Document

    if not is_remote(weights):
        return False
    try:
        return fetch_small(weights, read_constants(iter_graphs(Document(path).scan)))
    except OSError as error:
        raise CheckError(f"the new file could not be checked: {os_reason(error)}{_UNCHECKED}", path=weights) from error


def check_piece(plan: Plan, output_dir: Path, files: Sequence[Path]) -> tuple[str, ...]:
    """Check the files of a piece before they are in place.

    A piece that does not compile gets a note: it may reproduce the fault under investigation.

    ``files`` are the weights and the XML under their temporary names; ``output_dir`` is for the message.

    Raises
    ------
    CheckError
        OpenVINO cannot read the piece.
    """
    expected = Expected(len(plan.inputs), tuple((port.name,) for port in plan.outputs), {}, graph=True)
    small = plan.weights_bytes <= _COMPILED_WEIGHTS and plan.xml_bytes <= _COMPILED_XML
    weights, xml = files
    remarks = check_file(xml, weights, expected=expected, compiling=small)
    problems = [remark.message for remark in remarks if remark.problem]
    if problems:
        raise CheckError(
            f"{'; '.join(problems)}; nothing was written, use --no-check to write it anyway", path=output_dir
        )
    advice = "; cut elsewhere" + (", or give --stateless" if plan.states else "") + ", unless this is intended"
    return tuple(f"{remark.message}{advice}" for remark in remarks)
