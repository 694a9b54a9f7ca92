"""Layout in a child process: formats, fonts, engines and time limits."""

from __future__ import annotations

import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import irtools
from irtools.errors import RenderError
from irtools.export import open_export
from irtools.render import engine
from irtools.render.dot import to_dot
from irtools.render.drawing import Drawing, render
from irtools.render.engine import DPI, LARGEST_SIDE, Layout, engine_command
from irtools.render.metrics import text_width
from irtools.render.picture import Arrow, Box, Picture
from irtools.render.pictures import PictureRequest, pictures

SVG = "{http://www.w3.org/2000/svg}"
EXPORTS = ["falcon", "gemma4_vl", "opt", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_dflash", "bert"]


@pytest.fixture(autouse=True)
def _forget_the_engine() -> Iterator[None]:
    engine_command.cache_clear()
    yield
    engine_command.cache_clear()


def drawn(picture: Picture, form: str) -> bytes:
    layout = Layout(to_dot(picture), form)
    try:
        deadline = time.monotonic() + 30
        while (data := layout.result()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return data
    finally:
        layout.close()


def small(text: str = "MatMul", *more: str) -> Picture:
    boxes = tuple(Box(f"b{number}", "op", title) for number, title in enumerate((text, *more)))
    return Picture("title", (), boxes, (Arrow("b0", "b1", "f32 [B, S, 32]"),) if more else ())


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def png_pixels(data: bytes) -> bytes:
    """The filtered rows of a PNG: equal for equal pictures, nearly constant for a blank one."""
    packed, position = b"", 8
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        if data[position + 4 : position + 8] == b"IDAT":
            packed += data[position + 8 : position + 8 + length]
        position += 12 + length
    return zlib.decompress(packed)


@pytest.mark.parametrize("name", EXPORTS)
def test_svg_is_well_formed_and_has_its_texts(fixtures: Path, name: str) -> None:
    drawing = render(open_export(fixtures / name), PictureRequest(), "svg", seconds=20)
    root = ElementTree.fromstring(drawing.data)
    assert root.tag == f"{SVG}svg"
    texts = {(node.text or "").replace("\N{NO-BREAK SPACE}", " ").strip() for node in root.iter(f"{SVG}text")}
    assert {box.title for box in drawing.picture.boxes if box.title} <= texts
    assert {line for box in drawing.picture.boxes for line in box.lines} <= texts
    assert drawing.picture.title in texts
    assert b"<!DOCTYPE" not in drawing.data


def test_png_has_the_size_of_the_svg_and_is_not_blank(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl")
    svg = ElementTree.fromstring(render(export, PictureRequest(), "svg", seconds=20).data)
    data = render(export, PictureRequest(), "png", seconds=20).data
    points = [float(svg.attrib[side].removesuffix("pt")) for side in ("width", "height")]
    for pixels, expected in zip(png_size(data), points, strict=True):
        assert abs(pixels - expected * DPI / 72) <= 3
    rows = png_pixels(data)
    assert len(set(rows)) > 50
    assert 0.001 < sum(byte not in (0, 255) for byte in rows) / len(rows) < 0.6


def test_pdf(fixtures: Path) -> None:
    data = render(open_export(fixtures / "falcon"), PictureRequest(), "pdf", seconds=20).data
    assert data.startswith(b"%PDF-")
    assert b"%%EOF" in data[-32:]
    assert b"LiberationSans" in data


def test_letters_are_letters_without_any_font_on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # An engine without fonts draws the same empty box for every letter.
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("FONTCONFIG_PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    one, other = png_pixels(drawn(small("nnuu"), "png")), png_pixels(drawn(small("uunn"), "png"))
    assert len(one) == len(other)
    assert one != other
    assert one == png_pixels(drawn(small("nnuu"), "png"))


def test_boxes_are_as_wide_as_our_font_needs() -> None:
    title = "Sliding-window attention: 4 heads of 16, 2 \N{MULTIPLICATION SIGN} 32 \N{MIDDLE DOT} f32"
    root = ElementTree.fromstring(drawn(small(title), "svg"))
    width = text_width(title, 11, bold=True)
    assert width is not None
    points = re.findall(
        r"(-?[0-9.]+),", next(root.iter(f"{SVG}g")).find(f".//{SVG}g[@class='node']/{SVG}polygon").attrib["points"]
    )
    box = max(map(float, points)) - min(map(float, points))
    assert width < box < width * 1.05 + 2 * 0.12 * 72 + 4
    (node,) = [node for node in root.iter(f"{SVG}text") if node.text == title]
    assert float(node.attrib["textLength"]) == pytest.approx(width, abs=0.01)


def test_other_scripts_are_drawn_too() -> None:
    root = ElementTree.fromstring(drawn(small("\N{CJK UNIFIED IDEOGRAPH-6F22}\N{CJK UNIFIED IDEOGRAPH-5B57}"), "svg"))
    assert "\N{CJK UNIFIED IDEOGRAPH-6F22}\N{CJK UNIFIED IDEOGRAPH-5B57}" in {
        node.text for node in root.iter(f"{SVG}text")
    }


def test_hostile_text_stays_text() -> None:
    text = '<script>alert(1)</script>"]; x -> y & \x07 \\N \ud800'
    picture = Picture(text, (text,), (Box("a", "op", text, (text,), hint=text),), (), (text,), (text,))
    root = ElementTree.fromstring(drawn(picture, "svg"))
    assert "script" not in {node.tag.removeprefix(SVG) for node in root.iter()}
    assert any("<script>alert(1)</script>" in (node.text or "") for node in root.iter(f"{SVG}text"))
    assert len(root.findall(f".//{SVG}g[@class='node']")) == 1


def test_a_huge_png_is_scaled_down() -> None:
    names = [f"op {number}" for number in range(150)]
    boxes = tuple(Box(f"b{number}", "op", name) for number, name in enumerate(names))
    arrows = tuple(Arrow(f"b{number}", f"b{number + 1}") for number in range(len(names) - 1))
    width, height = png_size(drawn(Picture("chain", (), boxes, arrows), "png"))
    assert max(width, height) <= LARGEST_SIDE + 2
    assert height > 0.9 * LARGEST_SIDE


# -- engines ---------------------------------------------------------------------------


def fake_dot(folder: Path, body: str) -> Path:
    """An executable ``dot`` whose arguments are in ``arguments`` and its input in ``source``."""
    folder.mkdir(exist_ok=True)
    path = folder / "dot"
    path.write_text(
        f"#!{sys.executable}\nimport sys, time, pathlib, os\n"
        "arguments = sys.argv[1:]\nsource = pathlib.Path(arguments[-1]).read_text(encoding='utf-8')\n"
        "output = next(a[2:] for a in arguments if a.startswith('-o'))\n" + body
    )
    path.chmod(0o755)
    return path


def test_dot_on_the_path_gets_the_same_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path) -> None:
    fake_dot(tmp_path / "bin", "pathlib.Path(output).write_text(' '.join(arguments) + chr(10) + source)")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    export = open_export(fixtures / "falcon")
    arguments, _, source = render(export, PictureRequest(), "png").data.decode().partition("\n")
    assert source.encode() == render(export, PictureRequest(), "dot").data
    assert "-Tpng" in arguments


def test_without_an_engine_there_is_one_sentence_and_dot_still_works(
    monkeypatch: pytest.MonkeyPatch, fixtures: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    export = open_export(fixtures / "falcon")
    with pytest.raises(RenderError, match=r"install the extra .*render.*; -o FILE.dot works without$"):
        render(export, PictureRequest(), "svg")
    assert render(export, PictureRequest(), "dot").data.startswith(b"digraph")
    assert export._repr_svg_() is None


def test_an_engine_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path) -> None:
    fake_dot(tmp_path / "bin", "sys.exit('dot: cannot find a font anywhere')")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(RenderError, match="cannot find a font anywhere"):
        render(open_export(fixtures / "falcon"), PictureRequest(), "svg")


def slow_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int) -> Path:
    """An engine that hangs, deaf to signals that can be handled, on more than ``most`` nodes."""
    pids = tmp_path / "pids"
    fake_dot(
        tmp_path / "bin",
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"open({str(pids)!r}, 'a').write(str(os.getpid()) + chr(10))\n"
        f"while source.count(' shape=') > {most}: time.sleep(0.05)\n"
        "pathlib.Path(output).write_text(source)",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return pids


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_layout_that_hangs_is_killed_and_a_coarser_one_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path
) -> None:
    export = open_export(fixtures / "qwen3_5_vl")
    coarse = list(pictures(export, PictureRequest(full=True)))[2]
    pids = slow_engine(monkeypatch, tmp_path, most=len(coarse.boxes) + 6)
    started = time.monotonic()
    drawing: Drawing = render(export, PictureRequest(full=True), "svg", seconds=2.5)
    assert time.monotonic() - started < 6
    assert {box.key for box in drawing.picture.boxes} == {box.key for box in coarse.boxes}
    assert any("whose layout took too long" in sentence for sentence in drawing.picture.omitted)
    assert b"whose layout took too long" in drawing.data
    assert len(pids.read_text().split()) >= 3
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_asking_for_more_ops_never_draws_fewer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl")
    usual = next(pictures(export, PictureRequest(full=True, most=60)))
    slow_engine(monkeypatch, tmp_path, most=len(usual.boxes) + 60)
    drawing = render(export, PictureRequest(full=True, most=2000, usual=60), "svg", seconds=2.5)
    assert {box.key for box in drawing.picture.boxes} == {box.key for box in usual.boxes}


def test_when_nothing_is_laid_out_in_time_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path
) -> None:
    pids = slow_engine(monkeypatch, tmp_path, most=-1000)
    monkeypatch.setattr("irtools.render.drawing._GRACE", 0.2)
    with pytest.raises(RenderError, match=r"no layout was found in .*; -o FILE.dot works without"):
        render(open_export(fixtures / "falcon"), PictureRequest(), "svg", seconds=1)
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_quick_layouts_are_not_raced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fixtures: Path) -> None:
    pids = slow_engine(monkeypatch, tmp_path, most=10_000)
    render(open_export(fixtures / "falcon"), PictureRequest(), "svg", seconds=20)
    assert len(pids.read_text().split()) == 1


# -- notebooks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "get",
    [
        lambda export: export,
        lambda export: export.target,
        lambda export: export.mtp,
        lambda export: export.parts["vision_embeddings"],
        lambda export: export.locate(),
    ],
)
def test_objects_show_themselves_as_svg(fixtures: Path, get: Callable[[irtools.Export], object]) -> None:
    shown = get(irtools.open_export(fixtures / "qwen3_5_vl"))._repr_svg_()  # type: ignore[attr-defined]
    assert ElementTree.fromstring(shown).tag == f"{SVG}svg"
    assert shown.startswith("<svg")


def test_an_unreadable_object_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net")
    assert irtools.open_export(tmp_path)._repr_svg_() is None


def test_importing_irtools_does_not_import_the_renderer() -> None:
    import subprocess

    code = (
        "import irtools, sys; irtools.open_export; print([m for m in sys.modules if 'render' in m or 'graphviz' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
