"""Links to public objects, also where a docstring or a type names the internal module that defines them."""

from __future__ import annotations

import importlib
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PUBLIC = ("irtools", "irtools.edits", "irtools.errors", "irtools.authoring")
"""Public modules; a name is documented under the first that has it, errors under ``irtools.errors``."""


def public_names() -> dict[str, str]:
    """Documented name of each public object, by the name under which it is defined."""
    names: dict[str, str] = {}
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            origin = getattr(getattr(module, name), "__module__", None)
            if origin == "irtools.errors":
                names[f"irtools.{name}"] = names[f"{origin}.{name}"] = f"{origin}.{name}"
            elif origin is not None:
                names.setdefault(f"{origin}.{name}", f"{module.__name__}.{name}")
                names[f"{module.__name__}.{name}"] = names[f"{origin}.{name}"]
    return names


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element) -> nodes.Element | None:
    """Find the documented name of a class or function, or of a member of it, from an internal or a bare name."""
    target = node.get("reftarget") or ""
    if node.get("refdomain") != "py":
        return None
    domain: Any = env.get_domain("py")
    for internal, public in _NAMES.items():
        for name in (internal, internal.rpartition(".")[2]):
            if target == name or target.startswith(f"{name}."):
                found = public + target.removeprefix(name)
                if found != target and found in domain.objects:
                    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found, node, text)
    return None


def _readable(
    app: Sphinx, kind: str, name: str, value: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Leave out parameters whose names begin with an underscore, and the names of default factories."""
    if signature:
        signature = re.sub(r", _\w+: .*\)$", ")", signature).replace("<factory>", "...")
    return signature, returns


_NAMES = public_names()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the resolver."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-signature", _readable)
    return {"parallel_read_safe": True}
