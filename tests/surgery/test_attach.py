"""Attaching the MTP head of another export: bytes, refusals, faults in between, removal."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from defects_mtp import gemma_assistant, self_contained
from ir_edit import edit
from openvino.passes import ConstantFolding, Manager

import irtools
from irtools.errors import CheckError, EditError, ExportError, SaveError
from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob
from tests.marks import mostly_slow

XML, BIN, RECORD = "openvino_mtp_model.xml", "openvino_mtp_model.bin", "openvino_mtp_model.attached.json"
BASE = "qwen3_5_vl_trained"
KEY = re.compile(rb' *"mtp_num_hidden_layers": \d+,\n')

Files = dict[str, bytes]


@pytest.fixture
def headless(export_copy: Callable[..., Path]) -> Callable[..., Path]:
    """Copy an export without its MTP head and without the key for it."""

    def make(name: str = BASE, to: str = "tuned") -> Path:
        directory = export_copy(name, to=to)
        (directory / XML).unlink()
        (directory / BIN).unlink()
        config = directory / "config.json"
        config.write_bytes(KEY.sub(b"", config.read_bytes()))
        return directory

    return make


def files(directory: Path) -> Files:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def errors(directory: Path) -> list[str]:
    found = irtools.open_export(directory).verify(expect_mtp=True)
    return [finding.code for finding in found.findings if finding.severity is irtools.Severity.ERROR]


def attach(directory: Path, other: Path, **options: Any) -> irtools.Attachment:
    return irtools.open_export(directory).attach(other, **{"check": False, **options})


# -- there and back --------------------------------------------------------------------


@pytest.mark.parametrize("name", mostly_slow([BASE, "qwen3_5_vl_int4", "qwen3_5_moe_vl"], fast=1))
def test_a_head_comes_back_byte_for_byte_and_goes_again(
    name: str, headless: Callable[..., Path], fixtures: Path
) -> None:
    directory = headless(name)
    before = files(directory)

    export = irtools.open_export(directory)
    done = export.attach(fixtures / name)

    after = files(directory)
    assert done.status == "written"
    assert after.pop(RECORD)
    assert after == files(fixtures / name), "config.json too"
    assert [trait.name for trait in done.traits if trait.same is not True] == []
    assert done.notes == (), "what is equal needs no note"
    assert errors(directory) == []
    assert export.mtp is not None, "what was cached is read again"
    ov.Core().read_model(directory / XML)
    assert export.attach(fixtures / name).status == "unchanged"
    assert files(directory) == after | {RECORD: (directory / RECORD).read_bytes()}

    assert export.detach().status == "written"
    assert files(directory) == before
    assert export.detach().status == "unchanged"


def test_a_complete_export_is_made_and_unmade(headless: Callable[..., Path], fixtures: Path, tmp_path: Path) -> None:
    directory = headless()
    before = files(directory)
    (directory / "config.json").chmod(0o640)

    attach(directory, fixtures / BASE, output_dir=tmp_path / "with")
    assert files(directory) == before
    whole = files(tmp_path / "with")
    assert whole.pop(RECORD)
    assert whole == files(fixtures / BASE)
    assert (tmp_path / "with" / "config.json").stat().st_mode & 0o777 == 0o640

    irtools.open_export(tmp_path / "with").detach(tmp_path / "without")
    assert files(tmp_path / "without") == before
    assert files(tmp_path / "with") == whole | {RECORD: (tmp_path / "with" / RECORD).read_bytes()}
    with pytest.raises(SaveError, match="not empty"):
        attach(directory, fixtures / BASE, output_dir=tmp_path / "with")


def test_links_of_a_cache_are_followed_and_never_written(
    headless: Callable[..., Path], export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    def snapshot(directory: Path) -> Path:
        """The form of a Hugging Face cache: relative links to read-only blobs."""
        blobs, links = directory.with_name(f"{directory.name}.blobs"), directory.with_name(f"{directory.name}.links")
        blobs.mkdir()
        links.mkdir()
        for number, path in enumerate(sorted(directory.iterdir())):
            (blobs / str(number)).write_bytes(path.read_bytes())
            (blobs / str(number)).chmod(0o444)
            (links / path.name).symlink_to(f"../{blobs.name}/{number}")
        return links

    original = export_copy(BASE)
    base, tuned = snapshot(original), snapshot(headless())
    blobs = files(base.with_name(f"{BASE}.blobs")), files(tuned.with_name("tuned.blobs"))

    done = attach(tuned, base)

    assert not (tuned / XML).is_symlink()
    assert not (tuned / BIN).is_symlink()
    assert (tuned / XML).read_bytes() == (original / XML).read_bytes()
    assert any("was a symbolic link" in note for note in done.notes), done.notes  # config.json
    # The head of the cache is replaced by that of another export; its blob stays.
    other = export_copy(BASE, to="other")
    (other / BIN).write_bytes(bytes(len((original / BIN).read_bytes())))
    attach(base, other, force=True)
    assert (base / BIN).read_bytes() == (other / BIN).read_bytes()
    assert (files(base.with_name(f"{BASE}.blobs")), files(tuned.with_name("tuned.blobs"))) == blobs


def test_an_export_of_other_spelling_keeps_it(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    config = json.loads((directory / "config.json").read_text())
    text = "\ufeff" + json.dumps(config, separators=(",", ":"), ensure_ascii=False).replace("silu", "siluß")
    (directory / "config.json").write_text(text)

    attach(directory, fixtures / BASE)

    expected = text.replace('"num_attention_heads"', '"mtp_num_hidden_layers":1,"num_attention_heads"')
    assert (directory / "config.json").read_text() == expected


@pytest.mark.parametrize("count", ["0", "null"])
def test_a_declaration_of_no_head_is_changed(count: str, headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    config = directory / "config.json"
    text = config.read_text().replace(
        '"num_attention_heads"', f'"mtp_num_hidden_layers": {count}, "num_attention_heads"'
    )
    config.write_text(text)
    export = irtools.open_export(directory)

    assert export.attach(fixtures / BASE).declared == "text_config.mtp_num_hidden_layers"
    assert config.read_text() == text.replace(f'layers": {count},', 'layers": 1,')
    export.detach()
    assert config.read_text() == text


def test_a_declared_head_needs_no_change_of_the_config(export_copy: Callable[..., Path], fixtures: Path) -> None:
    directory = export_copy(BASE)
    (directory / XML).unlink()
    (directory / BIN).unlink()
    assert attach(directory, fixtures / BASE).declared == ""
    irtools.open_export(directory).detach()
    assert (directory / "config.json").read_bytes() == (fixtures / BASE / "config.json").read_bytes()


def test_a_head_of_its_own_that_is_the_same_stays_its_own(export_copy: Callable[..., Path], fixtures: Path) -> None:
    directory = export_copy(BASE)
    (directory / "config.json").write_bytes(KEY.sub(b"", (directory / "config.json").read_bytes()))
    done = attach(directory, fixtures / BASE)
    assert [path.name for path in done.written] == ["config.json"]
    assert files(directory) == files(fixtures / BASE)
    with pytest.raises(EditError, match="did not put there"):
        irtools.open_export(directory).detach()


# -- what differs ----------------------------------------------------------------------


def noisy(directory: Path, part: str, scale: float) -> None:
    """Add noise to the large f32 constants of a part, as fine-tuning does."""
    path = directory / f"openvino_{part}_model.xml"
    data = np.fromfile(path.with_suffix(".bin"), np.uint8)
    for found in re.finditer(r'element_type="f32" shape="[^"]*" offset="(\d+)" size="(\d+)"', path.read_text()):
        offset, size = int(found[1]), int(found[2])
        if size >= 4096:
            values = data[offset : offset + size].view(np.float32)
            values += np.random.default_rng(0).normal(0, scale, len(values)).astype(np.float32)
    data.tofile(path.with_suffix(".bin"))


def notes(directory: Path, other: Path) -> dict[str, str]:
    return {trait.name: trait.note for trait in attach(directory, other).traits if trait.same is not True}


def test_a_fine_tune_gets_a_note_with_the_share(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    noisy(directory, "language", 1e-4)
    noisy(directory, "text_embeddings", 1e-4)
    found = notes(directory, fixtures / BASE)
    assert list(found) == ["embeddings"]
    assert re.fullmatch(
        r"the input embeddings differ in (9\d|100)% of the sampled values \(correlation (0\.999\d|1\.0000)\), "
        "as after fine-tuning",
        found["embeddings"],
    )


def test_other_embeddings_are_called_unlike(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    path = directory / "openvino_text_embeddings_model.bin"
    path.write_bytes(np.random.default_rng(0).normal(0, 1, 512 * 64).astype(np.float32).tobytes() + bytes(4))
    assert "have nothing in common" in notes(directory, fixtures / BASE)["embeddings"]


def test_one_changed_row_is_a_small_share(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    path = directory / "openvino_text_embeddings_model.bin"
    data = bytearray(path.read_bytes())
    data[: 64 * 4] = bytes(64 * 4)
    path.write_bytes(data)
    assert "differ in 2% of the sampled values" in notes(directory, fixtures / BASE)["embeddings"]


def test_config_and_tokenizer_are_compared(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[20:22]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 9999, "content": "<extra>"})
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = (directory / "config.json").read_text()
    text = text.replace('"rope_theta": 10000.0', '"rope_theta": 5000.0').replace(
        '"num_hidden_layers": 4', '"num_hidden_layers": 5'
    )
    (directory / "config.json").write_text(text)
    found = notes(directory, fixtures / BASE)
    assert "another token has the same id 2 times and only one of them has 1 token" in found["tokenizer"]
    assert found["attention"].startswith("config.json differs in rope_parameters: ")
    assert found["layers"].startswith("config.json has 5 and 4 decoder layers: ")


def test_experts_are_compared(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless("qwen3_5_moe_vl")
    config = directory / "config.json"
    key = re.search(r'"num_experts_per_tok": (\d+)', config.read_text())
    assert key is not None
    config.write_text(config.read_text().replace(key[0], f'"num_experts_per_tok": {int(key[1]) + 1}'))
    found = notes(directory, fixtures / "qwen3_5_moe_vl")
    assert list(found) == ["experts"]
    assert found["experts"].startswith("config.json differs in num_experts_per_tok: the head was trained with another")


def test_an_uncompressed_head_for_a_compressed_target(
    headless: Callable[..., Path], export_copy: Callable[..., Path]
) -> None:
    directory, base = headless("qwen3_5_vl_int4"), export_copy("qwen3_5_vl_int4", to="base")
    model = ov.Core().read_model(base / XML)
    folding = Manager()
    folding.register_pass(ConstantFolding())
    folding.run_passes(model)
    (base / XML).unlink()
    (base / BIN).unlink()
    ov.save_model(model, base / XML, compress_to_fp16=False)
    before = files(directory)
    # The rule about compression is an error with --expect-mtp.
    with pytest.raises(CheckError, match=r"with this head, QNT010 is an error: .* give --no-check"):
        attach(directory, base, check=True)
    assert files(directory) == before
    found = notes(directory, base)
    assert found["weights"].startswith("most weights of the target are u4, those of the head f32: compress the head")


def test_tables_of_other_forms_are_not_compared(
    headless: Callable[..., Path], export_copy: Callable[..., Path]
) -> None:
    directory, base = headless(), export_copy(BASE, to="base")
    path = base / "openvino_text_embeddings_model.xml"
    model = ov.Core().read_model(path)
    path.unlink()
    path.with_suffix(".bin").unlink()
    ov.save_model(model, path, compress_to_fp16=True)
    assert "different forms" in notes(directory, base)["embeddings"]


def test_an_export_without_a_config_is_told_that_nothing_declares_the_head(
    headless: Callable[..., Path], fixtures: Path
) -> None:
    directory = headless()
    (directory / "config.json").unlink()
    before = files(directory)

    done = attach(directory, fixtures / BASE)

    assert [note for note in done.notes if "config.json that could declare" in note]
    assert not done.declared
    after = files(directory)
    assert set(after) == {*before, XML, BIN, RECORD}
    unknown = {trait.name: (trait.same, trait.note) for trait in done.traits if trait.same is None}
    assert unknown["layers"] == (None, ""), "what cannot be compared needs no note"


# -- refusals --------------------------------------------------------------------------


def refusal(directory: Path, other: Path, **options: Any) -> str:
    before = files(directory)
    with pytest.raises((EditError, ExportError, CheckError)) as caught:
        attach(directory, other, **options)
    assert files(directory) == before
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


def test_what_does_not_fit_is_refused(
    headless: Callable[..., Path], export_copy: Callable[..., Path], fixtures: Path
) -> None:
    directory = headless()
    assert "give the directory of another export" in refusal(directory, directory)
    assert "has no MTP head" in refusal(directory, fixtures / "llama")
    assert "has no MTP head" in refusal(directory, fixtures / "gemma4_vl")
    assert "hidden size 64, but hidden_states of" in refusal(directory, fixtures / "qwen3_5_vl")
    assert "has width 32" in refusal(directory, fixtures / "qwen3_5_vl")
    assert "of the family qwen3_5 / qwen3_5_text, but" in refusal(directory, fixtures / "qwen3_5_moe_vl")
    assert "no such file or directory" in refusal(directory, fixtures / "nothing")
    assert "hidden size 32" in refusal(headless("qwen3_5_vl", to="narrow"), fixtures / BASE)
    assert "family gemma4 / gemma4_text" in refusal(export_copy("gemma4_vl"), fixtures / BASE)
    assert "has no openvino_text_embeddings_model.xml" in refusal(export_copy("llama"), fixtures / BASE)


def test_a_head_of_a_form_that_the_runtime_does_not_run_is_refused(
    headless: Callable[..., Path], export_copy: Callable[..., Path]
) -> None:
    directory, other = headless(), export_copy(BASE, to="other")
    whole = (other / XML).read_bytes()
    edit(other / XML, self_contained)
    assert "is a self-contained MTP head: GenAI does not run this form" in refusal(directory, other)
    (other / XML).write_bytes(whole)
    edit(other / XML, gemma_assistant)
    assert "is a Gemma 4 MTP assistant: GenAI runs it as openvino_model.xml" in refusal(directory, other)
    # The same in the directory of its own where it belongs
    (other / XML).rename(other / "openvino_model.xml")
    (other / BIN).rename(other / "openvino_model.bin")
    (other / "openvino_language_model.xml").unlink()
    assert "Gemma 4 MTP assistant: GenAI runs it as openvino_model.xml in a separate dir" in refusal(directory, other)
    shutil.copy(other / "openvino_text_embeddings_model.xml", other / XML)
    assert "does not have the ports of an MTP head" in refusal(directory, other)


def test_another_head_is_replaced_only_by_force(
    headless: Callable[..., Path], export_copy: Callable[..., Path], fixtures: Path
) -> None:
    directory, other = export_copy(BASE), export_copy(BASE, to="other")
    noisy(other, "mtp", 0.01)
    assert "already has another MTP head; give --force" in refusal(directory, other)
    assert attach(directory, other, force=True).status == "written"
    assert (directory / BIN).read_bytes() == (other / BIN).read_bytes()
    # Once more, over an attached head: removing it restores the config of before both.
    directory = headless()
    before = files(directory)
    attach(directory, fixtures / BASE)
    attach(directory, other, force=True)
    irtools.open_export(directory).detach()
    assert files(directory) == before
    (directory / BIN).write_bytes(b"left over")
    assert "exists without" in refusal(directory, other)
    attach(directory, other, force=True)
    assert (directory / BIN).read_bytes() == (other / BIN).read_bytes()


def test_a_damaged_head_is_refused(headless: Callable[..., Path], export_copy: Callable[..., Path]) -> None:
    directory, other = headless(), export_copy(BASE, to="other")
    whole = (other / XML).read_text()
    (other / XML).write_text(whole.replace('names="inputs_embeds"', 'names="embeddings"'))
    assert "MTP" in refusal(directory, other, check=True)
    (other / XML).write_text(whole.replace('type="MatMul"', 'type="MatMulX"'))
    assert "cannot read it" in refusal(directory, other, check=True)
    (other / XML).write_text(whole)
    (other / BIN).write_bytes((other / BIN).read_bytes()[:-9])
    assert "truncated" in refusal(directory, other)
    (other / BIN).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in refusal(directory, other)
    (other / BIN).unlink()
    assert "weights are missing" in refusal(directory, other)


def test_errors_of_the_export_itself_are_no_reason(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    (directory / "openvino_vision_embeddings_model.bin").unlink()
    done = attach(directory, fixtures / BASE, check=True)
    assert any("without the head too" in note for note in done.notes)


def test_a_target_that_mtp_cannot_use_is_refused(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    path = directory / "openvino_language_model.xml"
    path.write_text(
        path.read_text()
        .replace('output_names="logits"', 'output_names="scores"')
        .replace('names="logits"', 'names="scores"')
    )
    assert "is an error" in refusal(directory, fixtures / BASE, check=True)


def test_pending_changes_are_refused(headless: Callable[..., Path], fixtures: Path) -> None:
    export = irtools.open_export(headless())
    export.strip()
    with pytest.raises(EditError, match="pending changes"):
        export.attach(fixtures / BASE)


def test_what_changed_since_is_not_removed(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    before = files(directory)
    attach(directory, fixtures / BASE)
    export = irtools.open_export(directory)
    config, whole = directory / "config.json", (directory / "config.json").read_bytes()
    config.write_bytes(whole + b"\n")
    with pytest.raises(EditError, match=r"cannot be put back \(text_config.mtp_num_hidden_layers was not there\)"):
        export.detach()
    config.write_bytes(whole)
    xml = (directory / XML).read_bytes()
    (directory / XML).write_bytes(xml + b"\n")
    with pytest.raises(EditError, match=r"was changed after it was attached"):
        export.detach()
    (directory / XML).write_bytes(xml)
    (directory / RECORD).write_text('{"files": []}')
    with pytest.raises(EditError, match="is not a record"):
        export.detach()
    (directory / RECORD).unlink()
    with pytest.raises(EditError, match="did not put there"):
        export.detach()
    attached = {name: (directory / name).read_bytes() for name in (XML, BIN, "config.json")}
    assert attached.items() <= files(fixtures / BASE).items()
    assert files(directory).keys() - before.keys() == {XML, BIN}


def test_force_removes_what_changed_since(headless: Callable[..., Path], fixtures: Path) -> None:
    directory = headless()
    attach(directory, fixtures / BASE)
    config = directory / "config.json"
    config.write_bytes(config.read_bytes() + b"\n")
    (directory / BIN).unlink()
    (directory / BIN).write_bytes(b"retrained")
    done = irtools.open_export(directory).detach(force=True)
    assert {path.name for path in done.removed} == {XML, BIN, RECORD}
    assert any("stays as it is" in note for note in done.notes)


# -- interruptions ---------------------------------------------------------------------


def killed(step: int, work: Callable[[], object]) -> bool:
    """Work in a process that ends at once when it is about to rename or remove the ``step``-th file of a head."""
    child = os.fork()
    if not child:
        left = [step]

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(self: Path, *arguments: Any, **options: Any) -> Any:
                if "mtp" in self.name or "config.json" in self.name:
                    if not left[0]:
                        os._exit(9)
                    left[0] -= 1
                return function(self, *arguments, **options)

            return call

        Path.replace, Path.unlink = counted(Path.replace), counted(Path.unlink)  # type: ignore[method-assign]
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def consistent(directory: Path, *pairs: Path) -> None:
    """The head is one of the given ones, or there is none; config.json is valid."""
    json.loads((directory / "config.json").read_text())
    if (directory / XML).exists():
        assert ((directory / XML).read_bytes(), (directory / BIN).read_bytes()) in [
            ((pair / XML).read_bytes(), (pair / BIN).read_bytes()) for pair in pairs
        ]


@pytest.mark.slow
@pytest.mark.parametrize("replaced", [False, True])
def test_killed_at_any_step_it_can_be_completed_or_undone(
    replaced: bool, headless: Callable[..., Path], export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    base, retrained, start = export_copy(BASE), export_copy(BASE, to="retrained"), headless()
    noisy(retrained, "mtp", 0.01)
    before = files(start)
    if replaced:
        attach(start, retrained)
    for step in range(20):
        directory = shutil.copytree(start, tmp_path / f"killed{step}")
        was_killed = killed(step, lambda directory=directory: attach(directory, base, force=replaced))
        consistent(directory, base, retrained)
        again = shutil.copytree(directory, tmp_path / f"again{step}")
        attach(again, base, force=replaced)
        found = files(again)
        assert found.pop(RECORD)
        assert found == files(base), step
        killed_again = killed(step, lambda again=again: irtools.open_export(again).detach())
        consistent(again, base)
        if killed_again:
            irtools.open_export(again).detach()
        assert files(again) == before, step
        if not replaced:
            irtools.open_export(directory).detach()
            left = {name: data for name, data in files(directory).items() if not name.endswith(".irtools-tmp")}
            assert left == before, step
        if not was_killed:
            break
    else:
        pytest.fail("it was killed at every step")
    assert step >= 6


# -- the runtime -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_the_runtime_accepts_as_many_tokens_as_with_the_original(headless: Callable[..., Path], fixtures: Path) -> None:
    directory, tuned = headless(), headless(to="noisy")
    noisy(tuned, "language", 1e-4)
    noisy(tuned, "text_embeddings", 1e-4)
    for one in (directory, tuned):
        attach(one, fixtures / BASE, check=True)
    jobs = [GenerationJob(str(one), "zqab", draft=str(one), max_new_tokens=40) for one in (directory, tuned)]
    same, close = genai.iterate(jobs)
    assert (same.stage, same.accepted, same.drafted) == ("ran", 19, 19)
    assert close.stage == "ran"
    assert close.accepted > close.drafted / 2
