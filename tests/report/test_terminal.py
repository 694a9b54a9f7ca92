"""Tables and colour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from irtools.report.terminal import Column, Style, table
from irtools.text import shape_text, visible

COLUMNS = (Column("n", right=True), Column("name", fold="anywhere"), Column("words", fold="words"))


def test_titles_stand_over_their_columns() -> None:
    assert table(COLUMNS, [(1, "a/Add", "walk names"), (100, "b", "")], Style()) == (
        "  n  name   words\n"
        "  1  a/Add  walk names\n"
        "100  b"
    )  # fmt: skip


def test_a_narrow_terminal_folds() -> None:
    rows = [(1, "__module.layers.0/aten::add/Add_1", "walk dominators names")]
    assert table(COLUMNS, rows, Style(width=30)) == (
        "n  name          words\n1  __module.     walk\n   layers.0/     dominators\n   aten::add/    names\n   Add_1"
    )


def test_prose_gives_way_before_a_name_is_broken() -> None:
    rows = [(1, "__module.layers.0/Add", "walk dominators names")]
    assert table(COLUMNS, rows, Style(width=40)) == (
        "n  name                   words\n"
        "1  __module.layers.0/Add  walk\n"
        "                          dominators\n"
        "                          names"
    )


def test_words_and_titles_stay_whole_in_the_narrowest_terminal() -> None:
    columns = (*COLUMNS[:2], Column("witnesses", fold="words"))
    lines = table(columns, [(1, "__module.layers.0/Add", "walk dominators names")], Style(width=20)).splitlines()
    assert [line[13:] for line in lines] == ["witnesses", "walk", "dominators", "names"][: len(lines)]
    assert [line[3:11].rstrip() for line in lines] == ["name", "__module", ".layers.", "0/Add"]


def test_a_long_name_is_broken_after_a_separator() -> None:
    text = table([Column("", fold="words")], [["__module.model.layers.1.self_attn/aten::cat/Concat"]], Style(width=30))
    assert text.splitlines() == ["__module.model.layers.1.", "self_attn/aten::cat/Concat"]
    assert table([Column("", fold="anywhere")], [["x" * 25]], Style(width=20)).splitlines() == ["x" * 20, "x" * 5]


def test_a_column_that_belongs_beside_another_one_never_goes_below() -> None:
    rows = [("a" * 30, "word", "some words that do not fit at all " * 4)]
    beside = [Column("", fold="anywhere"), Column("a", fold="words"), Column("b", fold="words", aside=True)]
    first, *others = table(beside, rows, Style(width=40)).splitlines()
    assert first.split() == ["a", "b"]
    assert not any(line.startswith("    some") for line in others)
    assert max(map(len, others)) <= 40


def test_wide_characters_take_two_columns() -> None:
    lines = table((Column("name"), Column("n")), [("层", 1), ("ab", 2)], Style()).splitlines()
    assert lines == ["name  n", "层    1", "ab    2"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert visible("a\x1b[2J\nb\u202e") == r"a\x1b[2J\nb\u202e"
    assert "\x1b" not in table((Column("name"),), [("\x1b[31mred",)], Style())


def test_shapes_as_openvino_prints_them() -> None:
    import openvino

    for shape in ((-1, -1, 32), (4,), (), (1, 2)):
        assert shape_text(shape) == str(openvino.PartialShape(list(shape)))


NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]))


@given(
    rows=st.lists(st.tuples(st.integers(), NAMES, st.text("ab ", max_size=30)), max_size=4),
    width=st.integers(1, 120),
)
def test_nothing_is_ever_cut_off(rows: list[tuple[int, str, str]], width: int) -> None:
    folded = table(COLUMNS, rows, Style(width=width))
    whole = table(COLUMNS, rows, Style())
    assert sorted("".join(folded.split())) == sorted("".join(whole.split()))
    assert all(line == line.rstrip() for line in folded.splitlines())
