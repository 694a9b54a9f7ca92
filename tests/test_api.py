"""The public names: what they are, that they load lazily, and that each command has its method."""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import irtools
import irtools.authoring
import irtools.edits
import irtools.errors
from irtools.errors import OptionError
from irtools.prove.run import Proof
from irtools.prove.speculate import DraftSetup
from irtools.prove.steps import Check, Step
from tests.marks import mostly_slow

ExportCopy = Callable[..., Path]
SECTIONS = ("Parameters", "Returns", "Raises", "Attributes", "Examples", "Yields", "Notes")
HEAVY = ("openvino", "networkx", "lxml", "jinja2")
MODULES = (irtools, irtools.edits, irtools.errors, irtools.authoring)
PUBLIC = [
    (module.__name__, name, getattr(module, name))
    for module in MODULES
    for name in module.__all__
    if name != "__version__"
]
FUNCTIONS = {
    **{name: value for _, name, value in PUBLIC if inspect.isfunction(value)},
    **{
        f"Export.{name}": method
        for name, method in vars(irtools.Export).items()
        if inspect.isfunction(method) and not name.startswith("_")
    },
}


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# -- the names -------------------------------------------------------------------------


def test_the_page_has_every_name() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "api.md").read_text()
    sections = re.split(r"^## (?:Single edits|Errors|Rules and patterns)\n", page, flags=re.MULTILINE)
    for section, module in zip(sections, MODULES, strict=True):
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == module.__all__
        if module is not irtools.errors:
            assert [name for name in module.__all__ if not re.search(rf"```python\n[^`]*\b{name}\b", section)] == []


def test_no_name_is_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(irtools.__path__)}
    assert {"render", "compare", "authoring"} <= modules
    assert modules.isdisjoint(irtools.__all__)


@pytest.mark.parametrize(("module", "name", "value"), PUBLIC, ids=[f"{module}.{name}" for module, name, _ in PUBLIC])
def test_a_name_is_what_it_says(module: str, name: str, value: Any) -> None:
    assert name in dir(sys.modules[module])
    if isinstance(value, tuple):
        return  # a constant has no docstring
    assert value.__name__ == name
    assert value.__module__.startswith("irtools.")
    require_numpydoc(inspect.getdoc(value) or "")


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_documents_its_parameters(function: Callable[..., object]) -> None:
    text = inspect.getdoc(function) or ""
    require_numpydoc(text)
    parameters = text.partition("Parameters\n----------\n")[2]
    entries = re.findall(r"^(\*{0,2}\w[\w, ]*?)(?: :|$)", parameters, re.MULTILINE)
    named = {name.strip("*") for entry in entries for name in entry.split(", ")}
    # The class says what a part is.
    assert set(inspect.signature(function).parameters) - {"self", "part"} <= named


def test_every_documented_exception_is_public() -> None:
    values = [value for _, _, value in PUBLIC if callable(value)]
    members = [*values, *(member for value in values for member in vars(value).values())]
    sections = [
        raised[1]
        for text in map(inspect.getdoc, members)
        for raised in re.finditer(r"^Raises\n-+\n(.*?)(?=\n\n\S|\Z)", text or "", re.MULTILINE | re.DOTALL)
    ]
    named = {
        name for text in sections for line in re.findall(r"^\S.*$", text, re.MULTILINE) for name in line.split(", ")
    }
    assert {"LocateRefusedError", "AnnotationDiffersError", "CheckError", "EditError", "SaveError"} <= named
    assert named - vars(builtins).keys() <= set(irtools.errors.__all__)


def require_numpydoc(text: str) -> None:
    lines = text.splitlines()
    assert lines[0].endswith((".", ":")), text
    assert not lines[1:2] or not lines[1], "a blank line follows the summary"
    for number, line in enumerate(lines):
        if line in SECTIONS:
            assert lines[number + 1] == "-" * len(line)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in MODULES:
        with pytest.raises(AttributeError, match=f"module {module.__name__!r} has no attribute 'nonsense'"):
            _ = module.nonsense


