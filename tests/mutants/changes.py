"""Small changes to a source file: each is one that a tired programmer could have made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.BitAnd: "|", ast.BitOr: "&"}


@dataclass(frozen=True, slots=True)
class Change:
    """Replacement of a piece of one line."""

    file: str
    line: int
    start: int
    end: int
    new: str
    kind: str

    def apply(self, source: str) -> str:
        """The changed source; offsets are bytes, as in the syntax tree."""
        lines = source.encode().splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.new.encode() + line[self.end :]
        return b"".join(lines).decode()


def changes(root: Path, file: str) -> Iterator[Change]:
    """All changes of one file."""
    source = (root / file).read_text()
    tree = ast.parse(source)
    skipped = _skipped(tree)
    lines = source.encode().splitlines()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        for line, start, end, new, kind in _of_node(node, lines):
            if lines[line - 1][start:end].decode() != new:
                yield Change(file, line, start, end, new, kind)


def _skipped(tree: ast.Module) -> set[int]:
    """Nodes that are no code: docstrings, annotations, decorators, names of the module."""
    skipped: set[int] = set()

    def skip(node: ast.AST | None) -> None:
        if node is not None:
            skipped.update(map(id, ast.walk(node)))

    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skip(node)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                skip(decorator)
            if isinstance(node, ast.FunctionDef):
                skip(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            skip(node.annotation)
        elif isinstance(node, ast.keyword) and node.arg in ("strict", "repr", "slots", "frozen"):
            skip(node)  # equivalent on valid data
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skip(node)
    return skipped


_Piece = tuple[int, int, int, str, str]


def _between(left: ast.expr, right: ast.expr, lines: list[bytes], new: str, kind: str) -> Iterator[_Piece]:
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
        word = gap.strip(b" ()")
        if word:
            start = left.end_col_offset + gap.index(word)
            yield right.lineno, start, start + len(word), new, kind


def _of_node(node: ast.AST, lines: list[bytes]) -> Iterator[_Piece]:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            yield from _between(left, right, lines, _COMPARISONS[type(operator)], "comparison")
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _between(left, right, lines, "or" if isinstance(node.op, ast.And) else "and", "and/or")
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if not any(
            isinstance(side, ast.Constant) and isinstance(side.value, str | bytes) for side in (node.left, node.right)
        ):
            yield from _between(node.left, node.right, lines, _BINARY[type(node.op)], "arithmetic")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node.lineno == node.operand.lineno:
        yield node.lineno, node.col_offset, node.operand.col_offset, "", "not"
    elif isinstance(node, ast.Constant) and node.lineno == node.end_lineno and node.end_col_offset is not None:
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            yield node.lineno, node.col_offset, node.end_col_offset, str(node.value + 1), "constant"
        elif isinstance(node.value, bool):
            yield node.lineno, node.col_offset, node.end_col_offset, str(not node.value), "constant"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        end = node.func.col_offset + len(node.func.id)
        yield node.func.lineno, node.func.col_offset, end, _CALLS[node.func.id], "quantifier"
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        yield node.slice.lineno, node.slice.col_offset + 1, node.slice.col_offset + 1, "x", "key"
    elif isinstance(node, ast.Return) and node.value is not None and node.value.lineno == node.value.end_lineno:
        value = lines[node.value.lineno - 1][node.value.col_offset : node.value.end_col_offset].decode()
        if isinstance(node.value, ast.Compare | ast.BoolOp | ast.Call) and node.value.end_col_offset is not None:
            boolean = isinstance(node.value, ast.Compare | ast.BoolOp)
            new = f"not ({value})" if boolean else "None"
            yield node.value.lineno, node.value.col_offset, node.value.end_col_offset, new, "return"
    elif (
        isinstance(node, ast.IfExp)
        and node.test.lineno == node.test.end_lineno
        and node.test.end_col_offset is not None
    ):
        value = lines[node.test.lineno - 1][node.test.col_offset : node.test.end_col_offset].decode()
        yield node.test.lineno, node.test.col_offset, node.test.end_col_offset, f"(not ({value}))", "condition"
    elif isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        test = node.test
        if test.lineno == test.end_lineno and test.end_col_offset is not None:
            value = lines[test.lineno - 1][test.col_offset : test.end_col_offset].decode()
            yield test.lineno, test.col_offset, test.end_col_offset, f"not ({value})", "condition"
