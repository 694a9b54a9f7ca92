"""Rehearse the conversion to paged attention, which GenAI does when it loads a model, on copies in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.runtime.child import Progress, ask_each, serve
from irtools.runtime.messages import short_message

__all__ = ["Conversion", "convert"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of converting one model.

    Attributes
    ----------
    fault : str
        OpenVINO's message if it cannot read or convert the model, else ``""``.
    left : tuple of str
        Friendly names of the state ops that remain. GenAI accepts none in the target of a draft.
    unreadable : bool
        True if OpenVINO cannot read the model, so that every later process would fail too.
    ended : bool
        True if the process ended instead of answering.
    """

    fault: str = ""
    left: tuple[str, ...] = ()
    unreadable: bool = False
    ended: bool = False

    @property
    def unpaged(self) -> bool:
        """True if OpenVINO reads the model but cannot convert it."""
        return bool(self.fault) and not self.unreadable and not self.ended


def convert(files: Sequence[Path], *, timeout: float) -> list[Conversion]:
    """Convert models in a separate process, each ``.xml`` in at most ``timeout`` seconds; nothing is written."""
    requests = [{"xml": os.fspath(path.absolute())} for path in files]
    return [
        Conversion(reply.ended, ended=True)
        if reply.ended
        else Conversion(reply.value["fault"], tuple(reply.value["left"]), reply.value["unreadable"])
        for reply in ask_each("irtools.runtime.conversion", requests, timeout=timeout)
    ]


def _convert(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    import openvino as ov

    from irtools.runtime.rehearsal import to_paged

    try:
        model = ov.Core().read_model(request["xml"])
    except RuntimeError as error:
        return {"fault": f"OpenVINO cannot read it: {short_message(error)}", "left": [], "unreadable": True}
    fault = to_paged(model)
    left = [] if fault else [op.get_friendly_name() for op in model.get_ops() if op.get_type_name() == "Assign"]
    return {"fault": fault, "left": left, "unreadable": False}


if __name__ == "__main__":
    serve(_convert)
