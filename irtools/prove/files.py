"""Files that the measuring process reads."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.model.directory import ModelDirectory

__all__ = ["Files"]


@dataclass(frozen=True, slots=True)
class Files:
    """Absolute paths of the ``.xml`` files that a session reads, and the device."""

    target: str
    mtp: str | None = None
    text_embeddings: str | None = None
    text_embeddings_per_layer: str | None = None
    device: str = "CPU"

    @classmethod
    def of(cls, export: ModelDirectory, device: str = "CPU") -> Files:
        """Files of an export.

        Raises
        ------
        ExportError
            The export has no target.
        """
        parts = {
            name: str(document.path.absolute())
            for name in ("mtp", "text_embeddings", "text_embeddings_per_layer")
            if (document := export.find_part(name)) is not None
        }
        return cls(str(export.target.path.absolute()), **parts, device=device)
