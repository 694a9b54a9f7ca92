"""What the runtime would say when it loads an annotated target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from irtools.decoder.stack import Locator

__all__ = ["Remark", "check_annotated"]


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing the rehearsal found.

    Attributes
    ----------
    problem : bool
        True: the runtime would refuse the model. False: worth knowing.
    message : str
    """

    problem: bool
    message: str


def check_annotated(
    xml_path: Path, bin_path: Path, annotation: str, *, head_input: Locator | None = None
) -> tuple[Remark, ...]:
    """Rehearse what the runtime does with an annotated target when it loads it.

    Parameters
    ----------
    xml_path, bin_path : Path
        The IR; ``xml_path`` may have any suffix.
    annotation : str
        What the file is expected to say.
    head_input : Locator, optional
        The value that the head reads.

    Raises
    ------
    CheckError
        OpenVINO cannot read the files at all.
    """
    raise NotImplementedError
