"""Let OpenVINO read a new IR, in a process of its own, before it is reported as written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irtools.errors import CheckError
from irtools.runtime.lines import Child, Progress, serve

__all__ = ["check_readable"]

_PATIENCE = 600.0


def check_readable(xml_path: Path, bin_path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Let OpenVINO read an IR and infer its shapes.

    Parameters
    ----------
    xml_path, bin_path : Path
        With any suffix.
    inputs, outputs : sequence of str
        Tensor names that it is expected to have.

    Raises
    ------
    CheckError
        OpenVINO cannot read it, or finds other inputs or outputs.
    """
    request = {"xml": str(xml_path.absolute()), "bin": str(bin_path.absolute())}
    with Child("irtools.runtime.readable") as child:
        reply = child.ask(request, timeout=_PATIENCE)
    fault = reply.ended or reply.value["fault"]
    for kind, expected in (("inputs", inputs), ("outputs", outputs)):
        if not fault and not _same(reply.value[kind], expected):
            fault = f"OpenVINO finds the {kind} {reply.value[kind]}"
    if fault:
        raise CheckError(f"{fault}; nothing was written, --no-check writes it all the same")


def _same(found: Sequence[Sequence[str]], expected: Sequence[str]) -> bool:
    """Whether ports, by their names, are those expected, in that order."""
    if len(found) != len(expected):
        return False
    return all(not names or name in names for names, name in zip(found, expected, strict=True))


def _read(request: Mapping[str, Any], _progress: Progress) -> dict[str, Any]:
    import openvino as ov

    from irtools.runtime.rehearsal import reason

    try:
        model = ov.Core().read_model(request["xml"], request["bin"])
    except RuntimeError as error:
        return {"fault": f"OpenVINO cannot read it: {reason(error)}", "inputs": [], "outputs": []}
    return {
        "fault": "",
        "inputs": [sorted(port.get_names()) for port in model.inputs],
        "outputs": [sorted(port.get_names()) for port in model.outputs],
    }


if __name__ == "__main__":
    serve(_read)
