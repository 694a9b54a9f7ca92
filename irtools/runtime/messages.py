"""Messages of OpenVINO and OpenVINO GenAI, shortened."""

from __future__ import annotations

import re

__all__ = ["pasted_message", "short_message"]

_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*", re.MULTILINE)
_LOCATIONS = re.compile(
    r"Exception from \S+:\d+:|Check '(?:(?!Check ').){1,2000}?' failed(?: at \S+:\d+:?)?"
    r"|(?<!\S)\S+\.(?:[ch]pp|[ch]|py):\d+:?",
    re.DOTALL,
)
_FOLDERS = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?[\\/](?:[^\s\"'\\/:]+[\\/])+")
_LONGEST = 100_000


def short_message(error: BaseException) -> str:
    """The runtime's message without the locations in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600] or type(error).__name__


def pasted_message(text: str) -> str:
    r"""The runtime's message in text that a user copied: without the frames of a traceback, locations and folders.

    These hold words of the user's program and of paths, which say nothing about the cause.

    Examples
    --------
    >>> pasted_message("RuntimeError: Check 'a > 0' failed at src/cpp/mtp_strategy.cpp:28:\nMTP requires more.\n")
    'RuntimeError: MTP requires more.'
    """
    text = "\n".join(text[-_LONGEST:].splitlines()) + "\n"
    message = _FOLDERS.sub("", _LOCATIONS.sub(" ", _FRAMES.sub("", text)))
    return " ".join(message.split()) or " ".join(text.split())
