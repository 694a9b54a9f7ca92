"""The bindings without the package: quicker, and no different; and the package where they cannot be had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONVERT = """
import sys
from irtools.runtime.bindings import load_bindings, load_package, to_paged_attention
load_bindings()
import openvino
model = openvino.Core().read_model(sys.argv[1])
to_paged_attention(model)
alone = sorted(op.get_type_name() for op in model.get_ops())
assert "numpy" not in sys.modules
load_package()
import openvino
model = openvino.Core().read_model(sys.argv[1])
assert isinstance(model, openvino.Model)
to_paged_attention(model)
assert sorted(op.get_type_name() for op in model.get_ops()) == alone
assert "PagedAttentionExtension" in alone and "ReadValue" not in alone
openvino.Core().compile_model(model, "CPU")
"""

ELSEWHERE = """
import sys
from importlib.machinery import ModuleSpec, PathFinder
from irtools.runtime import bindings
spec = ModuleSpec("openvino", None)
spec.submodule_search_locations = [sys.argv[1]]
bindings.PathFinder = type("Finder", (), {"find_spec": staticmethod(lambda name: spec)})
bindings.load_bindings()
import openvino
assert openvino.Model is not bindings.Model and openvino.opset13
"""


def test_the_bindings_convert_what_the_package_converts(fixtures: Path) -> None:
    subprocess.run([sys.executable, "-c", CONVERT, fixtures / "falcon" / "openvino_model.xml"], check=True)


def test_where_there_are_no_bindings_the_package_is_loaded(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], check=True)
