"""IR001 to IR005: files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.errors import MalformedValueError, UnsupportedEncodingError
from irtools.ir.reading import is_lfs_pointer

_VERSIONS = ("10", "11")


def _claims_to_be_ir(path: Path) -> bool:
    """True if a file has the name of a part; other XML files in the directory are not checked."""
    return path.name.startswith("openvino_") and path.suffix == ".xml"


@rule("IR001", "unreadable-xml", Severity.ERROR, "The XML of a part cannot be read", unreadable=True)
def unreadable_xml(context: Context) -> Iterator[Finding]:
    """The XML of a part cannot be read.

    What it checks
    --------------
    That every ``openvino_*.xml`` can be opened and is well-formed XML with the root ``<net>``, without
    a document type declaration and without characters that XML forbids.

    Why it matters
    --------------
    OpenVINO rejects a truncated or damaged file at load time. OpenVINO's lenient parser accepts some
    malformed files (control characters, text after ``</net>``, a raw ``<`` in an attribute), but no
    other tool can read them, and nothing else in them can be verified.

    How to fix it
    -------------
    Export again, or restore the file. ``openvino.save_model`` leaves an empty ``.xml`` and an empty
    ``.bin`` if it is given the path that the model was read from; save to another path.

    Source
    ------
    Reproduced with ``openvino.Core().read_model`` of OpenVINO 2026.4.1.
    """
    for document, error in context.broken:
        path = document.path
        # IR002, IR004 and IR010 report these.
        if isinstance(error, UnsupportedEncodingError | MalformedValueError) or is_lfs_pointer(path):
            continue
        if not (_claims_to_be_ir(path) or document in context.export.target_candidates):
            continue
        message = str(error.args[0])
        yield Finding(message, error.hint or "", file=path, line=getattr(error, "line", None))


@rule("IR002", "lfs-pointer", Severity.ERROR, "A file is a Git-LFS pointer instead of its content")
def lfs_pointer(context: Context) -> Iterator[Finding]:
    """A file is a Git-LFS pointer instead of its content.

    What it checks
    --------------
    That no ``.xml`` or ``.bin`` of the directory starts like a Git-LFS pointer file.

    Why it matters
    --------------
    A clone without Git-LFS leaves 130 bytes of text in place of every large file. The runtime then
    fails to read the weights or the XML, with a message that does not mention Git-LFS.

    How to fix it
    -------------
    Run ``git lfs install`` and ``git lfs pull`` in the clone, or download the files with the Hugging
    Face client.

    Source
    ------
    The Git-LFS pointer specification, ``https://git-lfs.github.com/spec/v1``.
    """
    directories = {context.export.directory, *({context.draft.directory} if context.draft else ())}
    files = (path for directory in directories for path in directory.glob("*.*") if path.suffix in (".xml", ".bin"))
    for path in sorted(files):
        if is_lfs_pointer(path):
            message = "the file is a Git-LFS pointer instead of its content"
            yield Finding(message, "Run `git lfs pull` to get the content.", path, 1)


@rule("IR003", "unsupported-net-version", Severity.ERROR, "OpenVINO does not read this IR version")
def unsupported_net_version(context: Context) -> Iterator[Finding]:
    """OpenVINO does not read this IR version.

    What it checks
    --------------
    That the ``version`` of ``<net>`` is 10 or 11.

    Why it matters
    --------------
    OpenVINO has no reader for any other version and rejects the file ("Unable to read the model").

    How to fix it
    -------------
    Export the model again with a current exporter.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: 10 and 11 are read; 9, 12 and a missing version are rejected.
    """
    for document in context.all_documents:
        version = document.scan.net.get("version")
        if version not in _VERSIONS and _claims_to_be_ir(document.path):
            state = f"is {version!r}" if version is not None else "is missing"
            message = f"the version of <net> {state}, but OpenVINO reads only {' and '.join(_VERSIONS)}"
            yield finding_at(document, None, message, "Export the model again.")


@rule("IR004", "unsupported-encoding", Severity.ERROR, "The XML is not UTF-8")
def unsupported_encoding(context: Context) -> Iterator[Finding]:
    """The XML is not UTF-8.

    What it checks
    --------------
    That the file is UTF-8, with or without a byte order mark, and declares no other encoding.

    Why it matters
    --------------
    OpenVINO reads UTF-16, UTF-32 and Latin-1, but irtools does not edit such a file. It can neither
    verify nor annotate it.

    How to fix it
    -------------
    Read the model with OpenVINO and save it to another path, or convert the file to UTF-8.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    for document, error in context.broken:
        if isinstance(error, UnsupportedEncodingError):
            hint = "Read the model with openvino and save it to another path to get UTF-8."
            yield Finding(str(error.args[0]), hint, file=document.path, line=error.line)


@rule("IR005", "empty-model", Severity.ERROR, "A part has no layers or computes nothing")
def empty_model(context: Context) -> Iterator[Finding]:
    """A part has no layers or computes nothing.

    What it checks
    --------------
    That an IR has at least one ``<layer>``, and at least one Result or Assign.

    Why it matters
    --------------
    OpenVINO drops every op that no Result or Assign depends on. It reads and compiles such a file
    without an error message, as a model without outputs.

    How to fix it
    -------------
    Export the model again.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: a file without ``<layers>`` is read as a model without ops.
    """
    for document in context.all_documents:
        types = document.scan.types
        if _claims_to_be_ir(document.path) and not {"Result", "Assign"} & set(types):
            fault = "has no Result and no Assign, so it computes nothing" if types else "has no layers"
            yield Finding(f"the model {fault}", "Export the model again.", file=document.path, line=1)
