"""Rules, the context that they read, and the findings that they report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from irtools.errors import InvalidIRError, IrtoolsError, LocateRefusedError
from irtools.model.config import read_config, text_section
from irtools.text import short_repr

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.ir.constants import Constant
    from irtools.ir.integrity import Fault
    from irtools.ir.scan import Scan
    from irtools.model.annotation import Annotation
    from irtools.model.compression import Compression
    from irtools.model.directory import ModelDirectory
    from irtools.model.document import Document
    from irtools.model.part import PartFacts
    from irtools.surgery.patch import Patch

__all__ = ["STRATEGIES", "Context", "Finding", "Fix", "Rule", "RuleGroup", "Severity", "Strategy", "rule"]

T = TypeVar("T")

STRATEGIES = ("plain", "mtp", "dflash", "eagle3")
"""Names of the decoding strategies."""


class Severity(IntEnum):
    """Severity of a finding; comparable."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to one file that removes a finding.

    Attributes
    ----------
    title : str
        Imperative phrase such as ``Write the annotation``.
    patch : callable
        Computes the new file from the current one; raises ``IrtoolsError`` on failure.
    safe : bool
        True if ``--fix`` applies the fix; otherwise only ``--unsafe-fixes`` does.
    """

    title: str
    patch: Callable[[Document], Patch]
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Strategy:
    """Availability of one decoding strategy for an export.

    Attributes
    ----------
    name : str
        ``plain``, ``mtp``, ``dflash`` or ``eagle3``.
    reason : str
        Reason for a refusal, or a requirement, as a sentence without full stop.
    findings : tuple of str
        Codes of the findings that refuse or restrict the strategy.
    """

    name: str
    available: bool
    reason: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place, reported by a rule.

    Attributes
    ----------
    code : str
        If empty, the engine fills it in.
    message : str
        Description of the fault with the offending value, without full stop.
    line : int or None
        Counted from 1.
    op : str or None
        Friendly name of the op with the fault.
    severity : Severity or None
        None for the severity of the rule.
    part : str or None
        Name of the part; the engine fills it in if ``file`` is a part.
    fix : Fix or None
        Change that removes the finding, if irtools can make it.
    rules_out : tuple of str or None
        Decoding strategies that the finding rules out, whatever its severity. If None, the engine fills in those of the
        rule for an error, and none for other severities.
    needs : mapping of str to str
        Conditions, by decoding strategy, under which it works in spite of the finding. A condition on the draft is a
        clause with ``that``; every other one stands by itself (``with enable_prefix_caching=False``).
    """

    message: str
    hint: str = ""
    file: Path | None = None
    line: int | None = None
    op: str | None = None
    severity: Severity | None = None
    code: str = ""
    part: str | None = None
    fix: Fix | None = field(default=None, compare=False)
    rules_out: tuple[str, ...] | None = field(default=None, compare=False)
    needs: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        place = self.file.name if self.file is not None else ""
        if self.line is not None:
            place = f"{place} line {self.line}"
        return short_repr(self, self.code, str(self.severity or ""), place, self.message)

    @property
    def group(self) -> str:
        """The letters of the code."""
        return self.code.rstrip("0123456789")

    @property
    def text(self) -> str:
        """Message and hint as sentences."""
        hint = self.hint.strip()
        end = "" if hint.endswith((".", "?", "!")) else "."
        return f"{self.message}. {hint[:1].upper()}{hint[1:]}{end}" if hint else self.message


