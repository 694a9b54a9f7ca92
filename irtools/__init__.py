"""irtools: locate, annotate, check, prove, draw and edit OpenVINO IR exports of language models.

Open an export with :func:`open_export`; its methods do what the commands do. :mod:`irtools.errors` has the exceptions,
:mod:`irtools.edits` the edits of a graph, :mod:`irtools.authoring` the names for rules and patterns. Everything else is
internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irtools._lazy import attach
from irtools.display import register

if TYPE_CHECKING:
    from irtools._version import __version__
    from irtools.bench.run import Benchmark
    from irtools.bench.settings import BenchSettings
    from irtools.compare.differences import Comparison
    from irtools.decoder.stack import DecoderLayer, DecoderStack
    from irtools.errors import IrtoolsError
    from irtools.export import Export, diff, open_export
    from irtools.fleet.atlas import atlas
    from irtools.fleet.verification import verify_many
    from irtools.ir.save import Saved
    from irtools.lint.engine import ModelVerification, Verification, VerifyOptions
    from irtools.lint.finding import Finding, Severity
    from irtools.model.annotation import Locator
    from irtools.model.document import Document
    from irtools.model.footprint import Footprint
    from irtools.prove.run import Proof
    from irtools.prove.settings import ProveSettings
    from irtools.render.drawing import Drawing
    from irtools.report.atlas_row import AtlasRow
    from irtools.report.inspection import Inspection
    from irtools.report.serve_config import ServeConfig, ServeSettings
    from irtools.surgery.attach import Attachment
    from irtools.surgery.editor import Editor
    from irtools.surgery.extraction.piece import Piece
    from irtools.surgery.graft.own import DraftHead
    from irtools.surgery.patch import Patch

__all__ = [
    "AtlasRow",
    "Attachment",
    "BenchSettings",
    "Benchmark",
    "Comparison",
    "DecoderLayer",
    "DecoderStack",
    "Document",
    "DraftHead",
    "Drawing",
    "Editor",
    "Export",
    "Finding",
    "Footprint",
    "Inspection",
    "IrtoolsError",
    "Locator",
    "ModelVerification",
    "Patch",
    "Piece",
    "Proof",
    "ProveSettings",
    "Saved",
    "ServeConfig",
    "ServeSettings",
    "Severity",
    "Verification",
    "VerifyOptions",
    "__version__",
    "atlas",
    "diff",
    "open_export",
    "verify_many",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "AtlasRow": "irtools.report.atlas_row",
        "Attachment": "irtools.surgery.attach",
        "Comparison": "irtools.compare.differences",
        "DecoderLayer": "irtools.decoder.stack",
        "DecoderStack": "irtools.decoder.stack",
        "Document": "irtools.model.document",
        "DraftHead": "irtools.surgery.graft.own",
        "Drawing": "irtools.render.drawing",
        "Editor": "irtools.surgery.editor",
        "Export": "irtools.export",
        "Finding": "irtools.lint.finding",
        "Footprint": "irtools.model.footprint",
        "Inspection": "irtools.report.inspection",
        "IrtoolsError": "irtools.errors",
        "Locator": "irtools.model.annotation",
        "ModelVerification": "irtools.lint.engine",
        "Patch": "irtools.surgery.patch",
        "Piece": "irtools.surgery.extraction.piece",
        "Proof": "irtools.prove.run",
        "BenchSettings": "irtools.bench.settings",
        "Benchmark": "irtools.bench.run",
        "ProveSettings": "irtools.prove.settings",
        "Saved": "irtools.ir.save",
        "ServeConfig": "irtools.report.serve_config",
        "ServeSettings": "irtools.report.serve_config",
        "Severity": "irtools.lint.finding",
        "Verification": "irtools.lint.engine",
        "VerifyOptions": "irtools.lint.engine",
        "__version__": "irtools._version",
        "atlas": "irtools.fleet.atlas",
        "diff": "irtools.export",
        "open_export": "irtools.export",
        "verify_many": "irtools.fleet.verification",
    },
)

register(attach(__name__, {"html_of": "irtools.report.notebook", "svg_of": "irtools.render.notebook"})[0])
