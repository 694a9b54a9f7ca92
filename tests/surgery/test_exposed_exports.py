"""Run exposed exports: the new outputs have the right values, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irtools
from irtools.model.document import Document
from irtools.prove.drive import Files, Session, difference
from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob
from irtools.surgery.expose import concealing, exposing
from irtools.surgery.transaction import apply
from tests.marks import mostly_slow
from tests.surgery.exposed import read

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "fixtures" / "truth").glob("*.json"))
TOKENS = [[5, 9, 17, 33, 2]]

Truth = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("name", mostly_slow(NAMES, fast=1))
def test_exposed_outputs_are_the_tensors_of_the_untouched_model(
    name: str, fixtures: Path, truth: Truth, tmp_path: Path
) -> None:
    export = irtools.open_export(fixtures / name)
    document, layers = export.target, truth(name)["layers"]
    exposure = exposing(document, export.locate(), "all", names="h{layer}", concat="taps")
    patch = apply(document, exposure.edits)
    session = Session(Files.of(export))
    untouched = session.copy("target")
    own = len(untouched.outputs)
    for index in range(len(layers)):
        untouched.add_outputs([tuple(layers[str(index)][0])])
    expected = session.runner(untouched).run(TOKENS)
    runner = session.runner(read(document, patch.data, tmp_path))
    outputs = runner.run(TOKENS)
    assert runner.names[own:] == [*({f"h{index}"} for index in range(len(layers))), {"taps"}]
    assert len(outputs) == len(expected) + 1
    for value, other in zip(outputs, expected, strict=False):
        deviation = difference(value, other)
        assert deviation is not None
        assert deviation < 1e-5
    assert np.array_equal(outputs[-1], np.concatenate(outputs[own:-1], axis=-1))
    exposed = Document(document.path, patch.data)
    assert apply(exposed, concealing(exposed).edits).data == document.data
    assert apply(exposed, patch.undo).data == document.data


@pytest.mark.parametrize("name", ["gemma4_vl", "gpt2", "qwen3_5_vl_trained"])
def test_verify_and_locate_say_what_they_said_before(name: str, export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy(name))
    before, locators = findings(export), export.locate().locators
    with export.edit() as editor:
        editor.expose("all", names="h{layer}", concat="taps")
    export.save(check=False)
    assert findings(export) == before
    assert export.locate().locators == locators


def findings(export: irtools.Export) -> set[tuple[str, str | None, str]]:
    return {(finding.code, finding.op, finding.message) for finding in export.verify().findings}


def test_verify_still_finds_a_false_last_hidden_state(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("qwen3_5_vl_trained"))
    producer = export.locate().locators[0].producer
    with export.edit() as editor:
        editor.expose("last", names="last_hidden_state")
    export.save(check=False)
    rules = {finding.code for finding in export.verify(select=["MTP"]).findings}
    with export.edit() as editor:
        editor.rewire("irtools.expose/3/last_hidden_state", 0, producer)
    export.save(check=False)
    (new,) = [finding for finding in export.verify(select=["MTP"]).findings if finding.code not in rules]
    assert "last_hidden_state" in new.message


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_an_exposed_export_generates_as_before(fixtures: Path, export_copy: Callable[..., Path]) -> None:
    """In plain generation, with the MTP head, and as the target of a DFlash draft."""
    draft, prompt = fixtures / "qwen3_dflash", "zqab"
    falcon, trained = (export_copy(name) for name in ("falcon", "qwen3_5_vl_trained"))
    # GenAI 2026.4 confuses an output of this name with its own when there is a DFlash draft.
    for directory, last in ((falcon, "h3"), (trained, "last_hidden_state")):
        export = irtools.open_export(directory)
        export.annotate()
        with export.edit() as editor:
            editor.expose("all", names=["h0", "h1", "h2", last], concat="taps")
        export.save()
    jobs = [
        GenerationJob(str(fixtures / "falcon"), prompt),
        GenerationJob(str(falcon), prompt),
        GenerationJob(str(falcon), prompt, draft=str(draft), assistant_tokens=3),
        GenerationJob(str(trained), prompt, draft=str(trained)),
    ]
    done = list(genai.iterate(jobs))
    assert [outcome.stage for outcome in done] == ["ran"] * len(jobs), [outcome.message for outcome in done]
    untouched, plain, flashed, mtp = done
    assert plain.tokens == flashed.tokens == untouched.tokens
    assert mtp.tokens == tuple(ord(letter) - ord("a") + 64 for letter in "gijekh" * 4)[:20]
    assert 0 < mtp.accepted == mtp.drafted
