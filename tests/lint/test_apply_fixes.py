"""Fixes: safe, unsafe and combined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import openvino
import pytest

import irtools
from irtools.errors import EditError
from irtools.lint.apply_fixes import plan_fixes, write_fixes
from irtools.lint.engine import Verification
from irtools.lint.finding import Finding, Fix
from irtools.surgery.patch import Patch
from irtools.surgery.rename import unique_names


def duplicate(directory: Path, file: str = "openvino_model.xml") -> Path:
    path = directory / file
    data = path.read_bytes()
    names = [line.split(b'"')[3] for line in data.splitlines() if b' type="MatMul"' in line]
    path.write_bytes(data.replace(names[1], names[0]).replace(names[2], names[0]))
    return path


def test_annotation_is_a_safe_fix(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")

    plan = plan_fixes(irtools.open_export(directory).verify())
    assert [finding.code for finding in plan.fixed] == ["HID001"]
    write_fixes(plan.patches)

    export = irtools.open_export(directory)
    assert "HID001" not in {finding.code for finding in export.verify().findings}
    model = openvino.Core().read_model(directory / "openvino_model.xml")
    assert model.get_rt_info("hidden_states_decoder_layers").value == export.locate().annotation()


def test_early_form_is_upgraded(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    data, export = path.read_bytes(), irtools.open_export(directory)
    layers = ",".join(f"&quot;{i}&quot;:&quot;{lo.producer}&quot;" for i, lo in enumerate(export.locate().locators))
    start = data.index(b"<hidden_states_decoder_layers")
    early = (
        f'<hidden_states_decoder_layers value="{{&quot;version&quot;:1,&quot;layers&quot;:{{{layers}}}}}" />'.encode()
    )
    path.write_bytes(data[:start] + early + data[data.index(b"/>", start) + 2 :])

    verification = irtools.open_export(directory).verify()
    assert [finding.code for finding in verification.findings] == ["HID005"]
    write_fixes(plan_fixes(verification).patches)

    assert path.read_bytes() == data


def test_unique_names_are_an_unsafe_fix(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    path = duplicate(directory)
    verification = irtools.open_export(directory).verify(select=["IR"])

    assert plan_fixes(verification).patches == ()
    write_fixes(plan_fixes(verification, unsafe=True).patches)

    assert irtools.open_export(directory).verify(select=["IR"]).findings == ()
    names = [op.friendly_name for op in openvino.Core().read_model(path).get_ops()]
    assert len(names) == len(set(names))


def test_output_gives_way_to_an_op(export_copy: Callable[..., Path]) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    data = path.read_bytes()
    start = data.index(b'name="', data.rindex(b"<layer", 0, data.index(b' type="Result"'))) + 6
    path.write_bytes(data[:start] + b"input_ids" + data[data.index(b'"', start) :])

    result = unique_names(irtools.Document(path)).data

    assert b'name="input_ids_1" type="Result"' in result
    assert b'name="input_ids" type="Parameter"' in result


def test_nothing_is_renamed_without_need(fixtures: Path) -> None:
    patch = unique_names(irtools.Document(fixtures / "falcon" / "openvino_model.xml"))

    assert (patch.status, patch.changed) == ("unchanged", False)


def test_two_fixes_of_one_file_add_up(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    duplicate(directory)

    plan = plan_fixes(irtools.open_export(directory).verify(), unsafe=True)

    (patch,) = plan.patches
    assert b"hidden_states_decoder_layers" in patch.data
    assert patch.original == (directory / "openvino_model.xml").read_bytes()
    again = irtools.Document(patch.path, patch.data)
    assert len(set(again.scan.names)) == len(again.scan.names)


def test_all_refused_fixes_are_tried_again_also_with_the_same_message(export_copy: Callable[..., Path]) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    tried = Counter[str]()

    def fix(name: str, tries: int) -> Finding:
        def patch(document: irtools.Document) -> Patch:
            tried[name] += 1
            if tried[name] < tries:
                raise EditError("not yet")
            data = document.path.read_bytes()
            return Patch(path, None, None, data, data)

        return Finding(name, file=path, code="IR999", fix=Fix("Do it", patch))

    findings = fix("first", 2), fix("second", 2), fix("other", 1)
    plan = plan_fixes(Verification(irtools.open_export(path.parent), findings, ()))
    assert {finding.message for finding in plan.fixed} == {"first", "second", "other"}
    assert plan.refused == ()

    findings = fix("third", 9), fix("fourth", 9)
    plan = plan_fixes(Verification(irtools.open_export(path.parent), findings, ()))
    assert plan.refused == ("IR999 cannot be fixed: not yet",)


@pytest.mark.parametrize("name", ["bert", "qwen3_dflash"])
def test_nothing_is_offered_where_there_is_no_stack(fixtures: Path, name: str) -> None:
    assert plan_fixes(irtools.open_export(fixtures / name).verify(), unsafe=True).patches == ()