# -- imports ---------------------------------------------------------------------------


def test_the_import_is_light() -> None:
    modules = ", ".join(module.__name__ for module in MODULES)
    seen = run(f"import sys, {modules}; print([name for name in {HEAVY} if name in sys.modules])")
    assert seen == "[]"


def test_locating_loads_no_rules_and_nothing_that_only_they_need() -> None:
    code = """
import sys, irtools
irtools.open_export("fixtures/falcon").locate()
print(any(name.endswith("rules.pattern_norm") for name in sys.modules))
names = ("irtools.lint", "irtools.surgery", "irtools.runtime", "irtools.report", "openvino", "jinja2")
print([name for name in names if name in sys.modules])
"""
    assert run(code) == "True\n[]"


# -- commands and methods --------------------------------------------------------------

ONLY_COMMANDS = {
    *("models", "model", "format_", "formats", "quiet", "verbose"),
    *("recursive", "jobs", "timeout", "resume", "scheduler"),  # verify_many and atlas take several exports
    *("dry_run", "diff", "explain", "remove", "snippet", "prompt"),  # the method's result has it
    "parts",  # expect_compression takes a mapping by part
    *("fail_on", "exit_zero", "baseline", "write_baseline", "config", "trust_model_config", "fix", "unsafe_fixes"),
}
RENAMED = {"no_check": "check"}


@pytest.mark.parametrize(
    "name",
    ["annotate", "attach", "strip", "locate", "verify", "inspect", "render", "report", "diff", "expose", "extract"],
)
def test_a_method_takes_the_options_of_its_command(name: str) -> None:
    command = importlib.import_module(f"irtools.cli.{name}").command
    assert isinstance(command, click.Command)
    method = inspect.signature(getattr(irtools.Export, name)).parameters
    # What writes is the method save.
    saved = {"output_dir", "no_check"} if name in ("annotate", "strip", "expose") else set()
    elsewhere = ONLY_COMMANDS | saved | ({"a", "b", "output", "outputs"} if name in ("diff", "verify") else set())
    given = command.make_context(name, [], resilient_parsing=True).params
    for key, value in given.items():
        if key not in elsewhere:
            default = method[RENAMED.get(key, key)].default
            assert default in (inspect.Parameter.empty, not value if key == "no_check" else value), key


def test_commands_and_methods_draw_the_same(cli_run: Callable[..., int], tmp_path: Path) -> None:
    export = irtools.open_export("fixtures/falcon")
    assert cli_run("render", "fixtures/falcon", "--layer", 2, "-o", tmp_path / "a.dot", "-q") == 0
    drawing = export.render(tmp_path / "b.dot", layer=2)
    assert (tmp_path / "a.dot").read_bytes() == (tmp_path / "b.dot").read_bytes() == drawing.data
    assert drawing.format == "dot"
    assert export.render(layer=2, format="dot").data == drawing.data


@pytest.fixture
def cli_run() -> Callable[..., int]:
    def call(*arguments: object) -> int:
        return subprocess.run([sys.executable, "-m", "irtools", *map(str, arguments)], check=False).returncode

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output": "x.gif"}, "use one of .svg, .png, .pdf, .dot"),
        ({"format": "gif"}, "there is no format 'gif'"),
        ({"layer": 1, "full": True}, "select different pictures"),
        ({"radius": 2}, "--radius requires --around"),
    ],
)
def test_a_wrong_picture_is_an_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        irtools.open_export("fixtures/falcon").render(**arguments)


def test_report_gives_the_page_or_writes_it(tmp_path: Path) -> None:
    export = irtools.open_export("fixtures/falcon")
    page = export.report()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    again = export.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == again
    written = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
    assert written.sub("", again) == written.sub("", page)


