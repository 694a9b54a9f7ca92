"""Draw the layers of irtools from its imports: docs/develop/layers.dot and docs/develop/layers.svg.

python docs/layers.py           write both files
python docs/layers.py --check   exit code 1 if docs/develop/layers.dot differs from the imports
"""

from __future__ import annotations

import sys
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path

import grimp
import networkx as nx
import pygraphviz

ROOT = Path(__file__).resolve().parent.parent
DOT = ROOT / "docs" / "develop" / "layers.dot"
BOTTOM = {
    *("irtools.text", "irtools.errors", "irtools.timing", "irtools._version", "irtools._lazy"),
    *("irtools.display", "irtools.registry"),
}
"""Small modules that everything may use; they are left out of the picture."""
WIDTH = 30
"""Characters in a line of a box, so that the text can be read when the picture is 1000 pixels wide."""


def layers() -> list[list[str]]:
    """Layers of the import contract, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def summary(name: str) -> str:
    """First line of the docstring of a module or package, without its full stop."""
    path = ROOT / name.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    return source.partition('"""')[2].partition('"""')[0].partition("\n")[0].rstrip(".")


def dot() -> str:
    """The picture as DOT: a box for each layer, an arrow for imports that no longer path of arrows implies."""
    sys.path.insert(0, str(ROOT))
    found = grimp.build_graph("irtools", "rules", include_external_packages=False)
    shown = [[name for name in layer if name not in BOTTOM] for layer in layers()]
    names = [name for layer in shown for name in layer if not name.endswith("__main__")]
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    for above in names:
        for below in names:
            if above != below and found.direct_import_exists(importer=above, imported=below, as_packages=True):
                graph.add_edge(above, below)
    lines = [
        "digraph layers {",
        "  graph [nodesep=0.2, ranksep=0.3];",
        '  node [shape=box, style="rounded,filled", fillcolor="#eef3fb", fontname="Helvetica", fontsize=16];',
    ]
    for name in names:
        text = "<br/>".join(textwrap.wrap(summary(name), WIDTH))
        lines.append(f'  "{name}" [label=<<b>{name.removeprefix("irtools.")}</b><br/>{text}>];')
    lines += [f'  "{above}" -> "{below}";' for above, below in sorted(nx.transitive_reduction(graph).edges)]
    return "\n".join([*lines, "}", ""])


def main(arguments: Sequence[str]) -> int:
    """Write the picture, or check it."""
    text = dot()
    if "--check" in arguments:
        if DOT.read_text() == text:
            return 0
        sys.stdout.write("docs/develop/layers.dot differs from the imports; `python docs/layers.py` draws it again\n")
        return 1
    DOT.write_text(text)
    pygraphviz.AGraph(string=text).draw(str(DOT.with_suffix(".svg")), prog="dot")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
