"""Setting a number in the text of a JSON file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irtools.ir.json_text import set_number
from irtools.ir.markup import spliced
from irtools.ir.reading import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=5)


@given(
    outer=OBJECTS,
    inner=OBJECTS,
    indent=st.sampled_from([None, 0, 2, "\t"]),
    compact=st.booleans(),
    ascii_only=st.booleans(),
    in_order=st.booleans(),
    marked=st.booleans(),
    nested=st.booleans(),
)
def test_only_the_number_changes(
    outer: dict[str, Any],
    inner: dict[str, Any],
    indent: Any,
    compact: bool,
    ascii_only: bool,
    in_order: bool,
    marked: bool,
    nested: bool,
) -> None:
    config = {**outer, "text_config": inner}
    separators = (",", ":") if compact else None
    text = json.dumps(config, indent=indent, separators=separators, ensure_ascii=ascii_only, sort_keys=in_order)
    data = ("\ufeff" * marked + text).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match="utf-8"):
            set_number(data, (), "mtp", 7)
        return
    section = ("text_config",) if nested else ()

    splice = set_number(data, section, "mtp", 7)
    new = spliced(data, [splice])

    expected = json.loads(text)
    (expected["text_config"] if nested else expected)["mtp"] = 7
    assert json.loads(new) == expected
    again = set_number(new, section, "mtp", 8)
    assert again.end - again.start == 1, "a number is replaced by itself"
    if in_order and "mtp" not in (inner if nested else outer) and (inner or not nested):
        written = json.dumps(expected, indent=indent, separators=separators, ensure_ascii=ascii_only, sort_keys=True)
        assert new == ("\ufeff" * marked + written).encode(), "as the writer of the file would have put it"


def test_the_last_of_equal_keys_counts() -> None:
    data = b'{"n": 1, "n": 2, "t": {"n": 0}, "t": {"n": 3}}'
    assert spliced(data, [set_number(data, (), "n", 9)]) == b'{"n": 1, "n": 9, "t": {"n": 0}, "t": {"n": 3}}'
    assert spliced(data, [set_number(data, ("t",), "n", 9)]) == b'{"n": 1, "n": 2, "t": {"n": 0}, "t": {"n": 9}}'


@pytest.mark.parametrize("levels", [64, 65, 900, 100_000])
def test_json_of_many_levels_is_refused(levels: int) -> None:
    data = b'{"a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
    if levels <= 64:
        assert parse_json(data) == json.loads(data)
        return
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(data)
