"""Count the tokens of texts with the tokenizer of an export, in a separate process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from irtools.errors import UsageError, os_reason
from irtools.ir.reading import open_file, require_size
from irtools.runtime.child import Child, Progress, serve
from irtools.runtime.genai import NOT_INSTALLED, available
from irtools.runtime.messages import short_message

__all__ = ["TokenCounts", "count_tokens"]

_PIECE = 2048
"""Characters of a piece that is tokenized at once; far below the longest input of any tokenizer."""
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Occurrences of each token id in the pieces of a text with even and with odd numbers."""

    even: Mapping[int, int]
    odd: Mapping[int, int]

    @property
    def all(self) -> Counter[int]:
        """Occurrences in the whole text."""
        return Counter(self.even) + Counter(self.odd)

    @classmethod
    def of(cls, pieces: Sequence[Sequence[int]]) -> TokenCounts:
        """Count the tokens of pieces."""
        halves: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        for number, piece in enumerate(pieces):
            halves[number % 2].update(piece)
        return cls(*halves)


def count_tokens(directory: Path, files: Sequence[Path], progress: Progress | None = None) -> tuple[TokenCounts, ...]:
    """Count the tokens of text files, without special tokens, in constant memory.

    Parameters
    ----------
    directory : Path
        Model directory with the tokenizer.

    Raises
    ------
    UsageError
        A file cannot be read or is not a UTF-8 text, openvino-genai is not installed, or the tokenizer cannot be used.
    """
    if not available():
        raise UsageError(f"the texts cannot be tokenized: {NOT_INSTALLED}")
    for path in files:
        try:
            require_size(path, "corpus")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {os_reason(error)}") from error
    results = []
    with Child("irtools.runtime.token_counts") as child:
        for path in files:
            request = {"directory": str(directory), "file": str(path)}
            reply = child.ask(request, timeout=_TIMEOUT, progress=progress)
            if reply.ended:
                raise UsageError(f"the tokenizer cannot be used: {reply.ended}; `irtools verify` looks for the cause")
            if reply.value["fault"]:
                raise UsageError(reply.value["fault"])
            results.append(TokenCounts(*(dict(map(tuple, half)) for half in reply.value["halves"])))
    return tuple(results)


class _Counting:
    """Counts the tokens of one file after another; the tokenizer is loaded once."""

    def __init__(self) -> None:
        self._loaded: tuple[str, Any] | None = None

    def __call__(self, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        try:
            tokenizer = self._tokenizer(request["directory"])
        except (RuntimeError, ValueError, ImportError) as error:
            return {"fault": f"the tokenizer of {request['directory']} cannot be used: {short_message(error)}"}
        halves: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        try:
            for number, piece in enumerate(_pieces(Path(request["file"]))):
                encoded = tokenizer.encode(piece, add_special_tokens=False)
                halves[number % 2].update(encoded.input_ids.data[0].tolist())
                if number % 1000 == 999:
                    progress(f"tokenizing {request['file']}, {number + 1} pieces done")
        except OSError as error:
            return {"fault": f"{request['file']}: cannot be read: {os_reason(error)}"}
        except UnicodeDecodeError:
            return {"fault": f"{request['file']}: is not text in UTF-8"}
        except (RuntimeError, ValueError) as error:
            return {"fault": f"{request['file']}: cannot be tokenized: {short_message(error)}"}
        return {"fault": "", "halves": [list(half.items()) for half in halves]}

    def _tokenizer(self, directory: str) -> Any:
        if self._loaded is None or self._loaded[0] != directory:
            import openvino_genai as genai

            self._loaded = directory, genai.Tokenizer(directory)
        return self._loaded[1]


def _pieces(path: Path) -> Iterator[str]:
    """Text of a file in pieces that end where a new line begins with a letter, so that no token is cut."""
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
        rest = ""
        while more := file.read(1 << 16):
            rest += more
            start = 0
            while (end := _end(rest, start + _PIECE)) is not None:
                yield rest[start:end]
                start = end
            rest = rest[start:]
        if rest:
            yield rest


def _end(text: str, start: int) -> int | None:
    """First place after ``start`` to cut a text; None if it must first become longer."""
    position = start
    while (position := text.find("\n", position) + 1) and position < len(text):
        if not text[position].isspace():
            return position
    # A text without such lines is cut anywhere.
    return start + _PIECE if len(text) > start + 16 * _PIECE else None


if __name__ == "__main__":
    serve(_Counting())
