"""What a rule is, what it sees and what it reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.errors import InvalidIRError, IrtoolsError, LocateRefusedError

if TYPE_CHECKING:
    from irtools.decoder.stack import DecoderStack
    from irtools.ir.constants import Constant
    from irtools.ir.integrity import Fault
    from irtools.ir.scan import Scan
    from irtools.model.compression import Compression
    from irtools.model.directory import ModelDirectory
    from irtools.model.document import Document
    from irtools.model.part import Part
    from irtools.surgery.patch import Patch

__all__ = ["Context", "Finding", "Fix", "Rule", "Severity", "Strategy", "rule"]


class Severity(IntEnum):
    """How bad a finding is; comparable."""

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
        What it does, in the imperative: ``Write the annotation``.
    patch : callable
        Works out the new file from the current one; raises ``IrtoolsError`` when it cannot.
    safe : bool
        Whether ``--fix`` applies it; otherwise only ``--unsafe-fixes`` does.
    """

    title: str
    patch: Callable[[Document], Patch]
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Strategy:
    """Whether one way of decoding is available with an export.

    Attributes
    ----------
    name : str
        ``plain``, ``mtp``, ``dflash`` or ``eagle3``.
    available : bool
    reason : str
        Why not, or what it needs, as a sentence without full stop.
    findings : tuple of str
        Codes of the findings that rule it out.
    """

    name: str
    available: bool
    reason: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule reports: one fault at one place.

    Attributes
    ----------
    code : str
        Filled in by the engine when empty.
    message : str
        What is wrong, with the offending value, without full stop.
    hint : str
        What to do about it.
    file : Path or None
        The file it is in.
    line : int or None
        Counted from 1.
    op : str or None
        Friendly name of the op concerned.
    severity : Severity or None
        None: the rule's own.
    part : str or None
        Name of the part; filled in by the engine when ``file`` is one.
    fix : Fix or None
        The change that removes it, if irtools can make it.
    """

    message: str
    hint: str = ""
    file: Path | None = None
    line: int | None = None
    op: str | None = None
    severity: Severity | None = None
    code: str = ""
    part: str | None = None
    fix: Fix | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Message and hint as sentences."""
        hint = self.hint.strip()
        end = "" if hint.endswith((".", "?", "!")) else "."
        return f"{self.message}. {hint[:1].upper()}{hint[1:]}{end}" if hint else self.message


