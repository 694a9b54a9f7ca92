"""Speed, as ratios of whole processes measured in one go: ``make bench``.

Each row runs two commands by turns and divides the medians, so that a busy machine slows both.
Times are wall-clock seconds, or seconds of the processor where the row says so; memory is the peak of the process.
A row above its limit makes the exit code 1.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import drafting, fleet

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
IRTOOLS = [sys.executable, "-m", "irtools"]
READ = "import sys, openvino; openvino.Core().read_model(sys.argv[1])"
# Like irtools it leaves its files on the disk, not in its cache. With names it exposes these ops.
SAVE = """
import os, sys, openvino
model = openvino.Core().read_model(sys.argv[1])
if len(sys.argv) > 3:
    model.add_outputs([(name, 0) for name in sys.argv[3:]])
openvino.save_model(model, sys.argv[2] + ".xml")
for suffix in (".xml", ".bin"):
    with open(sys.argv[2] + suffix, "r+b") as file:
        os.fsync(file.fileno())
"""
_FULL = tuple(f"render --full -o x.{form}" for form in ("svg", "png", "pdf", "dot"))
# As installed: byte code is compiled once, not at every start.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Command:
    """One process that is measured, and what to do before each run."""

    arguments: Sequence[str | Path]
    prepare: Callable[[], None] = lambda: None
    codes: tuple[int, ...] = (0,)
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    peak: float = 0.0

    def run(self) -> None:
        self.prepare()
        started = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, self.arguments)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - started)
        self.processor.append(usage.ru_utime + usage.ru_stime)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in self.codes:
            raise SystemExit(f"{' '.join(map(str, self.arguments))} exited with {process.returncode}")
        self.peak = max(self.peak, usage.ru_maxrss / 1024)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def work(self) -> float:
        """Median of the seconds of the processor."""
        return statistics.median(self.processor)


def interleave(*commands: Command, runs: int) -> None:
    """Run the commands by turns, after one run that warms the caches and does not count."""
    for number in range(runs + 1):
        for command in commands:
            command.run()
            if not number:
                command.seconds.clear()
                command.processor.clear()


class Model:
    """A model directory whose target has no annotation before each run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.xml = next(directory.glob("openvino_*model.xml"))
        subprocess.run([*IRTOOLS, "strip", "-q", directory], check=True, env=ENVIRONMENT)
        self.plain = self.xml.read_bytes()
        self.ops = len(re.findall(rb"\n\t\t<layer id=", self.plain))  # not those in loop bodies

    def restore(self) -> None:
        self.xml.write_bytes(self.plain)

    def annotate(self, *options: str) -> Command:
        return Command([*IRTOOLS, "annotate", "-q", *options, self.directory], self.restore)

    def read(self) -> Command:
        return Command([sys.executable, "-c", READ, self.xml], self.restore)

    def with_weights(self, size: int) -> None:
        with self.xml.with_suffix(".bin").open("r+b") as file:
            file.truncate(size)  # sparse: takes no room on the disk


def build(directory: Path, layers: int = 64, experts: int = 256) -> Model:
    """Build a decoder in a process of its own: a child's peak memory counts that of its parent."""
    sizes = ["--layers", str(layers), "--experts", str(experts)]
    subprocess.run([sys.executable, Path(__file__).with_name("large.py"), directory, *sizes], check=True)
    return Model(directory)


