"""Compare the versions that exporters and runtimes write into an IR."""

from __future__ import annotations

import re

from irtools.errors import OptionError

__all__ = ["matches", "parse_version"]

_NUMBERS = re.compile(r"\s*v?(\d+(?:\.\d+)*)")


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


def matches(specifier: str, version: str) -> bool:
    """True if a version meets every clause of a specifier such as ``>=2026.2,<2027``.

    Only as many numbers of the version are compared as the clause has: ``2026.4.1`` meets ``==2026.4``.

    Raises
    ------
    OptionError
        The specifier is malformed.
    """
    if not specifier:
        return True
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    numbers = [str(number) for number in parse_version(version)] or ["0"]
    try:
        for clause in SpecifierSet(specifier):
            precision = len(Version(clause.version.removesuffix(".*")).release)
            if not clause.contains(".".join(numbers[:precision])):
                return False
    except ValueError as error:  # also of int(), for very long numbers
        message = f"{specifier!r} is not a version specifier"
        raise OptionError(message, hint="Write it as in '>=2026.3,<2027'.") from error
    return True