@dataclass
class Context:
    """Data that rules may read. Each value is computed once and shared by all rules.

    ``expect_mtp``, ``draft`` and ``target_runtime`` are those of ``VerifyOptions``.
    """

    export: ModelDirectory
    expect_mtp: bool | None = None
    draft: ModelDirectory | None = None
    target_runtime: str = "2026.4"
    _facts: dict[tuple[str, Document], Any] = field(default_factory=dict, init=False, repr=False)

    def _once(self, fact: str, document: Document, compute: Callable[[], T]) -> T:
        key = fact, document
        if key not in self._facts:
            self._facts[key] = compute()
        value: T = self._facts[key]
        return value

    def facts(self, document: Document) -> PartFacts:
        """Facts about a readable part of the export or the draft."""
        from irtools.model.part import PartFacts

        return self._once("part", document, lambda: PartFacts(document))

    @cached_property
    def _read(self) -> tuple[dict[str, Document], dict[str, IrtoolsError]]:
        return _read_all(self.export)

    @cached_property
    def _read_draft(self) -> tuple[dict[str, Document], dict[str, IrtoolsError]]:
        if self.draft is None or self.draft.directory.resolve() == self.export.directory.resolve():
            return {}, {}
        return _read_all(self.draft)

    @property
    def documents(self) -> Mapping[str, Document]:
        """Parts whose XML can be read, by name."""
        return self._read[0]

    @property
    def unreadable(self) -> Mapping[str, IrtoolsError]:
        """Errors of the other parts, by name (an IR rule reports them)."""
        return self._read[1]

    @cached_property
    def judged(self) -> tuple[Document, ...]:
        """Readable XML files of the export and of the draft."""
        return (*self.documents.values(), *self._read_draft[0].values())

    @cached_property
    def broken(self) -> tuple[tuple[Document, IrtoolsError], ...]:
        """Unreadable XML files of the export and of the draft, with their errors."""
        pairs = [(self.export.parts[name], error) for name, error in self.unreadable.items()]
        if self.draft is not None:
            pairs += [(self.draft.parts[name], error) for name, error in self._read_draft[1].items()]
        return tuple(pairs)

    def graphs(self, document: Document) -> tuple[Scan, ...]:
        """The graph of a file and the graphs of its bodies."""
        from irtools.ir.constants import iter_graphs

        return self._once("graphs", document, lambda: tuple(iter_graphs(document.scan)))

    def faults(self, document: Document) -> tuple[Fault, ...]:
        """Faults in the wiring of a file."""
        from irtools.ir.integrity import find_faults

        return self._once("faults", document, lambda: find_faults(self.graphs(document)))

    def constants(self, document: Document) -> tuple[Constant, ...]:
        """Constants of a file."""
        from irtools.ir.constants import read_constants

        return self._once("constants", document, lambda: read_constants(self.graphs(document)))

    def compression(self, document: Document) -> Compression | None:
        """Storage of the weights of a file; None if its graph cannot be built.

        Cheap for a file without a compression request and without compressed constants.
        """
        from irtools.model.compression import Compression

        def compute() -> Compression | None:
            return Compression(document, self.constants(document)) if self.readable(document) else None

        return self._once("compression", document, compute)

    def readable(self, document: Document | None) -> Document | None:
        """The document if its graph can be built and has no cycle, else None (an IR rule reports the error)."""
        try:
            if document is not None:
                _ = document.graph.topological
            return document
        except IrtoolsError:
            return None

    @cached_property
    def target(self) -> Document | None:
        """The target, if there is exactly one and its graph can be built."""
        candidates = self.export.target_candidates
        return self.readable(candidates[0]) if len(candidates) == 1 else None

    @cached_property
    def mtp(self) -> Document | None:
        """The MTP head, if there is one and its graph can be built."""
        return self.readable(self.export.mtp)

    @cached_property
    def text_embeddings(self) -> Document | None:
        """The text embeddings part, if there is one and its graph can be built."""
        return self.readable(self.export.find_part("text_embeddings"))

    @cached_property
    def location(self) -> DecoderStack | IrtoolsError | None:
        """The decoder stack, or the error of locating it; None without a readable target.

        If config.json contradicts the graph, the stack is located without it, so that the rules still
        have a stack (an EXP rule reports the contradiction).
        """
        from irtools.decoder import locate

        if self.target is None:
            return None
        try:
            return locate(self.target, config=self.config)
        except (LocateRefusedError, InvalidIRError) as error:
            refusal = error
        try:
            return locate(self.target) if self.config else refusal
        except (LocateRefusedError, InvalidIRError):
            return refusal

    @property
    def stack(self) -> DecoderStack | None:
        """The decoder stack; None if it could not be located."""
        from irtools.decoder.stack import DecoderStack

        return self.location if isinstance(self.location, DecoderStack) else None

    @property
    def annotated(self) -> tuple[PartFacts, Annotation] | None:
        """The target and its annotation; None unless both are readable and the annotation has locators to check."""
        if self.target is None:
            return None
        part = self.facts(self.target)
        parsed = part.annotation
        return (part, parsed) if parsed is not None and not parsed.problem and not parsed.early else None

    @property
    def layer_count(self) -> int | None:
        """Number of layers that the annotation must have: from the located stack, else from config.json."""
        return len(self.stack.layers) if self.stack is not None else read_config(self.config).num_layers

    @cached_property
    def config(self) -> Mapping[str, object]:
        """Content of config.json; empty if it cannot be read (an EXP rule reports the error)."""
        try:
            return self.export.config
        except IrtoolsError:
            return {}

    @property
    def text_config(self) -> Mapping[str, object]:
        """Language model section of config.json, which wrappers nest."""
        return text_section(self.config)


