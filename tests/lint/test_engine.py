"""Selection of rules, processing of findings, and faulty rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.authoring import Severity
from irtools.errors import ExportError, UsageError
from irtools.lint.engine import VerifyOptions, verify
from irtools.lint.rule import find_rule, load_rules
from irtools.lint.versions import matches
from irtools.model.decoding import STRATEGIES
from irtools.model.versions import parse_version, release_numbers

RULE = '''
from irtools.authoring import Finding, Severity, rule

@rule("{code}", "{name}", Severity.WARNING, "A title"{more})
def check(context):
    """A title."""
    {body}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A folder with one rule."""

    def make(body: str, code: str = "ACME001", name: str = "acme-rule", more: str = "") -> Path:
        path = tmp_path / "rules"
        path.mkdir()
        (path / "acme.py").write_text(RULE.format(body=body, code=code, name=name, more=more))
        return path

    return make


def codes(directory: Path, **options: object) -> set[str]:
    return {finding.code for finding in irtools.open_export(directory).verify(**options).findings}


# -- selection ---------------------------------------------------------------------------


def test_groups_and_codes_select_rules(fixtures: Path) -> None:
    assert codes(fixtures / "mixtral", select=["EXP"]) == {"EXP003"}
    assert codes(fixtures / "mixtral", select=["HID001"]) == {"HID001"}
    assert codes(fixtures / "mixtral", ignore=["HID", "EXP003", "DFL"]) == set()


def test_a_code_counts_more_than_a_group(fixtures: Path) -> None:
    assert codes(fixtures / "mixtral", select=["EXP", "HID001"], ignore=["EXP003"]) == {"HID001"}
    assert codes(fixtures / "mixtral", select=["EXP003"], ignore=["EXP"]) == {"EXP003"}


def test_unknown_selector_is_refused(fixtures: Path) -> None:
    with pytest.raises(UsageError, match=r"no rule or group 'EXQ'.*The groups are"):
        codes(fixtures / "falcon", select=["EXQ"])


def test_rules_of_other_runtimes_do_not_run(fixtures: Path, folder: Callable[..., Path]) -> None:
    rules = folder("yield Finding('old')", more=', runtimes="<2026.3"')

    assert "ACME001" in codes(fixtures / "falcon", rules=[rules], target_runtime="2026.2")
    assert "ACME001" not in codes(fixtures / "falcon", rules=[rules], target_runtime="2026.3")


def test_target_runtime_must_be_a_version(fixtures: Path) -> None:
    with pytest.raises(UsageError, match="'latest' is not a runtime version"):
        codes(fixtures / "falcon", target_runtime="latest")


@pytest.mark.parametrize(
    ("specifier", "version", "meets"),
    [
        ("", "2026.4", True),
        (">=2026.3,<2027", "2026.4.1", True),
        (">=2026.3,<2027", "2027.0", False),
        ("==2026.4", "2026.4.1", True),
        (">2026.4", "2026.4.1", False),
        ("<=2026.4", "2026.4.1", True),
        ("!=2026.4", "2026.10", True),
        ("!=2026.4", "2026.4.1", False),
        ("~=2026.3", "2026.4.1", True),
        ("==2026.*", "2026.4.1", True),
        (">=2026.3,", "2026.4.1-22982-e213a147257-releases/2026/4", True),
        ("<2026.4", "no version", True),
        (">=2026.4", "9" * 5000, True),
    ],
)
def test_version_specifiers(specifier: str, version: str, meets: bool) -> None:
    assert matches(specifier, version) is meets


@pytest.mark.parametrize("specifier", ["2026.4", ">=new", "=2026.4", "===new", ">=" + "9" * 5000])
def test_malformed_version_specifiers_are_refused(specifier: str) -> None:
    with pytest.raises(UsageError, match="is not a version specifier"):
        matches(specifier, "2026.4")


def test_versions_with_absurd_numbers_are_compared() -> None:
    assert parse_version("9" * 5000) > parse_version("2026.4")
    assert parse_version("no version") == ()
    assert release_numbers("2026.10000000") > release_numbers("2026.9999999")
    assert release_numbers("no version") == (0, 0)


# -- findings ----------------------------------------------------------------------------


def test_findings_are_filled_in_and_sorted(fixtures: Path) -> None:
    findings = irtools.open_export(fixtures / "bert").verify().findings

    assert all((f.code and f.severity is not None and f.part is not None) or f.file for f in findings)
    keys = [(str(f.file), f.line or 0, f.code) for f in findings]
    assert keys == sorted(keys)


