"""One row of an atlas: the facts of ``inspect``, ``verify`` and the records beside an export, from one reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from irtools.errors import IrtoolsError, OptionError, UsageError, about, os_reason, transferring
from irtools.lint.context import DEFAULT_RUNTIME, Context
from irtools.lint.engine import ModelVerification, Verification, VerifyOptions, context_for, verify
from irtools.lint.finding import Finding, Severity
from irtools.lint.mtp import is_head
from irtools.model.compression import Matrix
from irtools.model.config import declared_mtp
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.draft import draft
from irtools.model.footprint import footprint
from irtools.model.graft import draft_head_text
from irtools.model.provenance import versions
from irtools.remote import as_path
from irtools.render.part import DrawnHead
from irtools.report.atlas_records import measurements
from irtools.report.atlas_row import AtlasFinding, AtlasHead, AtlasMemory, AtlasPart, AtlasRow
from irtools.report.findings import shown_path, worst_first
from irtools.report.inspection import InspectedPart
from irtools.surgery.annotate import annotation_status
from irtools.text import shortened

__all__ = ["AtlasRow", "atlas_row", "failed_row", "remeasured", "verified_row"]

T = TypeVar("T")

_SHOWN = 10
"""Findings of one rule that a row lists."""
_MOST = 200
"""Findings that a row lists."""
_DEFAULT_KV = ("u8", "u8")


def atlas_row(path: str | Path, *, target_runtime: str | None = None, context: int | None = None) -> AtlasRow:
    """Look at one export; what is wrong with its files becomes part of the row.

    Parameters
    ----------
    path : path-like
        A directory with an IR, or one ``.xml`` file.
    target_runtime : str, optional
        OpenVINO GenAI release for the decoding strategies and the rules.
    context : int, optional
        Tokens in the state, for the memory; by default 4096, or what the model takes.

    Raises
    ------
    OptionError
        An option is invalid.
    """
    options = VerifyOptions(target_runtime=target_runtime or DEFAULT_RUNTIME)

    def look() -> AtlasRow:
        export = ModelDirectory.open(path)
        seen = context_for(export, options, shared=True)
        failures: list[UsageError] = []
        verification = verify(export, options, failures=failures, context=seen)
        error = str(failures[0].args[0]) if failures else None
        return _row(str(path), error, seen, verification, context)

    return _caught(path, look)


def verified_row(verified: ModelVerification, *, target_runtime: str | None = None) -> AtlasRow:
    """The row of an export that was verified already, for this runtime: with its findings, without running the rules.

    Without ``target_runtime`` the row names none.
    """
    verification = verified.verification
    if verification is None:
        return failed_row(verified.path, verified.error or "")

    def look() -> AtlasRow:
        seen = context_for(ModelDirectory.open(verified.path), VerifyOptions())
        error = verified.failures[0].message if verified.failures else None
        row = _row(str(verified.path), error, seen, verification, None)
        return replace(row, target_runtime=target_runtime or "")

    return _caught(verified.path, look)


def remeasured(row: AtlasRow) -> AtlasRow:
    """The row with the records that are there now."""
    if row.error is not None:
        return row
    try:
        measured, unmatched = measurements(ModelDirectory(row.path))
    except OSError:  # the export is gone
        return row
    return replace(row, measured=measured, unmatched=unmatched)


def failed_row(path: str | Path, error: str) -> AtlasRow:
    """The row of an export that could not be looked at."""
    return AtlasRow(str(path), shortened(error))


def _caught(path: str | Path, look: Callable[[], AtlasRow]) -> AtlasRow:
    path = as_path(path)
    try:
        with transferring(), about(path):
            return look()
    except OptionError:
        raise  # every export would raise the same error
    except IrtoolsError as error:
        return failed_row(path, str(error))
    except OSError as error:  # such as a directory that was deleted meanwhile
        return failed_row(path, f"{error.filename or path}: {os_reason(error)}")


def _row(path: str, error: str | None, context: Context, verification: Verification, tokens: int | None) -> AtlasRow:
    facts = _Facts(context, verification)
    export = context.export
    measured, unmatched = measurements(export)
    return AtlasRow(
        path,
        error,
        role=facts.role,
        family=facts.family,
        parts=tuple(map(facts.part, export.parts.values())),
        parameters=facts.parameters,
        layers=facts.layers,
        hidden_size=facts.hidden_size,
        refusal=facts.refusal,
        mtp=facts.mtp,
        annotation=facts.annotation[0],
        annotation_text=facts.annotation[1],
        precision=facts.precision(context.target),
        lm_head_precision=facts.precision(context.target, "last") if context.stack is not None else "",
        mtp_precision=facts.precision(context.mtp),
        target_runtime=context.target_runtime,
        strategies=tuple(replace(one, conditions=(), reason=shortened(one.reason)) for one in verification.strategies),
        pipelines=tuple(one.name for one in verification.pipelines if one.fits),
        memory=facts.memory(tokens),
        findings=tuple(_listed(verification)),
        counts=dict(sorted(Counter(finding.code for finding in verification.findings).items())),
        severities=dict(verification.counts),
        known=verification.in_baseline,
        graft=facts.graft,
        measured=measured,
        unmatched=unmatched,
        made_with=facts.made_with,
    )


def _size(path: Path) -> int | None:
    return _tried(lambda: path.stat().st_size, None)


def _tried(compute: Callable[[], T], otherwise: T) -> T:
    """A value; ``otherwise`` where a fault of the file, which a finding reports, leaves none."""
    try:
        return compute()
    except OptionError:
        raise
    except (IrtoolsError, OSError):
        return otherwise


def _listed(verification: Verification) -> Iterator[AtlasFinding]:
    """Findings, the worst first; of each rule and altogether only the first ones."""
    directory = verification.export.directory
    shown: Counter[str] = Counter()
    for finding in worst_first(verification.findings):
        shown[finding.code] += 1
        if shown[finding.code] <= _SHOWN and shown.total() <= _MOST:
            file = shown_path(finding.file, directory) if finding.file is not None else ""
            yield AtlasFinding(
                finding.code,
                finding.severity or Severity.ERROR,
                shortened(finding.message),
                shortened(finding.hint),
                "" if file == "." else file,
                finding.line,
                shortened(finding.op or ""),
                finding.part or "",
                finding.fix is not None,
            )


@dataclass
class _Facts:
    """Facts about an export beside its findings, from the documents that the rules have read."""

    context: Context
    verification: Verification

    @cached_property
    def _target(self) -> InspectedPart | None:
        context = self.context
        return InspectedPart(context.target, context.stack) if context.target is not None else None

    @cached_property
    def _mtp(self) -> InspectedPart | None:
        return InspectedPart(self.context.mtp) if self.context.mtp is not None else None

    @cached_property
    def role(self) -> str:
        """Role of the export among those of speculative decoding."""
        if self.context.target is None:
            return ""
        return _tried(self._role, "")

    def _role(self) -> str:
        assert self.context.target is not None
        kind = draft(self.context.facts(self.context.target)).kind
        if kind != "plain":
            return kind
        if is_head(self.context):
            return "mtp"
        return "target" if self.context.stack is not None else "other"

    @property
    def family(self) -> str:
        """Model type of config.json."""
        kind = self.context.config.get("model_type")
        return shortened(kind) if isinstance(kind, str) else ""

    def part(self, document: Document) -> AtlasPart:
        """A part with its sizes, or the reason why it cannot be read."""
        error = self.context.unreadable.get(document.part)
        sizes = _size(document.path), _size(document.weights_path)
        return AtlasPart(document.part, document.path.name, shortened(str(error)) if error else "", *sizes)

    @property
    def parameters(self) -> int | None:
        """Learned values of all readable parts without the tokenizers."""
        context = self.context
        models = [one for name, one in context.documents.items() if "tokenizer" not in name and context.readable(one)]
        return sum(map(self._parameters, models)) if models else None

    def _parameters(self, document: Document) -> int:
        own = next((one for one in (self._target, self._mtp) if one is not None and one.document is document), None)
        return _tried(lambda: (own or InspectedPart(document)).parameters, 0)

    @property
    def layers(self) -> int | None:
        """Number of decoder layers; of a draft, the layers of its own."""
        if self.context.stack is not None:
            return len(self.context.stack.layers)
        return len(self._own_head.blocks.layers) if self._own_head is not None else None

    @cached_property
    def _own_head(self) -> DrawnHead | None:
        """The target as a draft with layers of its own."""
        target = self._target
        return _tried(lambda: target.drawn.head, None) if target is not None and self._of_draft else None

    @property
    def _of_draft(self) -> bool:
        return self.role in ("dflash", "eagle3", "mtp")

    @property
    def hidden_size(self) -> int | None:
        """Width of the residual stream; of a draft, of its hidden state."""
        if self.context.stack is not None:
            return self.context.stack.hidden_size
        target, head = self.context.target, self._own_head
        shape = target.graph.shape(head.end) if target is not None and head is not None else ()
        return shape[-1] if shape and shape[-1] > 0 else None

    @property
    def refusal(self) -> str:
        """Reason for having no decoder layers."""
        location = self.context.location
        if self.context.target is None:
            return shortened(_unreadable(self.context.export))
        if self._of_draft or not isinstance(location, IrtoolsError):
            return ""
        return shortened(str(location.args[0]))

    @property
    def mtp(self) -> AtlasHead:
        """What is declared, present and valid of an MTP head."""
        declared = declared_mtp(self.context.config)
        count = declared.count if declared is not None else None
        head = self.context.export.mtp
        if head is None:
            return AtlasHead(count)
        faults = tuple(sorted({finding.code for finding in self.verification.findings if _of_head(finding, head)}))
        return AtlasHead(count, True, not faults, faults)

    @cached_property
    def annotation(self) -> tuple[str, str]:
        """Status of the annotation of a target and the status as a sentence."""
        target = self.context.target
        if target is None or self.role not in ("target", "other"):
            return "", ""
        status, text = _tried(lambda: annotation_status(target, self.context.stack), ("unknown", ""))
        return status, shortened(text)

    def precision(self, document: Document | None, role: str = "inner") -> str:
        """Stored precision of most of the weights with a role."""
        if document is None:
            return ""
        return _tried(lambda: self._precision(document, role), "")

    def _precision(self, document: Document, role: str) -> str:
        compression = self.context.compression(document)
        if compression is None:
            return ""
        if not compression.touched:
            return compression.main_type
        wanted = compression.inner if role == "inner" else [m for m in compression.matrices if m.role == role]
        return _most_common(wanted or compression.matrices)

    def memory(self, tokens: int | None) -> AtlasMemory | None:
        """Memory of a target that can be read."""
        if self._target is None:
            return None
        found = _tried(lambda: footprint(self.context.export, context=tokens), None)
        if found is None:
            return None
        key, value = found.asked or _DEFAULT_KV
        return AtlasMemory(
            found.context,
            key if key == value else f"{key},{value}",
            found.total(key, value, drafting=False),
            found.total(key, value) if found.draft else None,
            found.limit,
        )

    @property
    def made_with(self) -> dict[str, str]:
        """Versions of the programs that made the target."""
        target = self.context.target
        nothing: dict[str, str] = {}
        made = _tried(lambda: dict(versions(target)), nothing) if target is not None else nothing
        return {program: shortened(version) for program, version in made.items()}

    @property
    def graft(self) -> str:
        """Phrase about the draft head."""
        target, mtp = (one.graph if one is not None else None for one in (self.context.target, self.context.mtp))
        return _tried(lambda: draft_head_text(target, mtp), "")


def _unreadable(export: ModelDirectory) -> str:
    """Reason why an export has no target that can be read."""
    try:
        _ = export.target.graph
    except IrtoolsError as error:
        return str(error.args[0])
    return ""


def _of_head(finding: Finding, head: Document) -> bool:
    """True for a finding that makes the head invalid; one about the target or its annotation does not.

    Neither does a note, such as that the release of the runtime is older than MTP.
    """
    rules_out = finding.rules_out or ()
    if finding.severity == Severity.NOTE:
        return False
    if finding.part == head.part or (finding.file is not None and finding.file.with_suffix(".xml") == head.path):
        return finding.severity == Severity.ERROR or "mtp" in rules_out
    return finding.part is None and "mtp" in rules_out and "plain" not in rules_out


def _most_common(matrices: Iterable[Matrix]) -> str:
    sizes: Counter[str] = Counter()
    for matrix in matrices:
        sizes[_spelled(matrix)] += matrix.weight.elements
    return max(sorted(sizes), key=sizes.__getitem__, default="")


def _spelled(matrix: Matrix) -> str:
    """Precision of a matrix as in ``--expect-compression``, or the element type."""
    if not matrix.compressed:
        return matrix.element_type
    mode = matrix.modes[0] if len(matrix.modes) == 1 else matrix.element_type
    return f"{mode}:{matrix.group_size}" if matrix.group_size is not None and matrix.group_size > 0 else mode
