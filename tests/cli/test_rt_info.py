"""``irtools rt-info``: entries as OpenVINO reads them, and files restored byte by byte."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import openvino as ov
import pytest

import irtools
from irtools.errors import EditError
from tests.cli.conftest import Done

KV = "runtime_options/KV_CACHE_PRECISION"
NEW = ("runtime_options/DYNAMIC_QUANTIZATION_GROUP_SIZE=32", "a/b/c=1", "a/b/d=x <y>", "zz=", "a key/of two=2")


@pytest.fixture
def xml(export_copy: Callable[..., Path]) -> Path:
    return export_copy("llama") / "openvino_model.xml"


def read(xml: Path, *path: str) -> str:
    value = ov.Core().read_model(xml).get_rt_info(list(path)).value
    assert isinstance(value, str)
    return value


def test_nested_entries_are_those_that_openvino_reads(xml: Path, cli: Callable[..., Done]) -> None:
    done = cli("rt-info", "set", xml.parent, f"{KV}=u8", *NEW)
    assert (done.code, done.err) == (0, "")
    assert f"{KV}: f16 -> u8\n" in done.out
    assert read(xml, "runtime_options", "KV_CACHE_PRECISION") == "u8"
    assert read(xml, "runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE") == "32"
    assert read(xml, "a", "b", "d") == "x <y>"
    assert read(xml, "a key", "of two") == "2"
    assert read(xml, "zz") == ""


def test_the_printed_command_restores_every_byte(xml: Path, cli: Callable[..., Done]) -> None:
    before = xml.read_bytes()
    out = cli("rt-info", "set", xml.parent, f"{KV}=u8", *NEW).out
    assert xml.read_bytes() != before
    (undo,) = [line.removeprefix("undo: ") for line in out.splitlines() if line.startswith("undo: ")]
    for command in undo.split(" && "):
        assert cli(*shlex.split(command)[1:]).code == 0
    assert xml.read_bytes() == before


def test_no_command_is_printed_that_cannot_be_pasted(xml: Path, cli: Callable[..., Done]) -> None:
    cli("rt-info", "set", xml.parent, "note=one\ntwo")
    before = xml.read_bytes()
    done = cli("rt-info", "set", xml.parent, "note=three")
    assert "undo: no command on one line" in done.out
    assert "rt-info set" not in done.out
    xml.write_bytes(before)
    (model,) = json.loads(cli("rt-info", "set", xml.parent, "note=three", "--format", "json").out)["models"]
    assert cli(*shlex.split(model["undo"][0])[1:]).code == 0
    assert xml.read_bytes() == before


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 1, 3, 0, 4)])
def test_new_entries_are_removed_in_any_order(order: tuple[int, ...], xml: Path) -> None:
    export = irtools.open_export(xml)
    for entry in NEW:
        with export.edit() as e:
            e.set_rt_info(*entry.split("="))
    for place in order:
        with export.edit() as e:
            e.set_rt_info(NEW[place].split("=")[0], None)
    assert export.pending == ()


@pytest.mark.parametrize(
    "container", [b"", b"<rt_info/>", b"\n\t<rt_info>\n\t</rt_info>\n", b"<rt_info><a/></rt_info>"]
)
def test_missing_and_empty_groups_are_restored(container: bytes, xml: Path) -> None:
    data = xml.read_bytes()
    start, end = data.rindex(b"<rt_info>"), data.rindex(b"</rt_info>") + len(b"</rt_info>")
    xml.write_bytes(data[:start] + container + data[end:])
    export = irtools.open_export(xml)
    for key, value in (("a/b/c", 1), ("a/d", 0.5), ("a/b/c", None), ("a/d", None)):
        with export.edit() as e:
            e.set_rt_info(key, value)
        if key == "a/d" and value is not None:
            written = export.save(xml.parent.parent / "new", check=False)[0].path
            assert [read(written, "a", "b", "c"), read(written, "a", "d")] == ["1", "0.5"]
    assert export.pending == ()


def test_an_old_file_gets_no_group_that_openvino_cannot_read(xml: Path) -> None:
    data = xml.read_bytes()
    start, end = data.rindex(b"<rt_info>"), data.rindex(b"</rt_info>") + len(b"</rt_info>")
    xml.write_bytes(data[:start] + b"<meta_data></meta_data>" + data[end:])
    export = irtools.open_export(xml)
    with pytest.raises(EditError, match="an old form of rt_info"), export.edit() as e:
        e.set_rt_info("a/b", "1")
    with export.edit() as e:
        e.set_rt_info("a", "1")
    export.save(check=False)
    assert read(xml, "a") == "1"


def test_a_removed_entry_goes_back_to_its_place(xml: Path, cli: Callable[..., Done]) -> None:
    before = xml.read_bytes()
    assert cli("rt-info", "remove", xml.parent, KV, "optimum/optimum_version").code == 0
    assert cli("rt-info", "set", xml.parent, f"{KV}=f16", "optimum/optimum_version=2.3.0").code == 0
    assert xml.read_bytes() == before


def test_what_does_not_restore_every_byte_says_so(xml: Path, cli: Callable[..., Done]) -> None:
    assert (
        "\nundo (entries, not every byte): irtools rt-info set " in cli("rt-info", "remove", xml.parent, "optimum").out
    )


def test_no_group_is_replaced_silently(xml: Path, cli: Callable[..., Done]) -> None:
    before = xml.read_bytes()
    for entry in ("runtime_options=u8", "Runtime_version/x=1"):
        done = cli("rt-info", "set", xml.parent, entry)
        assert (done.code, done.out) == (2, "")
        assert "force its replacement" in done.err
    with pytest.raises(EditError, match="is a group"), irtools.open_export(xml).edit() as e:
        e.set_rt_info("runtime_options", "u8")
    assert xml.read_bytes() == before
    assert cli("rt-info", "set", xml.parent, "runtime_options=u8", "--force").code == 0
    assert read(xml, "runtime_options") == "u8"


def test_values_are_text_numbers_and_bools(xml: Path) -> None:
    export = irtools.open_export(xml)
    with export.edit() as e:
        for key, value in (("i", 8), ("f", 0.5), ("b", True)):
            e.set_rt_info(["values", key], value)
        for bad in (["a"], {"a": 1}, b"x"):
            with pytest.raises(EditError, match="is not a value"):
                e.set_rt_info("k", bad)  # type: ignore[arg-type]
        with pytest.raises(EditError, match="is not the key"):
            e.set_rt_info(8, "x")  # type: ignore[arg-type]
    export.save(check=False)
    assert [read(xml, "values", key) for key in "ifb"] == ["8", "0.5", "true"]


def test_long_values_are_shortened_unless_asked_for(xml: Path, cli: Callable[..., Done]) -> None:
    long = "<x>" + "y" * 5000
    assert cli("rt-info", "set", xml.parent, f"my_note={long}").code == 0
    shown = cli("rt-info", "show", xml.parent).out
    assert "my_note" in shown
    assert "(5,003 characters)" in shown
    assert long not in shown
    assert long in cli("rt-info", "show", xml.parent, "my_note", "--full").out
    entries = json.loads(cli("rt-info", "show", xml.parent, "my_note", "--format", "json").out)["models"][0]["entries"]
    assert entries == {"my_note": {"value": long, "origin": "unknown"}}
    assert "my_note: <x>yyy" in cli("inspect", xml.parent).out
    cli("report", xml.parent, "-o", xml.parent / "page.html")
    assert "y" * 3000 not in (xml.parent / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "{}", "key"), "'key' is not KEY=VALUE"),
        (("set", "{}", "a=1", "a=2"), "'a' is given twice"),
        (("set", "{}", "a//b=1"), "write a key, or group/key"),
        (("set", "a=1", "b=1"), "give MODEL_DIR before 'a=1'"),
        (("show", "{}", "Runtime_versio"), "Did you mean 'Runtime_version'?"),
    ],
)
def test_wrong_calls_are_one_line(
    arguments: tuple[str, ...], message: str, fixtures: Path, cli: Callable[..., Done]
) -> None:
    done = cli("rt-info", *(word.format(fixtures / "llama") for word in arguments))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


def test_what_would_change_is_not_written(xml: Path, cli: Callable[..., Done]) -> None:
    before = xml.read_bytes()
    done = cli("rt-info", "set", xml.parent, f"{KV}=u8", "--diff")
    assert done.code == 1
    assert '+\t\t\t<KV_CACHE_PRECISION value="u8" />' in done.out
    assert cli("rt-info", "remove", xml.parent, "nothing").out.endswith("has no entry nothing; nothing written\n")
    assert cli("rt-info", "set", xml.parent, f"{KV}=u8", "-o", xml.parent.parent / "new").code == 0
    assert xml.read_bytes() == before
    assert read(xml.parent.parent / "new" / xml.name, "runtime_options", "KV_CACHE_PRECISION") == "u8"
