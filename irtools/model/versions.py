"""Versions that exporters and runtimes write into an IR."""

from __future__ import annotations

import re

__all__ = ["parse_version", "release_numbers"]

_NUMBERS = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)")


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, without trailing zeros; empty if there are none.

    Examples
    --------
    >>> parse_version("2026.4.1-22982-e213a147257-releases/2026/4"), parse_version("2026.4.0")
    ((2026, 4, 1), (2026, 4))
    """
    # packaging.version refuses the build numbers of OpenVINO, and int() refuses very long numbers.
    match = _NUMBERS.match(text)
    numbers = [int(number[:18]) for number in match[1].split(".")] if match else []
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def release_numbers(version: str) -> tuple[int, int]:
    """Year and number of the release to which a version of OpenVINO belongs; zeros if it has no numbers.

    Examples
    --------
    >>> release_numbers("2026.4.1.0"), release_numbers("2027")
    ((2026, 4), (2027, 0))
    """
    year, number = (*parse_version(version), 0, 0)[:2]
    return year, number
