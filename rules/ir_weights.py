"""IR006 to IR009: constants against the size of the ``.bin``."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.constants import ELEMENT_BITS, Constant, byte_size
from irtools.ir.reading import is_lfs_pointer
from irtools.ir.weights_file import FOOTER_SIZE, added_rows
from irtools.model.document import Document
from irtools.text import shape_text


def _weights_size(document: Document) -> int | None:
    """Bytes of the ``.bin``; None if it is missing (IR006) or a Git-LFS pointer (IR002)."""
    path = document.weights_path
    return None if not path.is_file() or is_lfs_pointer(path) else path.stat().st_size


@rule("IR006", "missing-weights", Severity.ERROR, "The .bin of a part is missing")
def missing_weights(context: Context) -> Iterator[Finding]:
    """The .bin of a part is missing.

    What it checks
    --------------
    That every ``.xml`` with constants has a ``.bin`` of the same name beside it, and that a symbolic
    link in its place is not broken.

    Why it matters
    --------------
    OpenVINO rejects the model ("Empty weights data in bin file or bin file cannot be found!").

    How to fix it
    -------------
    Restore the file from the source of the ``.xml``. The two belong together: restore both.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    for document in context.all_documents:
        path = document.weights_path
        needed = max((constant.end for constant in context.constants(document)), default=0)
        if needed and not path.is_file():
            note = " (broken symbolic link)" if path.is_symlink() else ""
            message = f"the weights of {document.path.name} are missing{note}; they should have {needed:,} bytes"
            yield Finding(message, "Restore the file from the source of the .xml.", path)


@rule("IR007", "short-weights", Severity.ERROR, "The .bin is shorter than the constants need")
def short_weights(context: Context) -> Iterator[Finding]:
    """The .bin is shorter than the constants need.

    What it checks
    --------------
    That offset and size of every constant lie within the ``.bin``, including the constants in the
    bodies of Loop and If.

    Why it matters
    --------------
    OpenVINO rejects the model ("Incorrect weights in bin file!") without naming the constant. The usual
    causes are an interrupted download and the ``.bin`` of another model.

    How to fix it
    -------------
    Restore the ``.bin``. If all other constants fit exactly, the finding points to the constant in the
    ``.xml`` instead, because its offset or size is wrong.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    for document in context.all_documents:
        size = _weights_size(document)
        beyond = [c for c in context.constants(document) if size is not None and c.end > size]
        if size is None or not beyond:
            continue
        first = min(beyond, key=lambda constant: (constant.offset, constant.end))
        needed = max(constant.end for constant in beyond)
        others = max((c.end for c in context.constants(document) if c.end <= size), default=0)
        extent = f"bytes {first.offset:,} to {first.end:,}"
        if size and others == size:
            message = f"the constant {first.name!r} needs {extent}, but {document.weights_path.name} has {size:,}, "
            message += f"which is exactly the size of the other constants; it should have {needed:,}"
            yield finding_at(document, first, message, "Correct the offset, or restore both files.")
        else:
            message = f"the file has {size:,} bytes but should have {needed:,}; the first constant past its end is "
            message += f"{first.name!r} with {extent} ({document.path.name}:{document.line(first.span)})"
            hint = "Restore the file; it is incomplete or belongs to another model."
            yield Finding(message, hint, document.weights_path, op=first.name)


@rule("IR008", "long-weights", Severity.WARNING, "The .bin is longer than the constants need")
def long_weights(context: Context) -> Iterator[Finding]:
    """The .bin is longer than the constants need.

    What it checks
    --------------
    That the ``.bin`` ends with its last constant, as OpenVINO writes it. After the rows that ``irtools graft
    --own-head`` adds, it also has their footer.

    Why it matters
    --------------
    OpenVINO silently accepts a longer file. It is a sign that the ``.bin`` belongs to another model, with which
    the model may load and generate garbage.

    How to fix it
    -------------
    Restore ``.xml`` and ``.bin`` from the same export.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: read without an error message.
    """
    for document in context.all_documents:
        size = _weights_size(document)
        needed = max((constant.end for constant in context.constants(document)), default=0)
        if size is not None and size > needed and document.scan.ids:  # IR005 reports a file without layers
            if size - needed == FOOTER_SIZE and _has_footer(document, needed):
                continue
            message = f"the file has {size:,} bytes, but the constants of {document.path.name} end at {needed:,}"
            yield Finding(message, "Check that both files come from the same export.", document.weights_path)


def _has_footer(document: Document, end: int) -> bool:
    """True if the footer of added rows follows the constants, or if the server does not send these bytes."""
    try:
        added = added_rows(document.weights_path)
    except OSError:
        return True
    return added is not None and added.stop == end


@rule("IR009", "constant-size", Severity.ERROR, "The size of a constant contradicts its shape and element type")
def constant_size(context: Context) -> Iterator[Finding]:
    """The size of a constant contradicts its shape and element type.

    What it checks
    --------------
    That ``size`` is the number of bytes of the shape in the element type. Types of less than eight bits
    are packed and rounded up. Strings are not checked, because their size depends on the content.

    Why it matters
    --------------
    A smaller size is rejected ("Attribute and shape size are inconsistent for Const op!"). A larger
    size is a warning: OpenVINO silently accepts it and uses only the beginning. OpenVINO writes a
    constant without elements with one byte, which is not reported.

    How to fix it
    -------------
    Export the model again. Only an edit of the file can cause this.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1; packed sizes compared with ``openvino.Tensor(...).byte_size``.
    """
    for document in context.all_documents:
        for constant in context.constants(document):
            if constant.faults or constant.element_type not in ELEMENT_BITS:
                continue  # a string, or malformed (IR010)
            expected = byte_size(constant.element_type, constant.elements)
            if expected == 0 and constant.size == 1:
                continue  # OpenVINO writes one byte for an empty constant
            if expected is not None and constant.size != expected:
                yield _wrong_size(document, constant, expected)


def _wrong_size(document: Document, constant: Constant, expected: int) -> Finding:
    form = f"{constant.element_type}{shape_text(constant.shape)}"
    message = f"the constant {constant.name!r} has size {constant.size:,}, but {form} takes {expected:,} bytes"
    severity = Severity.ERROR if constant.size < expected else Severity.WARNING
    return finding_at(document, constant, message, "Export the model again.", severity)
