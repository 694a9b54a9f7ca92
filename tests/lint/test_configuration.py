"""Configuration files: search, trust and error messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.authoring import Severity
from irtools.errors import UsageError
from irtools.lint.configuration import find_config, load_config
from irtools.lint.session import VerifyCall, verify_model

ALL = """
select = ["exp", "HID001"]
ignore = ["EXP011"]
fail-on = "warning"
target-runtime = "2026.3"
expect-mtp = false
rules = ["lint"]
baseline = "known.json"

[severity]
EXP003 = "note"

[per-file-ignores]
"openvino_tok*.xml" = ["EXP"]
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "irtools.toml").write_text(ALL)

    config = load_config(tmp_path / "irtools.toml")

    assert (config.select, config.ignore) == (("exp", "HID001"), ("EXP011",))
    assert (config.fail_on, config.target_runtime, config.expect_mtp) == (Severity.WARNING, "2026.3", False)
    assert (config.rules, config.baseline) == ((tmp_path / "lint",), tmp_path / "known.json")
    assert config.severity == {"EXP003": Severity.NOTE}
    assert config.per_file_ignores == {"openvino_tok*.xml": ("EXP",)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("select = 'IR'", r"select must be a list of strings, not 'IR'"),
        ("ignore = [1]", r"ignore must be a list of strings"),
        ("fail-on = 'fatal'", r"fail-on: 'fatal' is not a severity.*error, warning or note"),
        ("expect-mtp = 'yes'", r"expect-mtp must be true or false, not 'yes'"),
        ("colour = true", r"unknown key 'colour'.*The keys are"),
        ("severity = 3", r"severity must be a table"),
        ("[severity]\nIR001 = 'bad'", r"severity.IR001: 'bad' is not a severity"),
        ("[per-file-ignores]\n'*' = 'IR'", r"per-file-ignores.\* must be a list of strings"),
        ("select = [", r"is not valid TOML"),
        ("select = ['\xff']", r"is not UTF-8"),
    ],
)
def test_mistakes_are_named_with_the_file(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "irtools.toml"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(UsageError, match=rf"irtools\.toml: {message}"):
        load_config(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml: cannot be read"):
        load_config(tmp_path / "nothing.toml")


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "irtools.toml").write_text("")
    assert find_config(inner)[0] == tmp_path / "irtools.toml"

    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert find_config(inner)[0] == tmp_path / "irtools.toml"

    (tmp_path / "a" / "pyproject.toml").write_text("[tool.irtools]\nignore = ['IR']\n")
    assert find_config(inner)[0] == tmp_path / "a" / "pyproject.toml"
    assert load_config(tmp_path / "a" / "pyproject.toml").ignore == ("IR",)


def test_somebody_elses_broken_pyproject_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.irtools\n")

    assert find_config(tmp_path) == (None, ())


# -- trust -------------------------------------------------------------------------------


@pytest.fixture
def model(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An export with a configuration that hides its faults."""
    directory = export_copy("mixtral")
    (directory / "irtools.toml").write_text("ignore = ['EXP003', 'HID', 'DFL']")
    monkeypatch.chdir(tmp_path)
    return directory


def codes(path: Path, **call: object) -> list[str]:
    verification = verify_model(path, VerifyCall(**call)).verification
    assert verification is not None
    return [finding.code for finding in verification.findings]


def test_file_inside_the_export_does_not_count(model: Path) -> None:
    assert codes(model).count("EXP003") == 2
    (note,) = verify_model(model, VerifyCall()).config_notes
    assert "irtools.toml lies beside an IR" in note


def test_file_inside_the_export_counts_when_trusted(model: Path) -> None:
    assert codes(model, trust_model_config=True) == []


def test_nor_does_it_count_from_within(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(model)
    (tmp_path / "irtools.toml").write_text("ignore = ['EXP003']")

    assert "EXP003" not in codes(Path())  # the file above applies
    (tmp_path / "irtools.toml").unlink()
    assert codes(Path()).count("EXP003") == 2


def test_nor_does_it_count_by_a_link(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)

    assert codes(tmp_path / "link").count("EXP003") == 2


def test_nor_when_named(model: Path) -> None:
    with pytest.raises(UsageError, match="lies beside an IR or inside an export"):
        verify_model(model, VerifyCall(config=model / "irtools.toml"))

    assert codes(model, config=model / "irtools.toml", trust_model_config=True) == []


def test_it_never_names_code_to_run(model: Path) -> None:
    (model / "irtools.toml").write_text("rules = ['.']")
    (model / "evil.py").write_text("raise SystemExit('this ran')")

    for call in (
        VerifyCall(trust_model_config=True),
        VerifyCall(trust_model_config=True, config=model / "irtools.toml"),
    ):
        notes = verify_model(model, call).config_notes
        assert any("`rules` is ignored" in note and "--rules" in note for note in notes)


def test_command_line_goes_before_the_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "irtools.toml").write_text("select = ['HID']\nignore = ['HID001']\nfail-on = 'note'")

    assert codes(model) == []
    assert codes(model, select=("EXP003",)) == ["EXP003", "EXP003"]
    assert verify_model(model, VerifyCall()).threshold is Severity.NOTE
    assert verify_model(model, VerifyCall(fail_on=Severity.ERROR)).threshold is Severity.ERROR


def test_expected_compression_is_one_for_all_or_by_part(tmp_path: Path) -> None:
    path = tmp_path / "irtools.toml"
    path.write_text('expect-compression = "int4_asym:64"')
    assert load_config(path).expect_compression == {"": "int4_asym:64"}
    path.write_text('[expect-compression]\nmtp = "int8_sym"')
    assert load_config(path).expect_compression == {"mtp": "int8_sym"}
    for wrong in ('expect-compression = "int5"', "expect-compression = 4", "[expect-compression]\nmtp = 4"):
        path.write_text(wrong)
        with pytest.raises(UsageError, match="expect-compression"):
            load_config(path)


def test_rules_are_named_and_a_wrong_name_names_the_file(
    export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = export_copy("mixtral")
    monkeypatch.chdir(tmp_path)
    settings = "select = ['missing-tokenizer']\n[severity]\nMissing-Tokenizer = 'note'\n"
    (tmp_path / "irtools.toml").write_text(settings)
    found = verify_model(model, VerifyCall()).verification
    assert found is not None
    assert {(finding.code, finding.severity) for finding in found.findings} == {("EXP003", Severity.NOTE)}
    (tmp_path / "irtools.toml").write_text("ignore = ['missing-tokeniser']\n")
    with pytest.raises(UsageError, match=r"irtools\.toml: there is no rule .* Did you mean 'missing-tokenizer'"):
        verify_model(model, VerifyCall())
