"""Numbers in the bytes of a constant, without numpy, which takes 0.1 s to import."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["INTEGER_CODES", "unpack"]

INTEGER_CODES = dict(zip(("i8", "u8", "boolean", "i16", "u16", "i32", "u32", "i64", "u64"), "bB?hHiIqQ", strict=True))
"""Codes of the struct module for integers of whole bytes."""

_CODES = {"f16": "e", "f32": "f", "f64": "d", **INTEGER_CODES}


def unpack(data: bytes, element_type: str) -> tuple[Any, ...] | None:
    r"""Numbers of whole bytes; None for a type of fewer than 8 bits, or one of another kind.

    Bytes after the last whole number are left out.

    Examples
    --------
    >>> unpack(b"\x80\x3f", "bf16"), unpack(b"\x01\xff", "i8"), unpack(b"\x21", "u4")
    ((1.0,), (1, -1), None)
    """
    if element_type == "bf16":  # the upper half of an f32
        data = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data) - 1, 2))
        element_type = "f32"
    code = _CODES.get(element_type)
    return None if code is None else struct.unpack_from(f"<{len(data) // struct.calcsize(code)}{code}", data)
