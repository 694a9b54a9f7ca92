"""The report as a file: its contents, and that it is self-contained; tests/browser opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from lxml import etree, html

from irtools.errors import UsageError
from irtools.export import open_export
from irtools.lint.engine import ModelVerification
from irtools.render.picture import Box, Frame
from irtools.render.pictures import PictureRequest, pictures
from irtools.report.html import View, render_report, render_reports
from irtools.report.html_text import explanation_html
from tests.marks import mostly_slow


def unpacked(page: str) -> dict[str, Any]:
    """Data of each part on the page."""
    tags = re.findall(
        r'<script type="application/octet-stream" class="graph" data-key="([^"]*)">([^<]*)</script>', page
    )
    return {key: json.loads(zlib.decompress(base64.b64decode(data), -zlib.MAX_WBITS)) for key, data in tags}


def columns(ops: dict[str, Any]) -> list[dict[str, Any]]:
    """The ops of a graph that is read at once, each as the page shows it."""
    forms = dict(ops["table"])
    sources, offsets, tensors = iter(ops["sources"]), iter(ops["offsets"]), iter(ops["tensors"])
    picks = {row: outputs for row, *outputs in ops["picks"]}
    found = []
    for row, (at, line) in enumerate(zip(accumulate(ops["at"]), accumulate(ops["lines"]), strict=True)):
        kind, opset, attributes, rt_info, inputs, outputs, names, *count = forms[ops["forms"][row]]
        pairs = [next(offsets) if value is None else value for value in attributes]
        read = [at - next(sources) for _ in range(*(count or [len(inputs)]))]
        found.append(
            {
                "at": at,
                "id": ops.get("ids", {row: at})[row],
                "name": ops["names"][row],
                "line": line,
                "type": kind,
                "opset": opset,
                "attributes": dict(zip(pairs[::2], pairs[1::2], strict=True)),
                "rt_info": dict(zip(rt_info[::2], rt_info[1::2], strict=True)),
                "sources": list(zip(read, picks.get(row, [0] * len(read)), strict=True)),
                "inputs": inputs,
                "outputs": outputs,
                "tensors": [next(tensors) if name is None else name for name in names],
                "constant": ops["constant"][row] == "1",
            }
        )
    assert [*sources, *offsets, *tensors] == []
    return found


@pytest.fixture(scope="module")
def page() -> str:
    fixtures = Path(__file__).resolve().parents[2] / "fixtures"
    return render_report(open_export(fixtures / "qwen3_5_vl"))


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(page: str) -> None:
    policy = html.fromstring(page).xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, tag in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        (text,) = re.findall(tag, page, re.DOTALL)
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    tree = html.fromstring(page)
    assert tree.xpath("//@src | //@srcset | //link/@href | //@style") == ["data:,"]
    assert all(link.startswith("#") for link in tree.xpath("//a/@href"))
    assert not tree.xpath("//*[@*[starts-with(name(), 'on')]]")


def test_the_memory_of_a_draft_is_counted_and_the_precision_of_the_ir_marked(fixtures: Path) -> None:
    page = open_export(fixtures / "qwen3").report(draft=fixtures / "qwen3_dflash")
    tree = html.fromstring(page)
    rows = {row.xpath("string(*[1])").strip() for row in tree.xpath("//tr")}
    assert {"draft weights", "draft copy of lm_head", "plain, about", "with the draft, about"} <= rows
    assert any("keys and values f16*" in cell.text_content() for cell in tree.xpath("//th"))  # its runtime_options
    assert "draft weights" not in open_export(fixtures / "qwen3").report()


def test_vendored_scripts_come_with_their_licences(page: str) -> None:
    assert "Copyright (c) 2012-2014 Chris Pettitt" in page
    assert "Copyright 2016-2019 Timmy Willison" in page


def assert_as_in_the_file(ops: list[dict[str, Any]], file: Path) -> None:
    """Compare the ops on a page with those that lxml reads."""
    net = etree.parse(str(file)).getroot()
    layers = net.findall("layers/layer")
    assert len(ops) == len(list(net.iter("layer")))  # including the ops in the bodies of loops
    edges = set()
    for op, layer in zip(ops, layers, strict=False):
        assert op["id"] == int(layer.get("id"))
        assert op["name"] == layer.get("name")
        assert (op["type"], op["opset"]) == (layer.get("type"), layer.get("version"))
        assert op["line"] == layer.sourceline
        data = layer.find("data")
        assert op["attributes"] == (dict(data.attrib) if data is not None else {})
        entries = layer.findall("rt_info/attribute")
        assert op["rt_info"] == {entry.get("name"): entry.get("value", "") for entry in entries}
        outputs = layer.findall("output/port")
        names = [re.sub(r"(?<!\\),", ", ", port.get("names") or "").replace("\\,", ",") for port in outputs]
        assert op["tensors"] == (names if any(names) else [])
        shown = [port.split("[")[1].rstrip("]").split(",") for port in op["outputs"]]
        for port, texts in zip(outputs, shown, strict=True):  # where the file has -1, a letter or ?
            dims = [dim.text for dim in port.findall("dim")] or [""]
            assert all(one == dim or (dim == "-1" and not one.isdigit()) for dim, one in zip(dims, texts, strict=True))
        for (source, output), port in zip(op["sources"], layer.findall("input/port"), strict=True):
            read = layers[source].findall("output/port")[output].get("id")
            edges.add((str(ops[source]["id"]), read, str(op["id"]), port.get("id")))
    ends = ("from-layer", "from-port", "to-layer", "to-port")
    assert edges == {tuple(edge.get(end) for end in ends) for edge in net.iterfind("edges/edge")}


def test_every_op_is_on_the_page_as_in_the_file(page: str, fixtures: Path) -> None:
    for file in (fixtures / "qwen3_5_vl").glob("*.xml"):
        part = file.stem.removeprefix("openvino_").removesuffix("_model")
        assert_as_in_the_file(columns(unpacked(page)[f"m0-{part}"]["ops"]), file)


def test_ops_in_another_spelling_are_on_the_page_as_in_the_file(export_copy: Callable[..., Path]) -> None:
    file = export_copy("zoo/llama_onelayer") / "openvino_model.xml"
    lines = file.read_text(encoding="utf-8").split("\n")
    constants = [number for number, line in enumerate(lines) if ' type="Const"' in line]
    named = [number for number, line in enumerate(lines) if ' names="' in line]
    for number in constants[::5]:
        lines[number + 1] = re.sub(r' offset="(\d+)"', r" offset='\1'", lines[number + 1])
    for number in constants[1::5]:
        lines[number] = re.sub(r' (name="[^"]*") (type="Const")', r" \2 \1", lines[number])
    for number in constants[2::5]:
        lines[number] += '<!-- type="Add" offset="7" -->'
    for number in constants[3::5]:
        lines[number + 1] += '<rt_info><attribute name="old" version="0" value=" offset=&quot;5" offset="6"/></rt_info>'
    for number, name in zip(named[3:], (r"a\,b,c", "a&amp;b", "&#228;,&lt;", "a  b"), strict=False):
        lines[number] = lines[number][: lines[number].index(" names=")] + f' names="{name}">'
    file.write_text("\n".join(lines), encoding="utf-8")
    assert_as_in_the_file(columns(unpacked(render_report(open_export(file.parent)))["m0-model"]["ops"]), file)


def test_dimensions_have_letters(page: str) -> None:
    ops = columns(unpacked(page)["m0-language"]["ops"])
    shapes = {(op["type"], shape) for op in ops for shape in op["outputs"]}
    assert ("ReadValue", "f32 [B,2,P,16]") in shapes
    assert ("Concat", "f32 [B,2,T,16]") in shapes  # the cache: past and new tokens
    assert ("ScaledDotProductAttention", "f32 [B,4,S,16]") in shapes
    assert ("MatMul", "f32 [B,S,64]") in shapes
    inputs = {name: op["outputs"][0] for op in ops if op["type"] == "Parameter" for name in op["tensors"]}
    assert inputs["attention_mask"] == "i64 [B,T]"
    assert inputs["inputs_embeds"] == "f32 [B,S,32]"


def positions(nodes: list[Any]) -> list[int]:
    """Positions of the ops in an outline."""
    ops = [node for node in nodes if isinstance(node, int)]
    for node in nodes:
        if not isinstance(node, int):
            ops += [node["o"]] if "o" in node else []
            ops += positions(node.get("c", []))
    return ops


def assembled(graphs: dict[str, Any]) -> list[tuple[list[Any], list[Any]]]:
    """Outline and constness of the ops of each part, also of those whose boxes are read one by one."""

    def filled(node: Any, key: str) -> Any:
        if isinstance(node, int):
            return node
        inside = graphs[f"{key}/{node['z']}"]["c"] if "z" in node else [filled(one, key) for one in node.get("c", [])]
        return {**node, "c": inside}

    parts = []
    for key, graph in graphs.items():
        if "/" in key:
            continue
        pieces = [
            graph["ops"],
            *(piece["ops"] for name, piece in graphs.items() if name.startswith(f"{key}/") and "ops" in piece),
        ]
        flat = [pair for one in pieces for pair in zip(accumulate(one["at"]), map(int, one["constant"]), strict=True)]
        assert [op for op, _ in sorted(flat)] == list(range(len(flat)))  # each op in one piece
        parts.append(([filled(node, key) for node in graph["outline"]], [constant for _, constant in sorted(flat)]))
    return parts


@pytest.mark.parametrize("name", mostly_slow(["qwen3_5_vl", "bert", "opt", "gemma4_vl", "mixtral", "llava", "scale"]))
def test_every_op_but_constants_has_one_place_in_the_picture(name: str, fixtures: Path) -> None:
    graphs = unpacked(render_report(open_export(fixtures / name)))
    bodies = [graph["ops"]["bodies"] for key, graph in graphs.items() if "/" not in key]
    for (outline, constant), inside in zip(assembled(graphs), bodies, strict=True):
        placed = positions(outline)
        assert len(placed) == len(set(placed))
        inner = {op for *_, start, stop in inside for op in range(start, stop)}
        assert set(placed) | inner == {op for op in range(len(constant)) if op in inner or not constant[op]}


def test_taps_are_where_the_hidden_states_are(fixtures: Path, truth: Callable[[str], dict[str, Any]]) -> None:
    for name in ("falcon", "qwen3_5_moe_vl", "gemma4_vl", "gpt2"):
        graphs = unpacked(render_report(open_export(fixtures / name)))
        (graph,) = [graph for graph in graphs.values() if graph["taps"]]
        names = graph["ops"]["names"]
        for op, layer, output in graph["taps"]:
            assert [names[op], output] in truth(name)["layers"][str(layer)]


@pytest.mark.slow
def test_ten_thousand_ops_take_less_than_a_megabyte(fixtures: Path) -> None:
    assert len(render_report(open_export(fixtures / "scale")).encode()) < 1_000_000


def test_a_finding_is_pinned_to_the_op_on_its_line(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3")
    file = directory / "openvino_model.xml"
    text = file.read_text()
    layer = re.search(r'<layer id="(\d+)" name="[^"]*" type="Const"[^>]*>', text)
    assert layer is not None
    data = re.compile(r'offset="\d+"').sub('offset="999999999"', text[layer.end() :], count=1)
    file.write_text(text[: layer.end()] + data)
    page = render_report(open_export(directory))
    graph = unpacked(page)["m0-model"]
    (pinned,) = [entry for entry in graph["findings"] if entry[1] == "error" and "999,999,999" in entry[3]]
    assert columns(graph["ops"])[pinned[0]]["id"] == int(layer[1])
    tree = html.fromstring(page)
    (item,) = tree.xpath(f"//li[@id='finding-0-{pinned[4]}']")
    assert "999,999,999" in item.text_content()
    assert item.xpath(".//a[@data-position]/@data-position") == [str(pinned[0])]


def test_findings_come_with_the_explanations_of_their_rules(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3")
    (directory / "openvino_detokenizer.xml").unlink()
    (directory / "openvino_model.bin").unlink()
    tree = html.fromstring(render_report(open_export(directory)))
    codes = {item.text for item in tree.xpath("//ol[@class='findings']//a[@class='code']")}
    assert {"EXP003"} <= codes
    for code in codes:
        (rule,) = tree.xpath(f"//details[@id='rule-0-{code}']")
        assert {"What it checks", "Why it matters", "How to fix it"} <= {heading.text for heading in rule.iter("h4")}
    severities = tree.xpath("//ol[@class='findings']/li/@class")
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("openvino_language_model.xml", b"version https://git-lfs.github.com/spec/v1\n"),
        ("openvino_language_model.xml", None),
        ("openvino_mtp_model.xml", b"<net><layers>"),
        ("config.json", b"{"),
        ("openvino_language_model.bin", None),
    ],
)
def test_a_broken_export_has_a_report_too(export_copy: Callable[..., Path], file: str, content: bytes | None) -> None:
    directory = export_copy("qwen3_5_vl")
    if content is None:
        (directory / file).unlink()
    else:
        (directory / file).write_bytes(content)
    tree = html.fromstring(render_report(open_export(directory)))
    assert tree.xpath("//ol[@class='findings']/li[@class='error'] | //p[@class='refused']")
    assert file in tree.text_content()
    assert "m0-text_embeddings" in tree.xpath("//script[@class='graph']/@data-key")


def test_a_model_that_could_not_be_verified_is_named() -> None:
    page = render_reports([ModelVerification(Path("nowhere"), error="nowhere: no <such> file")])
    assert "no &lt;such&gt; file" in page


def test_a_layer_that_does_not_exist(fixtures: Path) -> None:
    with pytest.raises(UsageError, match=r"has no layer 4 \(layers: 0 to 3\)"):
        render_report(open_export(fixtures / "falcon"), view=View(layer=4))


def test_explanations_are_escaped() -> None:
    text = "What it checks\n--------------\nThat ``<a>`` is\nnot <b>.\n\n- one ``x``\n  more\n- two\n"
    assert explanation_html(text) == (
        "<h4>What it checks</h4><p>That <code>&lt;a&gt;</code> is not &lt;b&gt;.</p>"
        "<p class=item>one <code>x</code> more</p><p class=item>two</p>"
    )


def test_counts_agree_with_their_nouns_and_no_backtick_is_left(fixtures: Path) -> None:
    page = html.document_fromstring(render_report(open_export(fixtures / "zoo" / "llama_onelayer")))
    etree.strip_elements(page, "script", "style", with_tail=False)
    shown = "\n".join(page.itertext())
    nouns = "findings|notes|warnings|errors|rules|ops|layers|parts|states|tokens|constants|values|heads|experts|sums"
    assert re.findall(rf"\b1 (?:\w+ )?(?:{nouns})\b", shown) == []
    assert re.search(r"\b1 layer\b", shown)
    assert "`" not in shown


def test_the_page_groups_a_layer_as_its_picture_does(fixtures: Path) -> None:
    export = open_export(fixtures / "llama")
    drawn = next(pictures(export, PictureRequest(layer=1)))
    frames = {item.title: item for item in drawn.items if isinstance(item, Frame)}
    trees = [tree for tree, _ in assembled(unpacked(render_report(export)))]
    (layer,) = [node for tree in trees for node in walked(tree) if node.get("n") == 1]
    boxes = {node["t"]: node["k"] for node in walked(layer["c"]) if node.get("c")}
    assert {
        "Q",
        "K",
        "V",
        "RoPE of Q",
        "RoPE of K",
        "Key cache",
        "Value cache",
        "Full attention",
        "Dense MLP",
    } <= frames.keys()
    assert frames.keys() <= boxes.keys()
    for title, frame in frames.items():
        kinds = Counter(box.kind for box in frame.items if isinstance(box, Box))
        assert boxes[title] in kinds, title  # the colour of the box is that of ops in the frame


def walked(nodes: list[Any]) -> list[dict[str, Any]]:
    """Boxes of an outline, with those in them."""
    boxes = [node for node in nodes if isinstance(node, dict)]
    return [*boxes, *(inner for box in boxes for inner in walked(box.get("c", [])))]
