"""Edits of rt_info, compared byte by byte and checked with lxml and OpenVINO."""

from __future__ import annotations

from pathlib import Path

import openvino as ov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from irtools.errors import InvalidIRError
from irtools.ir.rt_info import ANNOTATION_KEY, entries, read_rt_info, remove_entry, set_entry
from irtools.ir.scan import scan_ir
from tests.marks import mostly_slow

KEY = ANNOTATION_KEY
LOOP = (
    '<layer id="1" name="loop" type="Loop" version="opset5"><body><layers><layer id="0" name="x" type="Result" '
    'version="opset1"/></layers><edges/><rt_info>{0}<info name="{1}" value="of the body"/></rt_info></body></layer>'
)


def lxml_value(data: bytes, key: str = KEY) -> str | None:
    """Value that OpenVINO reads, determined without irtools."""
    net = etree.fromstring(data)
    container, by_name = net.find("rt_info"), True
    if container is None:
        container, by_name = net.find("meta_data"), False
    value = None
    for child in container if container is not None else ():
        if isinstance(child.tag, str) and ((by_name and child.get("name")) or child.tag) == key:
            value = child.get("value")
    return value


def document(container: str, eol: str = "\n", unit: str = "\t", end: str = "</net>\n") -> bytes:
    lines = ['<?xml version="1.0"?>', '<net name="m" version="11">', f"{unit}<layers>"]
    lines += [f'{unit}{unit}<layer id="0" name="p" type="Parameter" version="opset1"/>', f"{unit}</layers>"]
    lines += [f"{unit}<edges />"]
    return (eol.join(lines) + eol + container.replace("\n", eol) + end.replace("\n", eol)).encode()


def check(data: bytes, value: str = "v") -> bytes:
    """Set an entry, compare with lxml, remove it and compare with the original; returns the annotated file."""
    annotated = set_entry(scan_ir(data), KEY, value)
    assert lxml_value(annotated) == value
    if b"irtools-replaced" not in annotated:
        size, more = len(data), len(annotated) - len(data)
        assert any(data[:at] == annotated[:at] and data[at:] == annotated[at + more :] for at in range(size)), (
            "exactly one piece was inserted"
        )
    assert remove_entry(scan_ir(annotated), KEY) == data
    return annotated


# -- any file --------------------------------------------------------------------------

xml_text = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff")
    | st.sampled_from("\n\t\r<&\"'>"),
    max_size=20,
)
names = st.sampled_from(
    ["Runtime_version", "a", "zz", "hidden", "hidden_states_decoder_layers2", "nncf", "Zed", "hidden-z", "info", "x.y"]
)
keys = st.sampled_from(["OpenVINO Runtime", "1num", "hidden states", "zz top", "é", "k:x"])


def quoted(value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "&#10;").replace("\t", "&#x9;")
    value = value.replace("\r", "&#13;")
    return f"'{value}'" if '"' in value and "'" not in value else f'"{value.replace(chr(34), "&quot;")}"'


@st.composite
def entry(draw: st.DrawFn, space: str) -> str:
    kind = draw(st.integers(0, 7))
    tail = draw(st.sampled_from(["/>", " />", "\t/>"]))
    if kind == 0:
        return f"<info name={quoted(draw(keys))} value={quoted(draw(xml_text))}{tail}"
    if kind == 1:
        return f"<{draw(names)} other='name=\"{KEY}\"' value = {quoted(draw(xml_text))}{tail}"
    if kind == 2:
        inner = space.join(f'<{KEY} value="nested"{tail}' for _ in range(draw(st.integers(0, 2))))
        return f"<optimum>{inner}</optimum>"
    if kind == 3:
        return f'<!-- <{KEY} value="comment"/> -->'
    if kind == 4:
        return "text, which OpenVINO ignores"
    if kind == 5:
        return f"<{draw(names)}{tail}"
    if kind == 6:
        return f'<![CDATA[<{KEY} value="c"/>]]>'
    return f"<a value='{KEY}'></a>"