def test_severities_can_be_changed(fixtures: Path) -> None:
    options = VerifyOptions(severities={"EXP003": Severity.NOTE, "HID": Severity.ERROR})
    findings = verify(irtools.open_export(fixtures / "mixtral"), options).findings

    assert {f.severity for f in findings if f.code == "EXP003"} == {Severity.NOTE}
    assert {f.severity for f in findings if f.code == "HID001"} == {Severity.ERROR}


def test_findings_of_a_file_can_be_ignored(fixtures: Path) -> None:
    options = VerifyOptions(per_file_ignores={"openvino_tok*.xml": ("EXP",), "openvino_model.xml": ("HID001", "DFL")})
    findings = verify(irtools.open_export(fixtures / "mixtral"), options).findings

    assert [(f.code, f.file.name) for f in findings if f.file] == [("EXP003", "openvino_detokenizer.xml")]


def test_one_file_is_judged_with_its_directory_around_it(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3_5_vl")
    mtp = directory / "openvino_mtp_model.xml"
    mtp.write_bytes(mtp.read_bytes().replace(b'names="hidden_states"', b'names="hidden"'))
    (directory / "openvino_tokenizer.xml").unlink()

    assert codes(mtp) == {"MTP010"}
    assert "EXP003" in codes(directory)


def test_one_of_two_targets_can_be_named(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    for suffix in ("xml", "bin"):
        (directory / f"openvino_language_model.{suffix}").write_bytes(
            (directory / f"openvino_model.{suffix}").read_bytes()
        )

    assert "EXP002" in codes(directory)
    assert codes(directory / "openvino_model.xml") == {"HID001", "DFL020"}


def test_nothing_to_verify(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no \.xml here"):
        codes(tmp_path)


def test_a_folder_of_exports_names_them(tmp_path: Path) -> None:
    for name in ("a", "b", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "openvino_model.xml").touch()
    (tmp_path / "b" / "openvino_language_model.xml").touch()

    with pytest.raises(ExportError, match=rf"no \.xml here.*; did you mean {tmp_path}/a, {tmp_path}/b\?$"):
        codes(tmp_path)
    with pytest.raises(ExportError, match=rf"no \.xml at all\); did you mean {tmp_path}/a, {tmp_path}/b\?$"):
        irtools.open_export(tmp_path).locate()


def test_an_encoder_decoder_export_is_called_one(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("zoo/t5", to="t5")
    (directory / "openvino_encoder_model.xml").write_bytes((directory / "openvino_decoder_model.xml").read_bytes())

    (finding,) = irtools.open_export(directory).verify(select=["EXP001"]).findings

    assert finding.message.startswith("this is an encoder-decoder export")


def test_working_directory_without_target(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = export_copy("falcon")
    (directory / "openvino_model.xml").unlink()
    monkeypatch.chdir(directory)

    assert "EXP001" in codes(Path())


def test_several_broken_parts_do_not_hide_each_other(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3_5_vl")
    (directory / "openvino_mtp_model.xml").write_bytes(b"")
    text = directory / "openvino_text_embeddings_model.xml"
    text.write_bytes(text.read_bytes().replace(b"<dim>32<", b"<dim>x<"))
    (directory / "config.json").write_text("{")

    pairs = {(f.code, f.file.name) for f in irtools.open_export(directory).verify().findings if f.file}

    assert {
        ("IR001", "openvino_mtp_model.xml"),
        ("IR010", "openvino_text_embeddings_model.xml"),
        ("EXP010", "config.json"),
    } <= pairs


# -- rules of users ----------------------------------------------------------------------


def test_rule_of_a_folder_runs(fixtures: Path, folder: Callable[..., Path]) -> None:
    rules = folder("yield Finding(f'{len(context.documents)} parts', file=context.target.path, line=3)")

    findings = [
        f for f in irtools.open_export(fixtures / "falcon").verify(rules=[rules]).findings if f.code == "ACME001"
    ]

    assert [(f.message, f.severity, f.line, f.part) for f in findings] == [("3 parts", Severity.WARNING, 3, "model")]


def modes(directory: Path, **options: object) -> dict[str, tuple[bool, str, tuple[str, ...]]]:
    found = irtools.open_export(directory).verify(**options).strategies
    return {mode.name: (mode.available, mode.reason, mode.findings) for mode in found}


def test_error_of_a_user_rules_out_no_mode_by_default(fixtures: Path, folder: Callable[..., Path]) -> None:
    rules = folder("yield Finding('no licence', severity=Severity.ERROR)")

    assert modes(fixtures / "qwen3_5_vl", rules=[rules]) == modes(fixtures / "qwen3_5_vl")


@pytest.mark.parametrize(("severity", "refused"), [("ERROR", {"mtp", "dflash"}), ("WARNING", set())])
def test_rule_names_the_modes_that_its_errors_rule_out(
    fixtures: Path, folder: Callable[..., Path], severity: str, refused: set[str]
) -> None:
    rules = folder(f"yield Finding('no', severity=Severity.{severity})", more=', rules_out=("mtp", "dflash")')

    found = modes(fixtures / "qwen3_5_vl", rules=[rules], ignore=["ACME"])

    assert {name for name, (available, _, _) in found.items() if not available} == {*refused, "draft"}
    assert all(found[name] == (False, "no", ("ACME001",)) for name in refused)


def test_finding_itself_names_the_modes_that_it_rules_out(fixtures: Path, folder: Callable[..., Path]) -> None:
    body = "yield Finding('no', severity=Severity.NOTE, rules_out=('eagle3',), needs={'plain': 'with care'})"

    found = modes(fixtures / "qwen3_5_vl", rules=[folder(body)])

    assert found["eagle3"] == (False, "no", ("ACME001",))
    assert found["plain"] == (True, "with care", ("ACME001",))
    assert found["mtp"][0]


def test_fault_of_the_head_leaves_the_other_modes(fixtures: Path, folder: Callable[..., Path]) -> None:
    body = "yield Finding('no', file=context.mtp.path, severity=Severity.ERROR)"

    found = modes(fixtures / "qwen3_5_vl", rules=[folder(body, more=', rules_out=("plain", "mtp", "dflash")')])

    assert [name for name, (available, _, _) in found.items() if not available] == ["mtp", "draft"]


def test_rules_name_modes_that_exist() -> None:
    assert {mode for rule in load_rules() for mode in rule.rules_out or ()} == set(STRATEGIES)


def test_rule_that_raises_is_named(fixtures: Path, folder: Callable[..., Path]) -> None:
    rules = folder("yield 1 / 0")

    with pytest.raises(UsageError, match=r"rule ACME001 \(acme-rule\) of .*acme\.py failed: ZeroDivisionError"):
        codes(fixtures / "falcon", rules=[rules])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("yield 'a string'", "it yields 'a string', which is not a Finding"),
        ("yield Finding(['x'])", r"it yields a Finding whose message is \['x'\]"),
        ("yield Finding('x', rules_out='mtp')", "it yields a Finding whose rules_out is 'mtp'"),
        ("yield Finding('x', file='model.xml')", "it yields a Finding whose file is 'model.xml'"),
        ("return 5", "'int' object is not iterable"),
    ],
)
def test_rule_that_yields_something_else_is_named(
    fixtures: Path, folder: Callable[..., Path], body: str, message: str
) -> None:
    with pytest.raises(UsageError, match=rf"rule ACME001 \(acme-rule\) of .*acme\.py failed: TypeError: {message}"):
        codes(fixtures / "falcon", rules=[folder(body)])


def test_folder_with_a_syntax_error_is_named(fixtures: Path, folder: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=r"acme\.py: cannot be loaded: SyntaxError"):
        codes(fixtures / "falcon", rules=[folder("yield (")])


def test_missing_folder_is_named(fixtures: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such folder of rules"):
        codes(fixtures / "falcon", rules=[tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("IR001", "acme-rule", "two rules have the code IR001"),
        ("ACME001", "missing-target", "two rules have the name 'missing-target'"),
        ("acme1", "acme-rule", "the rule code 'acme1' is malformed"),
    ],
)
def test_codes_and_names_are_unique(folder: Callable[..., Path], code: str, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_rules([folder("yield", code=code, name=name)])


def test_rules_are_found_by_code_and_name() -> None:
    rules = load_rules()

    assert find_rule(rules, "ir007") is find_rule(rules, "short-weights")
    with pytest.raises(UsageError, match="no rule 'IR999'"):
        find_rule(rules, "IR999")


HEADINGS = ["What it checks", "Why it matters", "How to fix it", "Source"]


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.code)
def test_every_rule_explains_itself(rule: object) -> None:
    lines = rule.explanation.splitlines()  # type: ignore[attr-defined]
    headings = [lines[i - 1] for i, line in enumerate(lines) if line and set(line) == {"-"}]

    assert headings == HEADINGS
    assert rule.name == rule.name.lower()  # type: ignore[attr-defined]
    assert not rule.title.endswith(".")  # type: ignore[attr-defined]
