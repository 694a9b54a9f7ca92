"""Locate the decoder stack of a language model from its IR alone."""

from __future__ import annotations

from irtools.decoder.stack import DecoderLayer, DecoderStack, Locator, Rejection, Verdict

__all__ = ["DecoderLayer", "DecoderStack", "Locator", "Rejection", "Verdict"]

from collections.abc import Mapping
from typing import Any

from irtools.ir.document import Document


def locate(document: Document, config: Mapping[str, Any] | None = None) -> DecoderStack:
    """Not written yet."""
    raise NotImplementedError
