"""Parts of an export by name: every file is a part, whatever its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import irtools
from irtools.errors import ExportError
from irtools.export import Export


def export_of(directory: Path, *names: str) -> Export:
    for name in names:
        (directory / name).write_text("<net/>")
    return irtools.open_export(directory)


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (("openvino_language_model.xml", "openvino_mtp_model.xml"), {"language", "mtp"}),
        (("model.xml", "openvino_model.xml"), {"model", "openvino_model"}),
        (("openvino_vision.xml", "openvino_vision_model.xml"), {"openvino_vision", "openvino_vision_model"}),
        (("vision.xml", "openvino_vision_model.xml", "other.xml"), {"vision", "openvino_vision_model", "other"}),
        (("openvino_openvino_x.xml", "openvino_x.xml"), {"openvino_openvino_x", "x"}),
        (("openvino_.xml", "_model.xml"), {"openvino_", "_model"}),
    ],
)
def test_files_with_the_same_short_name_use_their_stems(names: tuple[str, ...], keys: set[str], tmp_path: Path) -> None:
    export = export_of(tmp_path, *names)
    assert set(export.parts) >= keys
    assert sorted(document.path.name for document in export.parts.values()) == sorted(names)
    for key, document in export.parts.items():
        assert document.part == key
        assert export.part(key) is document


def test_the_runtimes_file_goes_by_the_short_name(tmp_path: Path) -> None:
    export = export_of(tmp_path, "mtp.xml", "openvino_mtp.xml", "openvino_mtp_model.xml", "openvino_model.xml")
    assert export.mtp is not None
    assert export.mtp.path.name == "openvino_mtp_model.xml"
    assert export.part("openvino_mtp_model") is export.mtp
    assert export.part("openvino_mtp").path.name == "openvino_mtp.xml"
    assert export.target.path.name == "openvino_model.xml"
    export = export_of(tmp_path, "openvino_vision.xml", "openvino_vision_model.xml")
    assert export.part("vision").path.name == "openvino_vision_model.xml"


def test_a_single_file_among_others_of_its_name_is_the_target(tmp_path: Path) -> None:
    export_of(tmp_path, "model.xml", "openvino_model.xml")
    for name in ("model.xml", "openvino_model.xml"):
        assert irtools.open_export(tmp_path / name).target.path == tmp_path / name


def test_an_unknown_name_lists_the_parts(tmp_path: Path) -> None:
    export = export_of(tmp_path, "model.xml", "openvino_model.xml")
    with pytest.raises(ExportError, match="no part 'mtp'; it has target, model, openvino_model"):
        export.part("mtp")


STEMS = st.lists(
    st.lists(st.sampled_from(["openvino_", "_model", "model", "x"]), min_size=1, max_size=4).map("".join),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(stems=STEMS)
def test_every_file_is_a_part(stems: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    export = export_of(tmp_path_factory.mktemp("export"), *(f"{stem}.xml" for stem in stems))
    assert sorted(document.path.stem for document in export.parts.values()) == sorted(stems)


def test_an_error_about_the_target_has_its_advice_apart(tmp_path: Path) -> None:
    export = export_of(tmp_path, "openvino_tokenizer.xml", "openvino_detokenizer.xml")
    with pytest.raises(ExportError) as caught:
        _ = export.target
    assert caught.value.hint == "give an OpenVINO export"
    assert str(caught.value) == f"{tmp_path}: {caught.value.args[0]}; give an OpenVINO export"
    assert ";" not in caught.value.args[0]


def test_the_revisions_of_a_repository_in_a_cache_are_named(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "0123abcd").mkdir(parents=True)
    (tmp_path / "snapshots" / "0123abcd" / "openvino_model.xml").touch()
    with pytest.raises(ExportError, match=r"did you mean .*/snapshots/0123abcd\?"):
        _ = export_of(tmp_path).target


def test_a_checkpoint_is_named_with_the_command_that_exports_it(tmp_path: Path) -> None:
    export = export_of(tmp_path, "model-2.safetensors", "model-1.safetensors", "config.json")
    with pytest.raises(ExportError, match=r"it holds model-1\.safetensors, .* `optimum-cli export openvino --model "):
        _ = export.target
