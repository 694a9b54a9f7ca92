"""Everything that a rule can read: the export, its parts, the decoder stack, the config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from irtools.errors import InvalidIRError, IrtoolsError, LocateRefusedError
from irtools.model.config import read_config, text_section
from irtools.model.draft import is_draft
from irtools.model.ports import TOKEN_INPUTS

if TYPE_CHECKING:
    from pathlib import Path

    from irtools.decoder.stack import DecoderStack
    from irtools.ir.constants import Constant
    from irtools.ir.integrity import Fault
    from irtools.ir.pread import Allowance, WeightsReader
    from irtools.ir.scan import Scan
    from irtools.model.annotation import Annotation
    from irtools.model.compression import Compression, CompressionSpec
    from irtools.model.directory import ModelDirectory
    from irtools.model.document import Document
    from irtools.model.integers import GraphIntegers
    from irtools.model.part import PartFacts
    from irtools.model.samples import Sample

__all__ = ["DEFAULT_RUNTIME", "READ_AT_MOST", "Context"]

DEFAULT_RUNTIME = "2026.4"
"""OpenVINO GenAI release against which the built-in rules were verified."""

READ_AT_MOST = 500_000
"""Bytes that all rules together may read from the ``.bin`` files of one export."""
_SAMPLED = 128_000
"""Bytes of them that are samples of weights."""

T = TypeVar("T")


@dataclass
class Context:
    """Data that rules may read. Each value is computed once and shared by all rules.

    ``expect_mtp``, ``draft``, ``target_runtime`` and ``expect_compression`` are those of ``VerifyOptions``.
    """

    export: ModelDirectory
    expect_mtp: bool | None = None
    draft: ModelDirectory | None = None
    target_runtime: str = DEFAULT_RUNTIME
    expect_compression: Mapping[str, CompressionSpec] = field(default_factory=dict)
    _facts: dict[tuple[str, Document], Any] = field(default_factory=dict, init=False, repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _allowances: dict[Path, Allowance] = field(default_factory=dict, init=False, repr=False)

    def _once(self, fact: str, document: Document, compute: Callable[[], T]) -> T:
        key = fact, document
        if key not in self._facts:
            self._facts[key] = compute()
        value: T = self._facts[key]
        return value

    def kept(self, fact: str, compute: Callable[[], T]) -> T:
        """A value that concerns no single part, computed when it is first asked for."""
        if fact not in self._kept:
            self._kept[fact] = compute()
        value: T = self._kept[fact]
        return value

    def with_draft(self, draft: ModelDirectory | None) -> Context:
        """The same export with another draft; what is known of its parts is shared."""
        other = Context(self.export, self.expect_mtp, draft, self.target_runtime, self.expect_compression)
        other._facts, other._allowances = self._facts, self._allowances
        return other

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
    def all_documents(self) -> tuple[Document, ...]:
        """Readable XML files of the export and of the draft."""
        return (*self.documents.values(), *self._read_draft[0].values())

    @cached_property
    def broken(self) -> tuple[tuple[Document, IrtoolsError], ...]:
        """Unreadable XML files of the export and of the draft, with their errors."""
        pairs = [(self.export.parts[name], error) for name, error in self.unreadable.items()]
        if self.draft is not None:
            pairs += [(self.draft.parts[name], error) for name, error in self._read_draft[1].items()]
        return tuple(pairs)

    def of_draft(self, file: Path | None) -> bool:
        """True for a file in the directory of ``--draft``, unless that is the export itself."""
        if self.draft is None or file is None or file.parent != self.draft.directory:
            return False
        return self.draft.directory.resolve() != self.export.directory.resolve()

    def graphs(self, document: Document) -> tuple[Scan, ...]:
        """The graph of a file and the graphs of its bodies."""
        from irtools.ir.constants import iter_graphs

        return self._once("graphs", document, lambda: tuple(iter_graphs(document.scan)))

    def faults(self, document: Document) -> tuple[Fault, ...]:
        """Faults in the wiring of a file."""
        from irtools.ir.integrity import find_faults

        return self._once("faults", document, lambda: find_faults(self.graphs(document)))

    def op_types(self, document: Document) -> Counter[tuple[str, str]]:
        """Number of ops in a file, bodies included, by type and opset; ``""`` for an attribute that is missing."""
        from irtools.ir.op import count_types

        return self._once("op_types", document, lambda: count_types(self.graphs(document)))

    def constants(self, document: Document) -> tuple[Constant, ...]:
        """Constants of a file."""
        from irtools.ir.constants import read_constants

        return self._once("constants", document, lambda: read_constants(self.graphs(document)))

    def weights_reader(self, document: Document) -> WeightsReader:
        """Reader of byte ranges of the ``.bin`` of a part; all parts of an export share ``READ_AT_MOST`` bytes."""
        from irtools.ir.pread import Allowance, WeightsReader

        allowance = self._allowances.setdefault(document.path.parent, Allowance(READ_AT_MOST))
        return self._once("weights", document, lambda: WeightsReader(document.weights_path, allowance))

    def integers(self, document: Document) -> tuple[GraphIntegers, ...]:
        """Integers of a file and of its bodies; empty if its graph or its ``.bin`` cannot be read."""
        from irtools.model.integers import file_integers

        def compute() -> tuple[GraphIntegers, ...]:
            reader, constants = self.weights_reader(document), self.constants(document)
            needed = max((constant.end for constant in constants), default=0)
            if needed > reader.size or self.readable(document) is None:
                return ()
            return tuple(file_integers(document.graph, constants, reader))

        return self._once("integers", document, compute)

    @cached_property
    def samples(self) -> Mapping[Document, tuple[Sample, ...]]:
        """Samples of the weights at the top level of each file whose graph and ``.bin`` can be read."""
        from irtools.model.samples import take_samples, weight_uses

        taken: dict[Document, tuple[Sample, ...]] = {}
        head = self.stack.head if self.stack is not None else None
        for directory in dict.fromkeys(document.path.parent for document in self.all_documents):
            uses = {
                self.weights_reader(document): tuple(
                    weight_uses(
                        document.graph,
                        (constant for constant in self.constants(document) if not constant.in_body),
                        head if document is self.target else None,
                    )
                )
                for document in self.all_documents
                if document.path.parent == directory and self.integers(document)
            }
            sampled = take_samples(uses, _SAMPLED)
            taken |= {d: sampled[r] for d in self.all_documents if (r := self.weights_reader(d)) in sampled}
        return taken

    def compression(self, document: Document) -> Compression | None:
        """Storage of the weights of a file; None if its graph cannot be built.

        Cheap for a file without a compression request and without compressed constants.
        """
        from irtools.model.compression import Compression

        def compute() -> Compression | None:
            return Compression(document, self.constants(document)) if self.readable(document) else None

        return self._once("compression", document, compute)

    def readable(self, document: Document | None) -> Document | None:
        """The document if its graph can be built, else None (an IR rule reports the error)."""
        return document if document is not None and self._once("readable", document, lambda: _built(document)) else None

    @cached_property
    def target(self) -> Document | None:
        """The target, if there is exactly one and its graph can be built."""
        candidates = self.export.target_candidates
        return self.readable(candidates[0]) if len(candidates) == 1 else None

    @property
    def target_facts(self) -> PartFacts | None:
        """Facts about the target; None if it is unreadable or a draft."""
        part = self.facts(self.target) if self.target is not None else None
        return None if part is None or is_draft(part) else part

    @property
    def is_language_model(self) -> bool:
        """True if the target is a language model of any kind, or cannot be read."""
        names = self._input_names
        return self.target is None or not names.isdisjoint({*TOKEN_INPUTS, "decoder_input_ids"})

    @property
    def is_draft(self) -> bool:
        """True if the directory is that of a draft, which reads hidden states of a target elsewhere."""
        return self.target is not None and is_draft(self.facts(self.target))

    @property
    def needs_embeddings(self) -> bool:
        """True if the target takes embeddings instead of tokens, because the text embeddings are a separate part."""
        if self.target is None:
            return [document.part for document in self.export.target_candidates] == ["language"]
        return not self.is_draft and "inputs_embeds" in self._input_names and "input_ids" not in self._input_names

    @property
    def _input_names(self) -> set[str]:
        if self.target is None:
            return set()
        return {name for port in self.facts(self.target).inputs for name in (*port.names, port.friendly)}

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
        part = self.target_facts
        parsed = part.annotation if part is not None else None
        return (part, parsed) if part and parsed is not None and not parsed.problem and not parsed.early else None

    @property
    def layer_count(self) -> int | None:
        """Number of layers that the annotation must have, from the located stack, else from config.json."""
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


def _built(document: Document) -> bool:
    try:
        _ = document.graph
    except IrtoolsError:
        return False
    return True


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
