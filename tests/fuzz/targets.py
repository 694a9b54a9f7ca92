"""Harnesses over single functions: what they may raise, and what must hold when they return."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree
from xml.parsers import expat

from irtools.errors import IrtoolsError
from irtools.graph.match import ROLES, Matcher, patterns
from irtools.graph.view import GraphView
from irtools.ir.op import parse_op
from irtools.ir.rt_info import entries, read_rt_info, remove_entry, set_entry
from irtools.ir.scan import bodies, scan_ir
from irtools.lint.configuration import load_config
from irtools.model.annotation import parse_annotation
from tests.fuzz.case import ROOT, Case
from tests.fuzz.guard import Broken, bounded
from tests.fuzz.mutate import mutate

_CORPUS = "tests/fuzz/corpus"


@dataclass(frozen=True, slots=True)
class Target:
    """One harness."""

    name: str
    check: Callable[[bytes], None]
    bases: tuple[str, ...]

    def case(self, rng: random.Random) -> Case:
        """A new input."""
        base = rng.choice(self.bases)
        return Case(self.name, base, tuple(mutate(rng, base, "")))

    def mutated(self, rng: random.Random, case: Case) -> Case:
        """An input with more edits."""
        return Case(self.name, case.base, (*case.edits, *mutate(rng, case.base, "")))

    def run(self, case: Case) -> None:
        """Check one input."""
        data = case.data()
        with bounded(len(data)):
            self.check(data)


def scan(data: bytes) -> None:
    """A scan finds the layers and edges that an XML parser finds."""
    try:
        found = scan_ir(data)
    except IrtoolsError:
        return
    assert len(found.ids) == len(found.names) == len(found.types) == len(found.spans)
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:  # a prefix without a namespace, which the scan and OpenVINO take
        return
    sections = {name: root.findall(name) for name in ("layers", "edges")}
    if any(len(listed) != 1 for listed in sections.values()):
        return
    (layers,), (edges,) = sections["layers"], sections["edges"]
    if {child.tag for child in layers} <= {"layer"} and [layer.get("name", "") for layer in layers] != found.names:
        raise Broken("the scan names other layers than an XML parser")
    if {child.tag for child in edges} <= {"edge"} and len(edges) != len(found.edges):
        raise Broken(f"the scan finds {len(found.edges)} edges, an XML parser {len(edges)}")


def op(data: bytes) -> None:
    """Each layer parses or is refused, the graphs in it too."""
    try:
        found = scan_ir(data)
    except IrtoolsError:
        return
    for span, name in zip(found.spans, found.names, strict=True):
        try:
            parsed = parse_op(data, span)
            if parsed.name != name:
                raise Broken(f"parse_op names {parsed.name!r} what the scan names {name!r}")
            for _, body in bodies(found, span):
                for inner in body.spans:
                    parse_op(data, inner)
        except IrtoolsError:
            continue


def rt_info(data: bytes) -> None:
    """A set entry is read back, and removing it restores every byte."""
    try:
        found = scan_ir(data)
        read_rt_info(found)
        value = '{"layers":{"0":{"producer":"<a>&\t\\"","output_index":0}}}'
        for key in ("hidden_states_decoder_layers", "a key"):
            had = entries(found, key)
            edited = set_entry(found, key, value)
            expat.ParserCreate("utf-8").Parse(edited, True)
            again = scan_ir(edited)
            if read_rt_info(again).get(key) != value:
                raise Broken("the entry that was set is not read back")
            if (again.names, again.edges) != (found.names, found.edges):
                raise Broken("setting an entry changed the graph")
            removed = remove_entry(again, key)
            if not had and removed != data:
                raise Broken("removing the entry that was set does not restore the file")
    except IrtoolsError:
        return


def annotation(data: bytes) -> None:
    """What the parser takes is JSON with an object ``layers``."""
    text = data.decode("utf-8", "replace")
    found = parse_annotation(text)
    json.dumps([found.problem, found.fault])
    taps = list(found.taps())
    locators = found.locators
    if not found.problem and not isinstance(json.loads(text.removeprefix("\ufeff"))["layers"], Mapping):
        raise Broken("it takes an annotation whose layers are no object")
    if found.problem and (taps or locators):
        raise Broken("an annotation with a problem has locators")


def config(data: bytes) -> None:
    """A configuration file is read, or refused with one sentence."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "irtools.toml")
        path.write_bytes(data)
        try:
            load_config(path)
        except IrtoolsError as error:
            if "\n" in str(error).strip():
                raise Broken("the refusal has more than one line") from None


def matcher(data: bytes) -> None:
    """Each pattern says yes or no at each op."""
    try:
        view = GraphView(scan_ir(data))
    except IrtoolsError:
        return
    region = list(view.scan.ids)
    find = Matcher(view)
    for role in ROLES:
        assert patterns(role)
        try:
            find.find(role, region)
            for key in region[:: max(len(region) // 60, 1)]:
                find.at(role, key, region)
        except IrtoolsError:
            continue


def _xml(*names: str) -> tuple[str, ...]:
    return tuple(path for name in names for path in _files(f"fixtures/{name}", "*_model.xml"))


def _files(folder: str, glob: str) -> tuple[str, ...]:
    return tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).glob(glob)))


SMALL = ("qwen3_dflash", "zoo/hand_mlp3att", "zoo/hand_post", "zoo/llama_onelayer", "gpt2", "zoo/falcon_mamba")
GRAPHS = (*(_files(_CORPUS, "*.xml") * 4), *_xml(*SMALL))

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target("scan", scan, GRAPHS),
            Target("op", op, GRAPHS),
            Target("rt_info", rt_info, GRAPHS),
            Target("annotation", annotation, _files(_CORPUS, "annotation*.json")),
            Target("config", config, _files(_CORPUS, "*.toml")),
            Target("matcher", matcher, GRAPHS),
        )
    }
)
