"""Messages of OpenVINO and OpenVINO GenAI, shortened."""

from __future__ import annotations

__all__ = ["short_message"]


def short_message(error: BaseException) -> str:
    """The runtime's message without the locations in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600] or type(error).__name__
