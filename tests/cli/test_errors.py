"""Every error names the file and the fault."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irtools.model.document import Document
from tests.cli.conftest import Done, command
from tests.marks import mostly_slow


@pytest.fixture
def letter(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An export in a directory with a name of one letter; the working directory is its parent."""
    directory = export_copy("falcon", to="a")
    monkeypatch.chdir(directory.parent)
    return Path("a")


def edit(model: Path, old: bytes, new: bytes) -> int:
    """Replace the first match in the target; return its line."""
    path = model / "openvino_model.xml"
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    return data[: data.index(old)].count(b"\n") + 1


@pytest.mark.parametrize("name", ["annotate", "locate", "inspect"])
def test_a_malformed_port_names_file_line_op_and_what_to_do(name: str, letter: Path, cli: Callable[..., Done]) -> None:
    edit(letter, b"<dim>512</dim>", b"<dim>x</dim>")
    document = Document(letter / "openvino_model.xml")
    op = next(index for index, span in enumerate(document.scan.spans) if b"<dim>x<" in document.data[slice(*span)])
    done = cli(name, letter)
    assert done.code == 2
    assert done.err == (
        f"irtools: error: a/openvino_model.xml: line {document.line(document.scan.spans[op])}: "
        f"the op {document.scan.names[op]!r} has a port whose dimension is 'x', which is not a number "
        "of at most 18 digits; export the model again, or restore the file\n"
    )


@pytest.mark.parametrize("path", ["a", "a/openvino_model.xml"])
def test_duplicate_ids_name_the_file_once(path: str, letter: Path, cli: Callable[..., Done]) -> None:
    line = edit(letter, b'<layer id="1" ', b'<layer id="0" ')
    done = cli("locate", path)
    assert done.code == 2
    assert done.err.startswith(f"irtools: error: a/openvino_model.xml: line {line}: two ops have the id 0: ")


def test_a_cycle_is_told_in_the_words_of_the_rule(letter: Path, cli: Callable[..., Done]) -> None:
    """The first edge comes from the output of a later op that depends on it."""
    document = Document(letter / "openvino_model.xml")
    graph = document.graph
    add = next(key for key in graph if graph.op_type(key) == "Add" and graph.inputs(key)[0].op not in graph.constants)
    user = next(key for key in graph.successors(add) if graph.op_type(key) not in ("Result", "ShapeOf"))
    source = graph.inputs(add)[0]
    edit(
        letter,
        b'from-layer="%d" from-port="%d" to-layer="%d"' % (*source, add),
        b'from-layer="%d" from-port="%d" to-layer="%d"' % (user, graph.op(user).outputs[0].id, add),
    )
    located = cli("locate", letter)
    assert located.code == 2
    assert located.err.startswith("irtools: error: a/openvino_model.xml: line ")
    verified = cli("verify", letter, "--select", "IR015")
    message = located.err.split(": line ")[1].split(": ", 1)[1].split(";")[0]
    assert "is in a cycle: it depends on its own output" in message
    assert message in verified.out.replace("\n", " ")


