"""Compare the versions that exporters and runtimes write into an IR."""

from __future__ import annotations

import re

from irtools.errors import OptionError

__all__ = ["matches", "parse_version"]

_NUMBERS = re.compile(r"\s*v?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)\s*")


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, without trailing zeros; empty when there are none.

    Examples
    --------
    >>> parse_version("2026.4.1-22982-e213a147257-releases/2026/4"), parse_version("2026.4.0")
    ((2026, 4, 1), (2026, 4))
    """
    match = _NUMBERS.match(text)
    if match is None:
        return ()
    # Absurdly long numbers are cut: int() refuses them, and no version has them.
    numbers = [int(number[:18]) for number in match[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def matches(specifier: str, version: str) -> bool:
    """Whether a version meets every clause of a specifier such as ``>=2026.2,<2027``.

    A version is compared as far as the clause goes for ``==``: ``2026.4.1`` meets ``==2026.4``.

    Raises
    ------
    OptionError
        The specifier is malformed.
    """
    found = parse_version(version)
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise OptionError(f"{specifier!r} is no version specifier", hint="Write it like '>=2026.3,<2027'.")
        bound = parse_version(match[2])
        same = found[: len(bound)] == bound
        holds = {
            ">=": found >= bound,
            "<=": found <= bound or same,
            ">": found > bound and not same,
            "<": found < bound,
            "==": same,
            "!=": not same,
        }
        if not holds[match[1]]:
            return False
    return True
