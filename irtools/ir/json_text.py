"""Change one number in the text of a JSON file; all other bytes stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from irtools.ir.markup import Splice

__all__ = ["set_number"]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class _Member(NamedTuple):
    """A key of an object: its name, its first character, and the range of its value."""

    key: str
    start: int
    value: int
    end: int


def set_number(data: bytes, section: Sequence[str], key: str, number: int) -> Splice:
    """Byte range that sets a key of an object to a number.

    A new key is spelled as its neighbours are. It is inserted in alphabetical order if the keys of the object are
    sorted, else at the end.

    Parameters
    ----------
    data : bytes
        A JSON object in UTF-8.
    section : sequence of str
        Keys of nested objects that lead to the object, outermost first. All exist.

    Raises
    ------
    ValueError
        The text is not JSON in UTF-8.

    Examples
    --------
    >>> set_number(b'{"a": 1, "text": {"x": 1, "z": 2}}', ["text"], "y", 3)
    Splice(start=26, end=26, new=b'"y": 3, ')
    """
    text = data.decode()
    at = _after_space(text, text.startswith("\ufeff"))
    for name in section:
        at = next(member.value for member in reversed(_members(text, at)) if member.key == name)
    members = _members(text, at)
    # The last of equal keys is the one that counts.
    present = next((member for member in reversed(members) if member.key == key), None)
    if present is not None:
        start, end, new = present.value, present.end, str(number)
    else:
        start, new = _insertion(text, at, members, key, number)
        end = start
    return Splice(len(text[:start].encode()), len(text[:end].encode()), new.encode())


def _insertion(text: str, at: int, members: Sequence[_Member], key: str, number: int) -> tuple[int, str]:
    """Position and text of a new key."""
    if not members:
        return at + 1, f"{json.dumps(key)}: {number}"
    first = members[0]
    colon = text[_DECODER.raw_decode(text, first.start)[1] : first.value]
    spelled = f"{json.dumps(key)}{colon}{number}"
    # If there is one key only, the space before it or after its colon is also that between two keys.
    between = "," + (text[at + 1 : first.start] or colon.lstrip(":"))
    if members[1:]:
        between = text[first.end : members[1].start]
    keys = [member.key for member in members]
    after = next((member for member in members if member.key > key), None) if keys == sorted(keys) else None
    return (members[-1].end, between + spelled) if after is None else (after.start, spelled + between)


def _members(text: str, at: int) -> list[_Member]:
    """Keys of the object that begins at a position."""
    members: list[_Member] = []
    at = _after_space(text, at + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _after_space(text, _after_space(text, end) + 1)
        _, after = _DECODER.raw_decode(text, value)
        members.append(_Member(key, at, value, after))
        at = _after_space(text, after)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return members


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
