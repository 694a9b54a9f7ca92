"""Values of options: tokens, bytes, a layer, precisions; the size of the state."""

from __future__ import annotations

import re

import click

from irtools.text import did_you_mean

__all__ = ["Bytes", "KvPrecision", "Layer", "Tokens", "batch_option", "context_option", "read_tokens"]

_TOKENS = re.compile(r"(\d{1,15})(k|m)?", re.ASCII | re.IGNORECASE)
_TOKEN_UNITS = {"": 1, "k": 1024, "m": 1024**2}
_BYTES = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(?:([kmgt])(i?)b?|b)?", re.ASCII | re.IGNORECASE)


def read_tokens(text: str) -> int | None:
    """Parse a number of tokens; ``32k`` is 32,768. None for another form."""
    match = _TOKENS.fullmatch(text)
    return int(match[1]) * _TOKEN_UNITS[(match[2] or "").lower()] if match else None


class Tokens(click.ParamType):  # type: ignore[type-arg]  # older click is not generic
    """A number of tokens of at least 1; ``32k`` is 32,768."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value."""
        number = value if isinstance(value, int) else read_tokens(str(value))
        if not number:
            self.fail(f"{value!r} is not a number of tokens such as 32768 or 32k, of at least 1", param, ctx)
        return number


class Layer(click.ParamType):  # type: ignore[type-arg]
    """The number of a decoder layer, or ``last``, which is -1."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value."""
        text = str(value).strip().lower()
        if text == "last":
            return -1
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            self.fail(f"{value!r} is not the number of a layer, nor last", param, ctx)
        return int(text)


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: ``8GiB`` and ``8G`` are 8 x 2^30, ``8GB`` is 8 x 10^9."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value."""
        text = str(value).strip()
        match = _BYTES.fullmatch(text)
        size = 0
        if match:
            decimal = bool(match[2]) and not match[3] and text.lower().endswith("b")
            power = " kmgt".index((match[2] or " ").lower())
            size = int(float(match[1]) * (1000 if decimal else 1024) ** power)
        if not size:
            self.fail(f"{value!r} is not a size such as 8GiB or 800MiB", param, ctx)
        return size


class KvPrecision(click.ParamType):  # type: ignore[type-arg]
    """Precision of keys and values, or one for each: ``u8``, ``u8,u4``."""

    name = "KEY[,VALUE]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Parse the value."""
        from irtools.model.kv_cache import CACHE_BITS

        names = [name.strip().lower() for name in str(value).replace("/", ",").split(",")]
        unknown = next((name for name in names if name not in CACHE_BITS), None)
        if unknown is not None or len(names) > 2:
            wrong = f"{unknown!r} is no precision of the KV cache" if unknown is not None else f"{value!r} is too long"
            hint = did_you_mean(unknown or "", CACHE_BITS) or f"Known are {', '.join(CACHE_BITS)}"
            self.fail(f"{wrong}. {hint}", param, ctx)
        return names[0], names[-1]


context_option = click.option(
    "--context", type=Tokens(), help="Tokens in the KV cache, such as 32k.  [default: 4096, or what the model takes]"
)
batch_option = click.option(
    "--batch", metavar="B", type=click.IntRange(1), default=1, show_default=True, help="Sequences."
)
