"""Commands on a URL: readers show what they show of the disk, others say what they would download, or write the XML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.remote.conftest import Look
from tests.remote.hub_server import Hub

URL = "hf://org/falcon"


def weights(hub: Hub) -> list[str]:
    return [asked.target for asked in hub.cdn.requests]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("locate", "--explain"),
        ("inspect",),
        pytest.param(("inspect", "--snippet"), marks=pytest.mark.slow),
        ("rt-info", "show"),
    ],
    ids=" ".join,
)
def test_text_is_that_of_the_disk(served: Hub, look: Look, fixtures: Path, arguments: tuple[str, ...]) -> None:
    local = look(*arguments, fixtures / "falcon").out.replace(str(fixtures / "falcon"), "X")
    assert look(*arguments, URL).out.replace(URL, "X") == local


@pytest.mark.slow
def test_pictures_and_pages(served: Hub, look: Look, fixtures: Path, tmp_path: Path) -> None:
    look("render", URL, "-o", tmp_path / "remote.dot")
    look("render", fixtures / "falcon", "-o", tmp_path / "local.dot")
    remote, local = ((tmp_path / f"{where}.dot").read_text() for where in ("remote", "local"))
    assert remote.replace(URL, "X") == local.replace(str(fixtures / "falcon"), "X")
    look("report", URL, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert URL in page
    assert str(look.cache) not in page


@pytest.mark.slow
def test_diff_of_revisions_and_of_a_local_export(served: Hub, look: Look, fixtures: Path, tmp_path: Path) -> None:
    annotated = shutil.copytree(fixtures / "falcon", tmp_path / "annotated")
    look("annotate", annotated)
    old = served.repositories["org/falcon"].branches["main"]
    served.commit("org/falcon", annotated)
    assert look("diff", URL, annotated).code == 0
    assert look("diff", f"{URL}@{old}", fixtures / "falcon").code == 0
    done = look("diff", f"{URL}@{old}", URL)
    local = look("diff", fixtures / "falcon", annotated)
    assert (done.code, local.code) == (1, 1)
    remote = done.out.replace(f"{URL}@{old}", "A").replace(URL, "B")
    assert remote == local.out.replace(str(fixtures / "falcon"), "A").replace(str(annotated), "B")
    assert "only b is annotated" in remote
    assert sum(asked.sent for asked in served.cdn.requests) < 500_000


@pytest.mark.slow
def test_diff_sees_other_weights_by_their_hash(served: Hub, look: Look, fixtures: Path) -> None:
    files = {path.name: path.read_bytes() for path in (fixtures / "falcon").iterdir()}
    old = served.repositories["org/falcon"].branches["main"]
    weights = bytearray(files["openvino_model.bin"])
    weights[len(weights) // 2] ^= 1
    served.commit("org/falcon", files | {"openvino_model.bin": bytes(weights)})
    done = look("diff", f"{URL}@{old}", URL, codes=(0, 1, 2))
    assert done.code != 0


@pytest.mark.parametrize("command", ["prove", pytest.param("bench", marks=pytest.mark.slow)])
def test_commands_that_run_say_what_they_would_download(served: Hub, look: Look, command: str) -> None:
    done = look(command, URL, codes=(0, 2))
    size = sum(entry.size for entry in served.repositories["org/falcon"].at("main").files.values())
    text = done.out + done.err
    assert "hf download org/falcon" in text
    assert any(f"{size / unit:.{digits}f}" in text or f"{size:,}" in text for unit in (1000, 1024) for digits in (0, 1))
    assert not weights(served)


WRITERS = {
    "annotate": ("annotate",),
    "expose": ("expose", "--layers", "0,last"),
    "graft": ("graft", "--vocabulary", "64"),
    "strip": ("strip",),
}


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[] if name == "annotate" else pytest.mark.slow) for name in WRITERS]
)
def test_writers_write_the_xml_alone(hub: Hub, look: Look, fixtures: Path, tmp_path: Path, command: str) -> None:
    name = "qwen3_5_vl_trained" if command in ("graft", "strip") else "falcon"
    export = shutil.copytree(fixtures / name, tmp_path / "local")
    hub.add("org/name", export)
    arguments = WRITERS[command]
    local = look(*arguments, export, "--output-dir", tmp_path / "from-disk")
    done = look(*arguments, "hf://org/name", "--output-dir", tmp_path / "from-url")
    assert (done.code, local.code) == (0, 0)
    written = {path.name: path.read_bytes() for path in (tmp_path / "from-url").rglob("*") if path.is_file()}
    xml = [name for name in written if name.endswith(".xml")]
    assert written.keys() == set(xml)
    assert len(xml) == 1
    assert written[xml[0]] == (tmp_path / "from-disk" / xml[0]).read_bytes()
    assert "hf upload org/name" in done.out + done.err
    assert sum(asked.sent for asked in hub.cdn.requests) < 500_000


@pytest.mark.slow
def test_writers_need_an_output_directory(served: Hub, look: Look) -> None:
    assert "--output-dir" in look.error("annotate", URL)
    done = look("annotate", "--dry-run", URL)
    assert done.code == 1
    assert look("annotate", "--diff", URL).out.count("hidden_states_decoder_layers") >= 1


@pytest.mark.slow
def test_organisation(served: Hub, look: Look, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All repositories with an IR, over several pages, also a folder of one; the others are passed over."""
    monkeypatch.setattr(served, "page", 2)
    served.add("org/llama", fixtures / "llama")
    nested = {f"int4/{path.name}": path for path in (fixtures / "falcon").iterdir()}
    served.add("org/nested", nested)
    served.add("org/text", {"README.md": b"nothing here"})
    served.add("org/weights", {"model.safetensors": b"x"})
    served.add("else/falcon", fixtures / "falcon")
    out = look("verify", "hf://org").out
    for name in ("org/falcon", "org/llama", "org/nested/int4"):
        assert f"hf://{name}" in out
    assert "else/falcon" not in out
    assert "org/text" not in out


@pytest.mark.slow
def test_cache_command(served: Hub, look: Look) -> None:
    look("verify", URL)
    assert URL in look("cache").out
    look("cache", "--clear")
    assert URL not in look("cache").out
    served.clear()
    look("verify", URL)
    assert served.cdn.requests


@pytest.mark.slow
def test_paths_with_urls_of_other_kinds_are_refused(look: Look) -> None:
    for url in (
        "ftp://host/x",
        "file:///tmp/x",
        "hf://",
        "hf://datasets/org/name",
        "s3://",
        "hf://a/b/../c",
        "https://",
    ):
        assert look.error("verify", url)
