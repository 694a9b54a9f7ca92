"""Rehearse the conversion to paged attention, which GenAI does when it loads a model, on copies in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.runtime.lines import Progress, ask_each, serve

__all__ = ["UNREADABLE", "Conversion", "convert"]

UNREADABLE = "OpenVINO cannot read it"
"""Start of a fault that every later OpenVINO process would hit too."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of converting one model.

    Attributes
    ----------
    fault : str
        OpenVINO's message if it cannot read or convert the model, else ``""``.
    left : tuple of str
        Friendly names of the state ops that remain. GenAI accepts none in the target of a draft.
    """

    fault: str = ""
    left: tuple[str, ...] = ()


def convert(files: Sequence[Path], *, timeout: float) -> list[Conversion]:
    """Convert models in a separate process; nothing is written.

    Parameters
    ----------
    files : sequence of Path
        The ``.xml`` files, with their weights beside them.
    timeout : float
        Seconds allowed per file.

    Returns
    -------
    list of Conversion
        In the order of the files.
    """
    requests = [{"xml": str(path.absolute())} for path in files]
    return [
        Conversion(reply.ended) if reply.ended else Conversion(reply.value["fault"], tuple(reply.value["left"]))
        for reply in ask_each("irtools.runtime.conversion", requests, timeout=timeout)
    ]


def _convert(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    import openvino as ov

    from irtools.runtime.rehearsal import reason, to_paged

    try:
        model = ov.Core().read_model(request["xml"])
    except RuntimeError as error:
        return {"fault": f"{UNREADABLE}: {reason(error)}", "left": []}
    fault = to_paged(model)
    left = [] if fault else [op.get_friendly_name() for op in model.get_ops() if op.get_type_name() == "Assign"]
    return {"fault": fault, "left": left}


if __name__ == "__main__":
    serve(_convert)