@st.composite
def container(draw: st.DrawFn, name: str, space: str) -> str:
    kind = draw(st.integers(0, 4))
    attributes = draw(st.sampled_from(["", "", " a='1'", ' b="<rt_info>"'.replace("<", "&lt;"), "\n c='2'"]))
    if kind == 0:
        return f"<{name}{attributes}{draw(st.sampled_from(['', ' ', space]))}/>"
    if kind == 1:
        return f"<{name}{attributes}></{name}{draw(st.sampled_from(['', ' ']))}>"
    if kind == 2:
        return f"<{name}{attributes}>{draw(st.sampled_from([' ', space, space + ' ', space * 2]))}</{name}>"
    body = space.join(draw(st.lists(entry(space), min_size=1, max_size=6)))
    return (
        f"<{name}{attributes}>{draw(st.sampled_from(['', space]))}{body}{draw(st.sampled_from(['', space]))}</{name}>"
    )


@st.composite
def ir_like(draw: st.DrawFn) -> bytes:
    eol = draw(st.sampled_from(["\n", "\r\n", "", "\r", "\n\n"]))
    space = eol + draw(st.sampled_from(["", "\t", "  ", "    "]))
    head = draw(
        st.sampled_from(["", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"])
    )
    layers = ['<layer id="0" name="p" type="Parameter" version="opset1"/>']
    if draw(st.booleans()):
        layers.append(LOOP.format(draw(st.sampled_from(["", "<rt_info />"])), KEY))
    parts = [
        f"<layers>{space}{space.join(layers)}{space}</layers>",
        draw(st.sampled_from(["<edges/>", "<edges></edges>"])),
    ]
    blocks = draw(st.lists(st.sampled_from(["rt_info", "rt_info", "meta_data", "quantization_parameters"]), max_size=3))
    for block in blocks:
        parts.insert(draw(st.integers(0, len(parts))), draw(container(block, space)))
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(
            draw(st.integers(0, len(parts))),
            draw(st.sampled_from([f"<!-- <rt_info><{KEY}/></rt_info> -->", "<?p <rt_info>?>"])),
        )
    tail = draw(st.sampled_from([space, "", eol, "  ", "text"]))
    end = draw(st.sampled_from(["", eol, eol * 2, " <!-- end -->"]))
    text = f'{head}{eol if head else ""}<net name="m" version="11">{space}{space.join(parts)}{tail}</net>{end}'
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


@pytest.mark.parametrize("examples", mostly_slow([150, 1000], fast=1))
def test_removing_a_set_entry_restores_the_file(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(data=ir_like(), value=xml_text)
    def restores(data: bytes, value: str) -> None:
        assert lxml_value(data) is None
        check(data, value)

    restores()


@settings(max_examples=100, deadline=None)
@given(data=ir_like(), first=xml_text, second=xml_text)
def test_setting_again_replaces_the_value(data: bytes, first: str, second: str) -> None:
    once = set_entry(scan_ir(data), KEY, second)
    assert set_entry(scan_ir(once), KEY, second) == once
    assert set_entry(scan_ir(set_entry(scan_ir(data), KEY, first)), KEY, second) == once


# -- position and spelling of a new entry -------------------------------------------------


def test_a_new_entry_is_sorted_among_its_siblings_like_openvino_sorts() -> None:
    data = document(
        '\t<rt_info>\n\t\t<info name="OpenVINO Runtime" value="1" />\n\t\t<a value="1" />\n\t\t'
        '<info name="hidden states" value="1" />\n\t\t<hidden_states_decoder_layers2 value="1" />\n\t</rt_info>\n'
    )
    before = b'\t\t<hidden_states_decoder_layers2 value="1" />\n'
    assert check(data) == data.replace(before, f'\t\t<{KEY} value="v" />\n'.encode() + before)


def test_openvino_sorts_the_same_way(tmp_path: Path) -> None:
    """An entry set by irtools gives the same bytes as a file that OpenVINO wrote with the entry."""
    value = "q\"<>&'\n\t\r é 中 \x7f end"
    parameter = ov.opset13.parameter([1], name="x")
    model = ov.Model([ov.opset13.result(parameter)], [parameter], "m")
    for key in ("a b", "zz", "hidden states", "hidden_state", KEY + "2", KEY + " x", "Zed", "_u", "1", "é", "h", "i"):
        model.set_rt_info("1", key)
    ov.save_model(model, tmp_path / "without.xml")
    model.set_rt_info(value, KEY)
    ov.save_model(model, tmp_path / "with.xml")
    without, annotated = (tmp_path / "without.xml").read_bytes(), (tmp_path / "with.xml").read_bytes()
    assert set_entry(scan_ir(without), KEY, value) == annotated
    assert remove_entry(scan_ir(annotated), KEY) == without


@pytest.mark.parametrize("last", ["a", "zz"])
def test_an_entry_goes_first_or_last(last: str) -> None:
    annotated = check(document(f'\t<rt_info>\n\t\t<{last} value="1" />\n\t</rt_info>\n'))
    both = [f'\t\t<{last} value="1" />', f'\t\t<{KEY} value="v" />']
    assert "\n".join(both if last < KEY else both[::-1]) in annotated.decode()


@pytest.mark.parametrize(("eol", "unit"), [("\n", "\t"), ("\r\n", "\t"), ("\r\n", "  "), ("\n", "")])
def test_white_space_follows_the_file(eol: str, unit: str) -> None:
    inner, entry = f"{eol}{unit}{unit}", f'<{KEY} value="v" />'
    data = document(f'{unit}<rt_info>\n{unit}{unit}<a value="1"/>\n{unit}</rt_info>\n', eol, unit)
    assert check(data) == data.replace(b"/>" + f"{eol}{unit}</rt".encode(), f"/>{inner}{entry}{eol}{unit}</rt".encode())
    plain = document("", eol, unit)
    made = f'{unit}<rt_info>{inner}<{KEY} value="v" irtools-replaced="" />{eol}{unit}</rt_info>{eol}</net>'
    assert check(plain) == plain.replace(b"</net>", made.encode())


def test_everything_on_one_line_stays_so() -> None:
    data = b'<net name="m"><layers/><edges/><rt_info><zz value="1"/></rt_info></net>'
    assert check(data) == data.replace(b"<zz", f'<{KEY} value="v" /><zz'.encode())
    data = b'<net name="m"><layers/><edges/></net>'
    assert b"\n" not in check(data)


def test_a_byte_order_mark_and_a_missing_final_newline_stay() -> None:
    data = b"\xef\xbb\xbf" + document("\t<rt_info>\n\t</rt_info>\n", end="</net>")
    annotated = check(data)
    assert annotated.startswith(b"\xef\xbb\xbf<?xml")
    assert annotated.endswith(b"</net>")


@pytest.mark.parametrize(
    ("container", "opened"),
    [
        ("<rt_info/>", "<rt_info>"),
        ("<rt_info />", "<rt_info>"),
        ("<rt_info\t/>", "<rt_info>"),
        ("<rt_info></rt_info>", "<rt_info>"),
        ("<rt_info></rt_info >", "<rt_info>"),
        ("<rt_info a='&lt;' />", "<rt_info a='&lt;'>"),
        ("<meta_data/>", "<meta_data>"),
    ],
)
def test_an_empty_container_is_opened_and_closed_again(container: str, opened: str) -> None:
    annotated = check(document(f"\t{container}\n")).decode()
    name = opened[1:].split(">")[0].split(" ")[0]
    assert f'\n\t{opened}\n\t\t<{KEY} value="v" irtools-replaced="' in annotated
    assert annotated.endswith(f" />\n\t</{name}>\n</net>\n")


def test_a_container_with_other_entries_stays() -> None:
    annotated = check(document("\t<rt_info />\n"))
    shared = annotated.replace(b"\n\t</rt_info>", b'\n\t\t<zz value="1" />\n\t</rt_info>')
    assert shared != annotated
    expected = document('\t<rt_info>\n\t\t<zz value="1" />\n\t</rt_info>\n')
    assert remove_entry(scan_ir(shared), KEY) == expected


def test_a_record_that_is_not_an_empty_container_is_ignored() -> None:
    entry = f'<{KEY} value="v" irtools-replaced="&lt;rt_info>&lt;evil value=\'1\'/>&lt;/rt_info>" />'
    data = document(f"\t<rt_info>\n\t\t{entry}\n\t</rt_info>\n")
    assert remove_entry(scan_ir(data), KEY) == document("\t<rt_info>\n\t</rt_info>\n")


def test_a_file_with_meta_data_gets_the_entry_there() -> None:
    """A new rt_info would hide the meta_data."""
    data = document('\t<meta_data>\n\t\t<MO_version value="1"/>\n\t\t<zz value="2"/>\n\t</meta_data>\n')
    annotated = check(data)
    assert b"<rt_info" not in annotated
    assert annotated == data.replace(b"\t\t<zz", f'\t\t<{KEY} value="v" />\n\t\t<zz'.encode())
    old = document("\t<quantization_parameters><a value='1'/></quantization_parameters>\n")
    assert b"<rt_info" not in check(old)


def test_only_the_first_model_level_rt_info_counts() -> None:
    loop = LOOP.format("<rt_info />", KEY).encode()
    first, second = b'<rt_info><a value="1"/></rt_info>', f'<rt_info><{KEY} value="dead"/></rt_info>'.encode()
    data = b"<net><layers>" + loop + b"</layers><edges/>" + first + second + b"</net>"
    annotated = check(data)
    assert annotated == data.replace(b'<a value="1"/>', f'<a value="1"/><{KEY} value="v" />'.encode())


def test_an_ascii_file_stays_ascii() -> None:
    data = document("").replace(b'"1.0"?', b'"1.0" encoding="us-ascii"?')
    annotated = check(data, "h\u00e9 \U0001f600")
    assert annotated.isascii()


# -- existing entries ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f'<{KEY} value="1"/>', f'<{KEY} value="v"/>'),
        (f"<info name='{KEY}'  value='1' />", f"<info name='{KEY}'  value=\"v\" />"),
        (f'<foo value="1" name="{KEY}"/>', f'<foo value="v" name="{KEY}"/>'),
        (f'<{KEY} a="x value=\'2\'" value = "1"/>', f'<{KEY} a="x value=\'2\'" value="v"/>'),
        (f'<{KEY} value="1"></{KEY}>', f'<{KEY} value="v"></{KEY}>'),
        (f"<{KEY}/>", f'<{KEY} value="v" />'),
        (f'<{KEY}><layers value="1"/></{KEY}>', f'<{KEY} value="v" />'),
        (
            '<info name="hidden_states_decoder&#95;layers" value="1"/>',
            '<info name="hidden_states_decoder&#95;layers" value="v"/>',
        ),
    ],
)
def test_the_value_of_an_entry_is_replaced_in_its_place(old: str, new: str) -> None:
    around = '\t<rt_info>\n\t\t<zz value="1"/>\n\t\t{}\n\t\t<a value="2"/>\n\t</rt_info>\n'
    data = document(around.format(old))
    assert set_entry(scan_ir(data), KEY, "v", force=True) == document(around.format(new))
    assert remove_entry(scan_ir(data), KEY) == document(around.replace("\n\t\t{}", ""))


def test_of_several_entries_the_last_counts_and_all_are_removed() -> None:
    around = '\t<rt_info>\n\t\t<{0} value="1"/>\n\t\t<info name="{0}" value="{1}"/>\n\t</rt_info>\n'
    data = document(around.format(KEY, "2"))
    assert [entry.value for entry in entries(scan_ir(data), KEY)] == ["1", "2"]
    assert [entry.line for entry in entries(scan_ir(data), KEY)] == [8, 9]
    assert read_rt_info(scan_ir(data)) == {KEY: "2"}
    assert set_entry(scan_ir(data), KEY, "v").replace(b'"v"', b'"2"') == data
    assert remove_entry(scan_ir(data), KEY) == document("\t<rt_info>\n\t</rt_info>\n")


def test_a_tag_with_another_name_is_another_key() -> None:
    data = document(f'\t<rt_info>\n\t\t<{KEY} name="other" value="1"/>\n\t</rt_info>\n')
    assert read_rt_info(scan_ir(data)) == {"other": "1"}
    check(data)


def test_reading_agrees_with_openvino(fixtures: Path) -> None:
    path = fixtures / "qwen3_5_vl_int4" / "openvino_language_model.xml"

    def plain(value: object) -> object:
        value = getattr(value, "value", value)
        return {key: plain(inner) for key, inner in value.items()} if isinstance(value, dict) else value

    theirs = ov.Core().read_model(path).get_rt_info()
    expected = {key: plain(value) for key, value in theirs.items() if key != "version"}  # added by the reader
    assert read_rt_info(scan_ir(path.read_bytes())) == expected


def test_an_edit_that_does_not_read_back_is_refused() -> None:
    with pytest.raises(InvalidIRError):
        set_entry(scan_ir(document("\t<meta_data />\n")), "no XML name", "v")  # meta_data has no <info>