def test_options_of_a_verification_are_one_value_or_many(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "mixtral")
    options = irtools.VerifyOptions(select=("EXP",))
    assert [finding.code for finding in export.verify(options).findings] == ["EXP003", "EXP003"]
    assert export.verify(options).findings == export.verify(select=["EXP"]).findings
    assert export.verify(options, select=()).findings, "a default is no argument"
    with pytest.raises(OptionError, match="not both"):
        export.verify(options, ignore=["VER"])


def test_exposed_outputs_come_and_go(export_copy: ExportCopy) -> None:
    directory = export_copy("falcon")
    before = (directory / "openvino_model.xml").read_bytes()
    export = irtools.open_export(directory)
    assert export.expose("1,last", concat="taps", names="h{layer}").status == "would-write"
    export.save(check=False)
    assert {name for port in export.inspect().part.ports.outputs for name in port.names} >= {"h1", "h3", "taps"}
    assert export.expose([1, 3], concat="taps", names="h{layer}").status == "unchanged"
    export.conceal("1", names="h{layer}")
    export.save(check=False)
    assert {name for port in export.inspect().part.ports.outputs for name in port.names} & {"h1", "h3"} == {"h3"}
    export.conceal()
    export.save(check=False)
    assert (directory / "openvino_model.xml").read_bytes() == before
    assert export.conceal().status == "unchanged"


def test_diff_of_two_exports(export_copy: ExportCopy) -> None:
    directory = export_copy("falcon")
    other = irtools.open_export(directory)
    other.annotate()
    other.save(check=False)
    for comparison in (
        irtools.open_export("fixtures/falcon").diff(directory),
        irtools.open_export("fixtures/falcon").diff(other),
        irtools.diff("fixtures/falcon", directory, part="target"),
    ):
        assert comparison.counts == {"annotation": 4}
    assert irtools.diff("fixtures/falcon", directory, ignore=["annotation"]).equal


# -- repr and notebooks ----------------------------------------------------------------


def seen(name: str, scratch: Path) -> Iterator[object]:
    """What a user gets from an export."""
    export = irtools.open_export(f"fixtures/{name}")
    verification, inspection, stack = export.verify(), export.inspect(), export.locate()
    comparison, footprint = export.diff("fixtures/falcon"), export.footprint()
    yield from (export, export.target, verification, inspection, stack, comparison, footprint)
    yield from (*verification.findings, *verification.rules, *verification.strategies, *footprint.terms)
    yield from (*stack.layers, *stack.verdicts, *stack.locators)
    yield from (*comparison.parts, *(region for part in comparison.parts for region in part.regions))
    yield from (export.render(layer=0, format="dot"), export.extract(scratch / "piece", layers="0", check=False))
    yield export.annotate(force=True)
    with export.edit() as editor:
        yield editor.expose("all")
    yield from (editor, editor.patch, *export.pending, *export.save(scratch / "saved", check=False))
    yield from (irtools.VerifyOptions(), irtools.ProveSettings())
    yield from (export.target.graph, inspection.part, export.render(layer=0, format="dot").picture)


@pytest.mark.parametrize("name", mostly_slow(["falcon", "scale"], fast=1))
def test_a_repr_is_one_short_line(name: str, tmp_path: Path) -> None:
    for value in seen(name, tmp_path):
        assert len(repr(value)) <= 300, repr(value)
        assert repr(value).isprintable()
        assert " object at 0x" not in repr(value)


def test_a_repr_of_long_and_hostile_names_is_one_short_line() -> None:
    finding = irtools.Finding("the message\x1b[2J" * 200, file=Path("x" * 500), line=3, code="ACME001")
    assert len(repr(finding)) <= 300
    assert repr(finding).isprintable()
    assert repr(finding).startswith("<Finding ACME001, xxx")


