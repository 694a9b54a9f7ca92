"""Exports that paths, patterns and directories stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.errors import ExportError, UsageError
from irtools.fleet.find import find

Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Make files of an export in each of the given directories."""

    def make(*directories: str) -> Path:
        for directory in directories:
            (tmp_path / directory).mkdir(parents=True, exist_ok=True)
            (tmp_path / directory / "openvino_model.xml").write_text("<net/>")
        return tmp_path

    return make


def below(*roots: Path) -> list[str]:
    return [path.relative_to(roots[0]).as_posix() for path in find(roots, recursive=True)]


def test_a_directory_with_an_ir_is_an_export_whatever_its_name(tree: Tree) -> None:
    root = tree("b", "a", "deep/er/one", "a/draft")
    (root / "named").mkdir()
    (root / "named" / "anything.xml").write_text('<?xml version="1.0"?>\n<net name="x"/>')
    (root / "reports").mkdir()
    (root / "reports" / "junit.xml").write_text("<testsuites/>")
    (root / "empty").mkdir()

    assert below(root) == ["a", "a/draft", "b", "deep/er/one", "named"]


def test_hidden_directories_are_left_out(tree: Tree) -> None:
    assert below(tree("a", ".git/x", ".cache/y")) == ["a"]


def test_the_root_can_be_the_export(tree: Tree) -> None:
    assert below(tree(".", "a")) == [".", "a"]


def test_a_cache_has_an_export_for_each_revision(tree: Tree) -> None:
    root = tree("models--org--name/blobs/1", "models--org--name/snapshots/aaa", "models--org--name/snapshots/bbb")
    blob = root / "models--org--name" / "blobs" / "0123"
    (root / "models--org--name/snapshots/aaa/openvino_model.xml").replace(blob)
    (root / "models--org--name/snapshots/aaa/openvino_model.xml").symlink_to("../../blobs/0123")
    (root / "models--org--name/snapshots/bbb/openvino_model.xml").unlink()
    (root / "models--org--name/snapshots/bbb/openvino_model.xml").symlink_to("../../blobs/0123")

    assert below(root) == ["models--org--name/snapshots/aaa", "models--org--name/snapshots/bbb"]


def test_links_are_not_followed_and_one_out_of_the_root_is_told(tree: Tree, tmp_path: Path) -> None:
    root = tree("in/a", "out") / "in"
    (root / "circle").symlink_to(root)
    (root / "itself").symlink_to("itself")
    (root / "again").symlink_to("a")
    (root / "away").symlink_to(tmp_path / "out")
    told: list[str] = []

    found = list(find([root], recursive=True, skipped=lambda path, reason: told.append(f"{path.name}: {reason}")))

    assert found == [root / "a"]
    assert told == ["away: a link to another place, which is not followed; give its path to include it"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every directory")
def test_an_unreadable_directory_counts_as_an_export(tree: Tree) -> None:
    root = tree("a", "b")
    (root / "b").chmod(0)
    try:
        assert below(root) == ["a", "b"]
    finally:
        (root / "b").chmod(0o755)


def test_a_directory_that_disappears_counts_as_an_export(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree("a", "b")
    scan = os.scandir

    def gone(path: Path) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert below(root) == ["a", "b"]


def test_each_export_comes_once_in_the_order_of_the_paths(tree: Tree) -> None:
    root = tree("a", "b", "c")
    (root / "link").symlink_to("a")

    found = list(find([root / "c", root / "b", root / "*", root / "a"]))

    assert [path.name for path in found] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("m?", ["m1", "m2"]),
        ("**", ["m1", "m1/draft", "m2", "other/deep/m3"]),
        ("**/m*", ["m1", "m2", "other/deep/m3"]),
        ("m1/**/draft", ["m1/draft"]),
        ("other/**/*.xml", ["other/deep/m3/openvino_model.xml"]),
        ("*/openvino_model.xml", ["m1/openvino_model.xml", "m2/openvino_model.xml"]),
        ("[mo]*", ["m1", "m2"]),
    ],
)
def test_a_pattern_stands_for_the_exports_that_match(tree: Tree, pattern: str, expected: list[str]) -> None:
    root = tree("m1/draft", "m1", "m2", "other/deep/m3")
    (root / "m2.txt").touch()
    (root / "m1" / "circle").symlink_to(root)

    assert [path.relative_to(root).as_posix() for path in find([root / pattern])] == expected


def test_a_path_that_exists_is_no_pattern(tree: Tree) -> None:
    root = tree("m[1]", "m1")
    assert list(find([root / "m[1]"])) == [root / "m[1]"]


def test_a_path_that_does_not_exist_stays_for_the_command_to_tell() -> None:
    assert list(find([Path("missing")])) == [Path("missing")]


@pytest.mark.parametrize(
    ("path", "recursive", "error", "message"),
    [
        ("nothing*", False, UsageError, "no export matches"),
        ("empty", True, UsageError, "there is no export in or below this directory"),
        ("missing", True, ExportError, "no such directory"),
        ("file", True, ExportError, "is no directory to look in"),
    ],
)
def test_nothing_to_work_on_is_an_error(
    tmp_path: Path, path: str, recursive: bool, error: type[Exception], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        list(find([tmp_path / path], recursive))


def test_a_deep_directory_is_found(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(200):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "openvino_model.xml").write_text("<net/>")
    assert list(find([tmp_path], recursive=True)) == [deep]