def huge_table(model: Model, size: int) -> None:
    """Move the embedding table to the end of a .bin and let it have ``size`` bytes, for a model of :func:`build`."""
    table = re.compile(
        rb'<data element_type="f32" shape="32, ?8" offset="\d+" size="1024" />(\s*<output>\s*<port[^>]*>\s*<dim>)32<'
    )
    offset, rows = 1 << 20, size // 32
    new = rb'<data element_type="f32" shape="%d, 8" offset="%d" size="%d" />\g<1>%d<' % (rows, offset, rows * 32, rows)
    model.plain, count = table.subn(new, model.plain, count=1)
    if not count:
        raise SystemExit("the embedding table was not found")
    block = os.urandom(64 << 20)
    with model.xml.with_suffix(".bin").open("r+b") as file:  # real bytes: nobody's weights are holes
        file.seek(offset)
        for _ in range(rows * 32 // len(block)):
            file.write(block)
        os.fsync(file.fileno())


@dataclass
class Row:
    """One line of the table."""

    work: str
    limit: str
    measured: str
    memory: str
    good: bool


def ratio_row(work: str, ours: Command, theirs: Command, limit: float, memory_limit: float | None = None) -> Row:
    ratio = ours.median / theirs.median
    fits = memory_limit is None or ours.peak <= memory_limit
    wanted = f"{limit:g} x" + (f", {memory_limit:.0f} MB" if memory_limit else "")
    return Row(
        work,
        wanted,
        f"{ratio:.2f} x ({ours.median:.2f} s / {theirs.median:.2f} s)",
        f"{ours.peak:.0f} / {theirs.peak:.0f} MB",
        ratio <= limit and fits,
    )


def scale_rows(scale: Model, runs: int) -> list[Row]:
    unchecked, read = scale.annotate("--no-check"), scale.read()
    interleave(unchecked, read, runs=runs)
    checked, again = scale.annotate(), scale.annotate("--no-check")
    interleave(checked, again, runs=runs)
    verify, read_again = (
        Command([*IRTOOLS, "verify", "-q", "--exit-zero", scale.directory], scale.restore),
        scale.read(),
    )
    interleave(verify, read_again, runs=runs)
    return [
        ratio_row(f"annotate --no-check, {scale.ops:,} ops, to read_model", unchecked, read, 0.9, 150),
        ratio_row("annotate with its check to without", checked, again, 3),
        ratio_row(f"verify, {scale.ops:,} ops, to read_model", verify, read_again, 1.0),
    ]


SIZED = {
    "inspect": (0.8, ["inspect", "MODEL"]),
    "render": (0.8, ["render", "-q", "MODEL", "-o", "OUT/x.svg"]),
    "report": (1.2, ["report", "-q", "MODEL", "-o", "OUT/x.html"]),
    "diff, one op renamed": (1.6, ["diff", "MODEL", "OTHER"]),
    "annotate --no-check": (0.5, ["annotate", "-q", "--no-check", "MODEL"]),
    "expose --no-check": (0.8, ["expose", "-q", "--no-check", "--layers", "all", "MODEL"]),
    "extract --no-check": (0.8, ["extract", "-q", "--no-check", "--layers", "LAYERS", "MODEL", "-o", "OUT/piece"]),
    "graft --no-check": (0.8, ["graft", "-q", "--no-check", "--vocabulary", "16", "MODEL"]),
}
"""Commands on the large decoder, with their limits as ratios to reading the model once."""
_HEAD = FIXTURES / "qwen3_5_vl" / "openvino_mtp_model.xml"
"""`graft` wants a draft that would use the head of the target; any small IR has the name of one."""


@dataclass
class Sized:
    """A decoder, and a copy of it with a difference, for the commands of :data:`SIZED`."""

    model: Model
    out: Path
    layers: str

    def __post_init__(self) -> None:
        self.model.restore()
        self.other = Model(_copy(self.model.directory, self.out.with_name(f"{self.out.name}-other")))
        renamed = self.model.plain.replace(b"self_attn.q_proj", b"self_attn.renamed", 1)
        self.other.xml.write_bytes(renamed)

    def prepare(self, *, head: bool) -> None:
        self.model.restore()
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        for file in (_HEAD, _HEAD.with_suffix(".bin")):
            (self.model.directory / file.name).unlink(missing_ok=True)
            if head:
                shutil.copy(file, self.model.directory)

    def command(self, words: Sequence[str]) -> Command:
        places = {
            "MODEL": str(self.model.directory),
            "OTHER": str(self.other.directory),
            "LAYERS": self.layers,
        }
        arguments = [places.get(word, word.replace("OUT", str(self.out))) for word in words]
        prepare = functools.partial(self.prepare, head=words[0] == "graft")
        return Command([*IRTOOLS, *arguments], prepare, (0, 1))


def sized_rows(large: Model, small: Model, tiny: Model, scratch: Path) -> list[Row]:
    """Every command at size: time to that of reading, memory within the promise of SECURITY.md, growth of the time.

    Three runs each by turns. The times are those of the processor, so that disks and other processes matter less.
    """
    sizes = [
        Sized(model, scratch / f"sized-{name}", layers)
        for model, name, layers in ((large, "large", "3-5"), (small, "small", "3-5"), (tiny, "tiny", "0"))
    ]
    rows = []
    for name, (limit, words) in SIZED.items():
        big, less, least = (sized.command(words) for sized in sizes)
        read = large.read()
        interleave(big, read, less, least, runs=3)
        ratio = big.work / read.work
        files = 2 if "OTHER" in words else 1
        most = 8 * files * len(large.plain) / 2**20 + 150
        rows.append(
            Row(
                f"{name}, {large.ops:,} ops, to read_model",
                f"{limit:g} x of the processor, {most:.0f} MB",
                f"{ratio:.2f} x ({big.work:.2f} s / {read.work:.2f} s)",
                f"{big.peak:.0f} / {read.peak:.0f} MB",
                ratio <= limit and big.peak <= most,
            )
        )
        power = math.log((big.work - least.work) / (less.work - least.work)) / math.log(large.ops / small.ops)
        work = f"{name}: growth from {small.ops:,} to {large.ops:,} ops, start-up subtracted"
        rows.append(Row(work, "n^1.1", f"n^{power:.2f}", "", power <= 1.1))
    return rows


def weights_rows(scratch: Path, runs: int) -> list[Row]:
    small, sparse = (Model(_copy(FIXTURES / "falcon", scratch / name)) for name in ("falcon", "falcon_40gb"))
    sparse.with_weights(40 << 30)
    ours, theirs = sparse.annotate(), small.annotate()
    interleave(ours, theirs, runs=2 * runs + 1)
    rows = [ratio_row("annotate with check, 40 GB of sparse weights, to a small file", ours, theirs, 1.05)]
    for size in (1, 5):
        heavy = build(scratch / f"heavy{size}", layers=4, experts=8)
        huge_table(heavy, size << 30)
        if size == 5:
            rows.append(save_row(heavy, "annotate --no-check", [], 100))
        rows.append(
            save_row(
                heavy,
                "expose --layers all --no-check",
                [layer["producer"] for layer in located(heavy)["layers"]],
                10 if size == 5 else 1,
            )
        )
    return [*rows, extract_row(heavy)]


def extract_row(heavy: Model) -> Row:
    """A piece that has the largest constant in it, so that all of it is copied."""
    heavy.restore()
    piece = heavy.directory.with_name("piece")
    embedding = located(heavy)["embedding"]["name"]
    command = Command(
        [*IRTOOLS, "extract", "-q", heavy.directory, "--from", embedding, "--to", embedding, "-o", piece],
        lambda: shutil.rmtree(piece, ignore_errors=True),
    )
    interleave(command, runs=3)
    size = next(piece.glob("*.bin")).stat().st_size >> 30
    measured = f"{command.median:.1f} s"
    return Row(f"extract {size} GB in one constant", "500 MB", measured, f"{command.peak:.0f} MB", command.peak <= 500)


def located(model: Model) -> dict[str, Any]:
    """What `irtools locate` prints of a model."""
    found = subprocess.run(
        [*IRTOOLS, "locate", "--format", "json", model.directory], check=True, env=ENVIRONMENT, capture_output=True
    )
    entry: dict[str, Any] = json.loads(found.stdout)["models"][0]
    return entry


def save_row(heavy: Model, work: str, names: Sequence[str], wanted: float) -> Row:
    """How much longer it takes to write the weights again than to leave them alone."""
    name, *options = work.split()
    saved = heavy.directory.with_name("saved")
    weights = heavy.xml.with_suffix(".bin")
    before = weights.stat()
    patch = Command([*IRTOOLS, name, "-q", *options, heavy.directory], heavy.restore)
    save = Command([sys.executable, "-c", SAVE, heavy.xml, saved, *names], heavy.restore)
    interleave(patch, save, runs=3)
    saved.with_suffix(".bin").unlink()
    after = weights.stat()
    untouched = (before.st_ino, before.st_mtime_ns, before.st_blocks) == (
        after.st_ino,
        after.st_mtime_ns,
        after.st_blocks,
    )
    ratio = save.median / patch.median
    outputs = "add_outputs + " if names else ""
    return Row(
        f"read_model + {outputs}save_model with {before.st_size >> 30} GB of weights, to {work}",
        f"{wanted:g} x, 0 bytes of weights",
        f"{ratio:.0f} x ({save.median:.1f} s / {patch.median:.2f} s), "
        + ("0 bytes of weights" if untouched else "weights changed"),
        f"{patch.peak:.0f} / {save.peak:.0f} MB",
        ratio >= wanted and untouched,
    )


def help_row(runs: int) -> Row:
    command = Command([*IRTOOLS, "--help"])
    interleave(command, runs=runs)
    return Row("irtools --help", "0.25 s", f"{command.median:.2f} s", f"{command.peak:.0f} MB", command.median <= 0.25)


def look_rows(scale: Model, scratch: Path, runs: int) -> list[Row]:
    """Looking at a large model: pictures in every format, and the tables."""
    scale.restore()
    rows = []
    for work in ("inspect", *(f"render -o x.{form}" for form in ("svg", "png", "pdf", "dot")), *_FULL):
        name, *options = work.replace("x.", f"{scratch}/x.").split()
        quiet = [] if name == "inspect" else ["-q"]
        command = Command([*IRTOOLS, name, *quiet, scale.directory, *options])
        interleave(command, runs=runs)
        slowest = max(command.seconds)
        measured = f"{command.median:.2f} s, slowest {slowest:.2f} s"
        rows.append(Row(f"{work}, {scale.ops:,} ops", "5 s", measured, f"{command.peak:.0f} MB", slowest <= 5))
    return rows


def graft_rows(scratch: Path, runs: int) -> list[Row]:
    """Drafting with a draft head over 32,768 of 248,320 tokens, to drafting with the whole lm_head."""
    whole = drafting.wide_export(scratch)
    grafted = drafting.linked(whole, scratch / "grafted")
    graft = Command(
        [*IRTOOLS, "graft", "-q", "--no-check", "--vocabulary", "32k", grafted],
        lambda: _restore(whole, grafted),
    )
    xml = "openvino_language_model.xml"
    read = Command([sys.executable, "-c", READ, whole / xml])
    interleave(graft, read, runs=runs)
    grown = (grafted / xml).stat().st_size - (whole / xml).stat().st_size
    measured = drafting.measure({"whole": whole, "grafted": grafted}, 2 * runs)
    a, b = measured["whole"], measured["grafted"]
    head = drafting.head_bytes(whole)
    saved = (a.peak - b.peak) / head
    figures = [
        ("time in the draft, 46 tokens, 3 drafted per pass", 0.35, a.draft, b.draft, "s"),
        ("plain decoding of a grafted target", 1.03, 1000 * a.plain, 1000 * b.plain, "ms per token"),
        ("time to first token of a grafted target", 1.03, a.first, b.first, "s"),
    ]
    rows = []
    for name, limit, theirs, ours, unit in figures:
        text = f"{ours / theirs:.2f} x ({ours:.2f} / {theirs:.2f} {unit})"
        rows.append(Row(f"graft 32k: {name}", f"{limit:g} x", text, "", ours <= limit * theirs))
    peaks = f"{b.peak / 1e6:.0f} / {a.peak / 1e6:.0f} MB"
    rows.append(Row("graft 32k: peak memory saved", "0.8 x lm_head", f"{saved:.2f} x lm_head", peaks, saved >= 0.8))
    rows.append(Row("graft 32k: growth of the XML", "10 kB", f"{grown / 1000:.1f} kB", "", grown < 10_000))
    return [*rows, ratio_row("graft --no-check, to read_model", graft, read, 1.0)]


def fleet_rows() -> list[Row]:
    """Many exports: what a second process gains, what one of many costs, and the memory of the parent."""
    rows = []
    for name, number, few in (("llama", 2000, 200), ("scale", 50, 10)):
        found = fleet.measure(FIXTURES / name, number, few)
        one, two, alone = found.one, found.two, found.alone
        each, gain, grown = one.seconds / number, one.seconds / two.seconds, one.peak / found.few.peak
        what = f"verify {number:,} x {name}"
        rows += [
            Row(
                f"{what}, 2 jobs, to 1 job",
                "1.6 x",
                f"{gain:.2f} x ({two.rate:.1f} / {one.rate:.1f} per s)",
                f"{two.peak:.0f} / {one.peak:.0f} MB",
                gain >= 1.6,
            ),
            Row(
                f"{what}, cluster of 2 workers, to 2 jobs",
                "",
                f"{two.seconds / found.cluster.seconds:.2f} x ({found.cluster.rate:.1f} / {two.rate:.1f} per s)",
                f"{found.cluster.peak:.0f} / {two.peak:.0f} MB",
                True,
            ),
            Row(
                f"{what}, memory, to that for {few}",
                "1.25 x",
                f"{grown:.2f} x",
                f"{one.peak:.0f} / {found.few.peak:.0f} MB",
                grown <= 1.25,
            ),
        ]
        if name == "llama":
            measured = f"{each / alone.seconds:.2f} x ({each:.3f} s / {alone.seconds:.2f} s)"
            rows.append(Row(f"{what}, each, to one alone", "0.25 x", measured, "", each <= alone.seconds / 4))
    return rows


def _restore(whole: Path, grafted: Path) -> None:
    shutil.copy(whole / "openvino_language_model.xml", grafted)


def _copy(source: Path, target: Path) -> Path:
    return shutil.copytree(source, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the large decoder and the 5 GB of weights")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="irtools-bench-") as name:
        scratch = Path(name)
        rows = [help_row(options.runs)]
        scale = Model(_copy(FIXTURES / "scale", scratch / "scale"))
        rows += scale_rows(scale, options.runs)
        rows += look_rows(scale, scratch, options.runs)
        rows += graft_rows(scratch, options.runs)
        if not options.quick:
            tiny = build(scratch / "tiny", layers=1, experts=2)
            small = build(scratch / "small", layers=64, experts=6)
            large = build(scratch / "large")
            rows += sized_rows(large, small, tiny, scratch)
            rows += weights_rows(scratch, options.runs)
            rows += fleet_rows()
    widths = [max(len(getattr(row, key)) for row in rows) for key in ("work", "limit", "measured")]
    for row in [Row("work", "at most", "measured", "memory (ours / theirs)", True), *rows]:
        cells = (cell.ljust(width) for cell, width in zip((row.work, row.limit, row.measured), widths, strict=True))
        sys.stdout.write("  ".join((*cells, row.memory)) + ("" if row.good else "  <- over the limit") + "\n")
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