def test_a_repr_says_what_it_is() -> None:
    export = irtools.open_export("fixtures/falcon")
    assert repr(export.verify(select=["DFL"])) == "<Verification fixtures/falcon, 1 note>"
    assert repr(export.locate()) == "<DecoderStack 4 layers, hidden size 32, __module.transformer.h>"
    inspection = export.inspect()
    assert repr(inspection) == "<Inspection fixtures/falcon, part model>"
    assert repr(inspection.part) == "<InspectedPart model, fixtures/falcon/openvino_model.xml, 4 layers>"
    assert repr(export.target.graph).startswith("<GraphView fixtures/falcon/openvino_model.xml, ")
    assert repr(irtools.VerifyOptions(select=("EXP",))) == "<VerifyOptions select=('EXP',)>"
    assert repr(irtools.VerifyOptions()) == "<VerifyOptions>"
    assert repr(irtools.ProveSettings(device="GPU", seed=3)) == "<ProveSettings device='GPU', seed=3>"
    assert repr(export.diff("fixtures/falcon")) == "<Comparison fixtures/falcon and fixtures/falcon, equal>"


@pytest.mark.parametrize(
    "made",
    mostly_slow(
        [
            "open_export('fixtures/falcon')._repr_svg_()",
            "Document(Path('fixtures/falcon/openvino_model.xml'))._repr_svg_()",
            "open_export('fixtures/falcon').locate()._repr_svg_()",
            "open_export('fixtures/falcon').footprint()._repr_html_()",
        ],
        fast=1,
    ),
)
def test_a_notebook_shows_the_first_object_of_a_process(made: str) -> None:
    assert run(f"from pathlib import Path; import irtools; print(irtools.{made}[:2])") in ("<s", "<t", "<p")


def proof(export: irtools.Export, text: str) -> Proof:
    steps = (Step("taps", (Check("cut", "failed", "did", "saw", text),)), Step("head", why=text))
    return Proof(export, irtools.ProveSettings(), DraftSetup(), steps, {})


def test_a_repr_of_a_proof() -> None:
    export = irtools.open_export("fixtures/falcon")
    assert repr(proof(export, "why" * 500)) == "<Proof fixtures/falcon, taps failed, head not applicable>"


def test_tables_of_a_notebook_escape_what_is_in_the_files(export_copy: ExportCopy) -> None:
    hostile = "<script>alert(1)<"
    directory = export_copy("falcon", hostile)
    model = directory / "openvino_model.xml"
    text = model.read_text().replace("__module.transformer.h", "&lt;script>alert(1)&lt;/script>")
    model.write_text(text.replace("__module.lm_head", "&lt;img src=x onerror=alert(1)>"))
    model.with_name("openvino_<b>_model.xml").write_text(text)
    export = irtools.open_export(directory)
    shown = {
        "Verification": export.verify(),
        "Inspection": export.inspect(),
        "Comparison": irtools.diff(directory, "fixtures/falcon"),
        "Proof": proof(export, "<img src=x>"),
    }
    for name, value in shown.items():
        html = value._repr_html_()
        assert html is not None
        assert "<table>" in html, name
        assert not re.search(r"<(?!/?(p|b|table|thead|tbody|tr|th|td)\b)", html.replace("<b>", "")), name
        assert "&lt;" in html, name
        assert "alert(1)<" not in html, name
    assert "<td" in (export.footprint()._repr_html_() or "")


def test_a_table_has_what_the_text_says() -> None:
    export = irtools.open_export("fixtures/mixtral")
    html = export.verify(select=["EXP"])._repr_html_() or ""
    assert html.count("EXP003") == 2
    assert html.count("<tr>") == 3
    assert export.locate()._repr_svg_() is not None


def test_no_public_name_is_that_of_a_module_which_would_take_its_place() -> None:
    import pkgutil
    from importlib import import_module

    packages = [one.name for one in pkgutil.walk_packages(irtools.__path__, "irtools.") if one.ispkg]
    for package in map(import_module, ["irtools", *packages]):
        modules = {one.name for one in pkgutil.iter_modules(package.__path__)}
        assert not modules & set(getattr(package, "__all__", ())), package
