"""The import contract, for what import-linter does not see: strings, relative imports, the name of the rule packs."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import irtools
import irtools.remote
from irtools.lint.rule import load_rules
from irtools.model.mtp import MtpProfile
from irtools.registry import collect

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = {"irtools._lazy", "irtools.registry", "irtools.runtime.probe"}
"""Modules that import by a name from outside: a table, an entry point, a package that may be missing."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for top in ("irtools", "rules") for path in (ROOT / top).rglob("*.py")}


def pattern_of(node: ast.expr, module: str) -> str | None:
    """The literal beginning of a module name; a whole name if it does not end with a dot or underscore."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "__name__":
                text += module
            else:
                return text
        return text
    return None


def absolute(node: ast.ImportFrom, module: str) -> str:
    """What a ``from`` import names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def strings(tree: ast.Module) -> Iterator[str]:
    """String constants of a module without its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    docs = {id(s.value) for body in bodies for s in body if isinstance(s, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imported(module: str) -> frozenset[str]:
    return frozenset(_imported(module))


def _imported(module: str) -> Iterator[str]:
    tree = parsed(module)
    # A module that runs as a process, the folder of a resource, a table of names and their modules.
    yield from {text for text in strings(tree) if "." in text and text in MODULES} - {module}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module)
            yield from (f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("attach", "import_module"):
            name = pattern_of(node.args[0], module)
            if name is None:
                homes = set(strings(tree)) & (MODULES.keys() - {module})
                assert homes or module in FOREIGN, f"{module} imports {ast.unparse(node.args[0])}, which is no string"
            else:
                matching = [known for known in MODULES if known == name or known.startswith(name)]
                assert matching or module in FOREIGN, f"{module} imports {name!r}, which is no module"
                yield from (known for known in matching if known != module)


@pytest.fixture(scope="module")
def graph() -> nx.DiGraph[str]:
    made: nx.DiGraph[str] = nx.DiGraph()
    made.add_nodes_from(MODULES)
    made.add_edges_from((module, name) for module in MODULES for name in imported(module) if name in MODULES)
    made.remove_edges_from(list(nx.selfloop_edges(made)))
    return made


def layers() -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def folder_of(module: str) -> str:
    """The module or folder that has a layer: ``irtools.ir`` of ``irtools.ir.scan``."""
    return "rules" if module.startswith("rules") else ".".join(module.split(".")[:2])


def test_the_graph_sees_what_is_imported_by_a_string(graph: nx.DiGraph[str]) -> None:
    assert graph.has_edge("irtools.cli", "irtools.cli.annotate")
    assert graph.has_edge("irtools", "irtools.export")
    assert graph.has_edge("irtools.authoring", "irtools.graph.match")
    assert graph.has_edge("irtools.prove.worker", "irtools.prove.measure_taps")
    assert graph.has_edge("irtools.runtime.genai", "irtools.runtime.pipeline")
    assert graph.has_edge("irtools.prove.record", "irtools.prove")


def test_lazy_names_are_no_submodules() -> None:
    """Importing a submodule sets the name in its package, where it would hide what ``attach`` finds."""
    for package in (irtools, irtools.remote):
        assert not [name for name in package.__all__ if f"{package.__name__}.{name}" in MODULES], package.__name__


def test_rules_take_public_names_from_the_public_module(graph: nx.DiGraph[str]) -> None:
    homes = {"irtools.lint", "irtools.lint.model", "irtools.lint.rules", "irtools.graph.match"}
    rules = [module for module in MODULES if module.startswith("rules.")]
    assert [module for module in rules if homes & set(graph.successors(module))] == []
    assert all(graph.has_edge(module, "irtools.authoring") for module in rules)


def test_no_circle_of_files(graph: nx.DiGraph[str]) -> None:
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_imports_point_down(graph: nx.DiGraph[str]) -> None:
    depth = {name: number for number, layer in enumerate(layers()) for name in layer}
    depth["irtools"] = -1

    def of(module: str) -> int:
        return depth[folder_of(module)]

    wrong = [
        f"{above} -> {below}"
        for above, below in graph.edges
        if of(above) > of(below) or (of(above) == of(below) and folder_of(above) != folder_of(below))
    ]
    assert wrong == []


def test_every_module_has_a_layer() -> None:
    named = {name for layer in layers() for name in layer}
    assert {folder_of(module) for module in MODULES if module.startswith("irtools.")} <= named


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("irtools")])
def test_the_engine_never_names_the_rule_packs(module: str) -> None:
    names = [
        node.value
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    # The entry-point group of rule packs has the same name: registry is the one place that says it.
    allowed = 1 if module == "irtools.registry" else 0
    assert sum("irtools.rules" in name for name in names) == allowed
    assert not any(name == "rules" or name.startswith(("rules.", "irtools.rules")) for name in imported(module))


# -- knowledge that belongs to the rule packs --------------------------------------------


def model_types() -> set[str]:
    heads = {name for profile in collect(MtpProfile) for name in profile.model_types}
    return heads | set(importlib.import_module("irtools.rules.families").FAMILIES)


@cache
def known_to_the_packs() -> re.Pattern[str]:
    codes = "|".join(rule.code for rule in load_rules())
    families = "|".join(map(re.escape, model_types()))
    return re.compile(rf"\b({codes}|{families})\b")


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("irtools")])
def test_the_engine_knows_no_rule_and_no_family(module: str) -> None:
    assert [text for text in strings(parsed(module)) if known_to_the_packs().search(text)] == []