def _read_all(export: ModelDirectory) -> tuple[dict[str, Document], dict[str, IrtoolsError]]:
    documents: dict[str, Document] = {}
    unreadable: dict[str, IrtoolsError] = {}
    for name, document in export.parts.items():
        try:
            _ = document.scan
            documents[name] = document
        except IrtoolsError as error:
            unreadable[name] = error
    return documents, unreadable


Check = Callable[[Context], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """A group of rules; the rule packs contain the groups.

    Attributes
    ----------
    letters : str
        Letters of the codes, such as ``MTP``.
    rules_out : tuple of str
        Decoding strategies that an error of a rule of this group rules out, unless the rule names others.
    """

    letters: str
    title: str
    rules_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with a stable code.

    Attributes
    ----------
    code : str
        Letter group and three digits, such as ``MTP012``; never reused.
    name : str
        Kebab-case name that reads well after "allow", such as ``unnamed-port``.
    severity : Severity
        Default severity of its findings.
    explanation : str
        Text with the check, its reason, the fix and the source of the requirement.
    runtimes : str
        Version specifier of the GenAI versions to which it applies (``>=2026.3``); empty for all.
    rules_out : tuple of str or None
        Decoding strategies that its errors rule out. If None, `load_rules` fills in those of the group; a group without
        `RuleGroup` rules out none.
    unreadable : bool
        True for the rule that reports unreadable files. Faults of a file that stop another rule get its code.
    """

    code: str
    name: str
    severity: Severity
    title: str
    explanation: str = field(repr=False)
    runtimes: str
    check: Check = field(repr=False)
    rules_out: tuple[str, ...] | None = None
    unreadable: bool = False

    @property
    def group(self) -> str:
        """The letters of the code."""
        return self.code.rstrip("0123456789")


def rule(
    code: str,
    name: str,
    severity: Severity,
    title: str,
    *,
    runtimes: str = "",
    rules_out: tuple[str, ...] | None = None,
    unreadable: bool = False,
) -> Callable[[Check], Rule]:
    """Decorator that makes a rule of a function; the docstring becomes the explanation.

    The docstring has the headings *What it checks*, *Why it matters*, *How to fix it* and
    *Source*, in this order, each on its own line and underlined as in numpydoc.

    Parameters
    ----------
    code : str
        Two to eight capital letters and three digits.
    name : str
        Kebab-case name that reads well after "allow".
    severity : Severity
        Severity of a finding that has none.
    title : str
        Sentence without full stop.
    runtimes : str
        Specifier of the GenAI versions to which the rule applies; empty for all.
    rules_out : tuple of str, optional
        Decoding strategies that an error of the rule rules out. By default those of its group.
    unreadable : bool
        True for the one rule that reports unreadable files.
    """

    def decorate(check: Check) -> Rule:
        explanation = inspect.cleandoc(check.__doc__ or "")
        return Rule(code, name, severity, title, explanation, runtimes, check, rules_out, unreadable)

    return decorate