def test_the_working_directory_is_named_as_such(
    letter: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(letter, b"<dim>512</dim>", b"<dim>x</dim>")
    monkeypatch.chdir(letter)
    assert cli("locate").err.startswith("irtools: error: openvino_model.xml: line ")
    Path("openvino_model.xml").unlink()
    assert cli("locate").err.startswith("irtools: error: .: no openvino_model.xml or ")


def test_a_refusal_names_the_file_once(fixtures: Path, cli: Callable[..., Done]) -> None:
    done = cli("locate", fixtures / "bert")
    assert done.err.count(str(fixtures / "bert" / "openvino_model.xml")) == 1


GONE = "the working directory no longer exists; change to another one"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("annotate", ".", "x", "--output-dir", "o"), f".: {GONE}"),
        (("verify",), f".: {GONE}"),
        (("annotate", "--output-dir", "o"), ".: no openvino_model.xml or "),
    ],
)
def test_a_deleted_working_directory_is_not_standard_output(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    there = tmp_path / "gone"
    there.mkdir()
    script = 'cd "$1"; shift; rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", there, *command(*arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"irtools: error: {message}")
    assert done.stderr.count("\n") == 1


def test_a_loop_of_links_is_an_error_of_that_model(letter: Path, cli: Callable[..., Done], tmp_path: Path) -> None:
    Path("loop").symlink_to("loop")
    done = cli("annotate", "loop", letter, "--output-dir", tmp_path / "out", "--no-check")
    assert done.code == 2
    assert done.err.splitlines()[0] == "irtools: error: loop: no such file or directory"
    assert (tmp_path / "out" / "a" / "openvino_model.xml").is_file()


@pytest.mark.parametrize("form", mostly_slow(["text", "json", "sarif"], fast=1))
def test_a_full_disk_behind_verify_is_said_of_standard_output(form: str, fixtures: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("verify", *[fixtures / "falcon"] * 3, "--format", form),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"irtools: error: standard output cannot be written: No space left on device\n"


def test_help_into_a_closed_pipe_is_silent() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command("annotate", "--help"), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def as_user(*arguments: object) -> list[str | bytes]:
    """The command line as a user without root permissions."""
    if os.geteuid():
        return command(*arguments)
    if shutil.which("setpriv") is None:
        pytest.skip("no way to be anybody else")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command(*arguments)]


@pytest.mark.parametrize("name", mostly_slow(["annotate", "verify", "locate", "inspect", "strip"], fast=2))
def test_a_directory_that_may_not_be_read_stops_no_other(name: str, letter: Path) -> None:
    Path("shut").mkdir(mode=0)
    arguments = as_user(name, "shut", "a", *(["--dry-run"] if name in ("annotate", "strip") else []), "--format=json")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "irtools: error: shut: cannot be read: permission denied"
    first, second = json.loads(done.stdout)["models"]
    assert (first["status"], first["error"]) == ("failed", "shut: cannot be read: permission denied")
    assert second["error"] is None


def test_a_file_in_a_directory_that_may_not_be_listed(letter: Path) -> None:
    letter.chmod(0o300)
    done = subprocess.run(as_user("locate", letter / "openvino_model.xml"), capture_output=True, check=False)
    letter.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def in_time(cli: Callable[..., Done]) -> Iterator[Callable[..., Done]]:
    """Run ``irtools`` in this process; the test fails if it waits for a minute."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield cli
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


NO_FILE = [
    ("locate", "openvino_model.xml", fifo, "cannot be read: is not a regular file"),
    ("annotate", "openvino_model.xml", fifo, "cannot be read: is not a regular file"),
    ("strip", "openvino_model.xml", fifo, "cannot be read: is not a regular file"),
    ("inspect", "openvino_model.xml", fifo, "cannot be read: is not a regular file"),
    ("locate", "openvino_model.xml", lambda path: (path.unlink(), path.mkdir()), "cannot be read: is a directory"),
    ("locate", "openvino_model.xml", lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "not a regular file"),
    ("annotate", "config.json", fifo, "cannot be read: is not a regular file"),
    ("inspect", "config.json", fifo, "cannot be read: is not a regular file"),
    ("annotate", "openvino_model.bin", fifo, "the weights cannot be read (is not a regular file)"),
]


@pytest.mark.parametrize(("name", "file", "make", "message"), NO_FILE)
def test_what_is_no_file_is_not_waited_for(
    name: str, file: str, make: Callable[[Path], object], message: str, letter: Path, in_time: Callable[..., Done]
) -> None:
    make(letter / file)
    done = in_time(name, letter)
    assert done.code == 2
    assert done.err.startswith(f"irtools: error: a/{file}: ")
    assert message in done.err


@pytest.mark.parametrize(
    "file", ["openvino_model.xml", "openvino_model.bin", "config.json", "tokenizer.json", "openvino_mtp_model.xml"]
)
@pytest.mark.parametrize("name", ["verify", "inspect", "report", "diff"])
def test_no_command_waits_for_a_pipe(
    name: str, file: str, letter: Path, fixtures: Path, in_time: Callable[..., Done]
) -> None:
    fifo(letter / file)
    more = {"report": ["-o", "page.html"], "diff": [fixtures / "falcon"]}.get(name, [])
    assert in_time(name, letter, *more).code in (0, 1, 2)
