"""Specifiers of versions, such as those of the runtime that a rule is for."""

from __future__ import annotations

from irtools.errors import OptionError
from irtools.model.versions import parse_version

__all__ = ["matches"]


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
