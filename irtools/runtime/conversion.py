"""Rehearse the conversion to paged attention, which GenAI does when it loads a model, on copies in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.runtime.lines import Child, Progress, serve

__all__ = ["UNREADABLE", "Conversion", "convert"]

UNREADABLE = "OpenVINO cannot read it"
"""How a fault begins that no process of OpenVINO will get past."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of one model.

    Attributes
    ----------
    fault : str
        Why OpenVINO cannot read or convert it, in its own words; ``""`` when it can.
    left : tuple of str
        Friendly names of the state ops that are left after it: GenAI wants none of a draft's target.
    """

    fault: str = ""
    left: tuple[str, ...] = ()


def convert(files: Sequence[Path], *, timeout: float) -> list[Conversion]:
    """Convert models, none of which is written, in a process of its own.

    Parameters
    ----------
    files : sequence of Path
        The ``.xml`` files; the weights lie beside them.
    timeout : float
        Seconds that one may take.

    Returns
    -------
    list of Conversion
        In the order of the files.
    """
    found: list[Conversion] = []
    child: Child | None = None
    try:
        for path in files:
            child = child or Child("irtools.runtime.conversion")
            reply = child.ask({"xml": str(path.absolute())}, timeout=timeout)
            if reply.ended:
                child.close()
                child = None
            found.append(
                Conversion(reply.ended) if reply.ended else Conversion(reply.value["fault"], tuple(reply.value["left"]))
            )
    finally:
        if child is not None:
            child.close()
    return found


def _convert(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    import openvino as ov

    from irtools.runtime.rehearsal import reason, to_paged

    try:
        model = ov.Core().read_model(request["xml"])
    except RuntimeError as error:
        return {"fault": f"{UNREADABLE}: {reason(error)}", "left": []}
    model, fault = to_paged(model, None)
    left = [] if fault else [o.get_friendly_name() for o in model.get_ops() if o.get_type_name() == "Assign"]
    return {"fault": fault, "left": left}


if __name__ == "__main__":
    serve(_convert)