@dataclass
class Context:
    """What a rule may look at. Everything is read once and shared by all rules.

    Attributes
    ----------
    export : ModelDirectory
    expect_mtp : bool or None
        True for ``--expect-mtp``, False for ``--no-mtp``, None for neither.
    draft : ModelDirectory or None
        The draft of ``--draft``.
    target_runtime : str
        OpenVINO GenAI version the export is meant for.
    """

    export: ModelDirectory
    expect_mtp: bool | None = None
    draft: ModelDirectory | None = None
    target_runtime: str = "2026.4"
    _graphs: dict[Document, tuple[Scan, ...]] = field(default_factory=dict, init=False, repr=False)
    _faults: dict[Document, tuple[Fault, ...]] = field(default_factory=dict, init=False, repr=False)
    _constants: dict[Document, tuple[Constant, ...]] = field(default_factory=dict, init=False, repr=False)
    _compressions: dict[Document, Compression | None] = field(default_factory=dict, init=False, repr=False)
    _facts: dict[Document, Part] = field(default_factory=dict, init=False, repr=False)

    def part(self, document: Document) -> Part:
        """Facts about a readable part (also of the draft), worked out once."""
        from irtools.model.part import Part

        if document not in self._facts:
            self._facts[document] = Part(document)
        return self._facts[document]

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
        """The parts whose XML can be read, by name."""
        return self._read[0]

    @property
    def unreadable(self) -> Mapping[str, IrtoolsError]:
        """Why the other parts cannot be read, by name (an IR rule reports it)."""
        return self._read[1]

    @cached_property
    def judged(self) -> tuple[Document, ...]:
        """Every file whose XML can be read, of the export and of the draft."""
        return (*self.documents.values(), *self._read_draft[0].values())

    @cached_property
    def broken(self) -> tuple[tuple[Document, IrtoolsError], ...]:
        """Every file whose XML cannot be read, of the export and of the draft, and why."""
        found = [(self.export.parts[name], error) for name, error in self.unreadable.items()]
        if self.draft is not None:
            found += [(self.draft.parts[name], error) for name, error in self._read_draft[1].items()]
        return tuple(found)

    def graphs(self, document: Document) -> tuple[Scan, ...]:
        """The graph of a file and those of the bodies in it, scanned once."""
        from irtools.ir.constants import iter_graphs

        if document not in self._graphs:
            self._graphs[document] = tuple(iter_graphs(document.scan))
        return self._graphs[document]

    def faults(self, document: Document) -> tuple[Fault, ...]:
        """Faults in the wiring of a file, found once."""
        from irtools.ir.integrity import find_faults

        if document not in self._faults:
            self._faults[document] = find_faults(self.graphs(document))
        return self._faults[document]

    def constants(self, document: Document) -> tuple[Constant, ...]:
        """Constants of a file, read once."""
        from irtools.ir.constants import read_constants

        if document not in self._constants:
            self._constants[document] = read_constants(self.graphs(document))
        return self._constants[document]

    def compression(self, document: Document) -> Compression | None:
        """How the weights of a file are stored; None when its graph cannot be built.

        Cheap for a file that says nothing about compression and has no compressed constant.
        """
        from irtools.model.compression import Compression

        if document not in self._compressions:
            sound = self.readable(document)
            self._compressions[document] = Compression(sound, self.constants(sound)) if sound else None
        return self._compressions[document]

    def readable(self, document: Document | None) -> Document | None:
        """The document if its graph can be built and has no cycle, else None (an IR rule reports why)."""
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
        """The decoder stack, or why it was refused; None without a readable target.

        A config.json that contradicts the graph does not hide the stack from the rules: it is
        located without (an EXP rule reports the contradiction).
        """
        from irtools.decoder import locate

        if self.target is None:
            return None
        try:
            return locate(self.target, config=self.config)
        except (LocateRefusedError, InvalidIRError) as error:
            refused = error
        try:
            return locate(self.target) if self.config else refused
        except (LocateRefusedError, InvalidIRError):
            return refused

    @property
    def stack(self) -> DecoderStack | None:
        """The decoder stack when it could be located."""
        from irtools.decoder.stack import DecoderStack

        return self.location if isinstance(self.location, DecoderStack) else None

    @cached_property
    def config(self) -> Mapping[str, object]:
        """config.json, or empty when it cannot be read (an EXP rule reports why)."""
        try:
            return self.export.config
        except IrtoolsError:
            return {}

    @property
    def text_config(self) -> Mapping[str, object]:
        """The part of config.json about the language model: ``text_config`` in wrappers, else all of it."""
        for key in ("text_config", "llm_config", "language_config"):
            nested = self.config.get(key)
            if isinstance(nested, Mapping):
                return nested
        return self.config


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
class Rule:
    """One check with a stable code.

    Attributes
    ----------
    code : str
        Letter group and three digits: ``MTP012``. Never reused.
    name : str
        Kebab-case, reads well after "allow": ``unnamed-port``.
    severity : Severity
        Of its findings, unless a finding says otherwise.
    title : str
        One line.
    explanation : str
        What it checks, why it matters, how to fix it, where the requirement comes from.
    runtimes : str
        GenAI versions it speaks of, as a version specifier (``>=2026.3``); empty for all.
    check : callable
        Takes the context, yields findings.
    """

    code: str
    name: str
    severity: Severity
    title: str
    explanation: str
    runtimes: str
    check: Check

    @property
    def group(self) -> str:
        """The letters of the code."""
        return self.code.rstrip("0123456789")


def rule(code: str, name: str, severity: Severity, title: str, *, runtimes: str = "") -> Callable[[Check], Rule]:
    """Make a rule of a function; its docstring is the explanation.

    The docstring has the headings *What it checks*, *Why it matters*, *How to fix it* and
    *Source*, in this order, each on a line of its own underlined as in numpydoc.
    """

    def decorate(check: Check) -> Rule:
        return Rule(code, name, severity, title, inspect.cleandoc(check.__doc__ or ""), runtimes, check)

    return decorate
