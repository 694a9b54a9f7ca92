"""Command lines that download an export at a URL, or upload a file to it."""

from __future__ import annotations

import shlex

from irtools.remote.address import Address

__all__ = ["download_line", "upload_line"]


def download_line(address: Address, revision: str) -> str:
    """The command that downloads a whole export into a directory of its name."""
    name = shlex.quote(address.name)
    if address.scheme == "hf":
        words = ["hf", "download", address.place]
        words += ["--revision", revision or address.revision] if revision or address.revision else []
        words += ["--include", f"{address.folder}/*"] if address.folder else []
        return shlex.join([*words, "--local-dir", address.name])
    if address.scheme == "s3":
        return f"aws s3 cp --recursive {shlex.quote(address.root)} {name}"
    if address.scheme == "gs":
        return f"gcloud storage cp -r {shlex.quote(address.root)} ."
    return f"wget -r -np -nd -P {name} {shlex.quote(address.root + '/')}"


def upload_line(address: Address, name: str, file: str) -> str:
    """The command that uploads a file under a name below the root; ``""`` for a web server, which has none."""
    if address.scheme == "hf":
        words = ["hf", "upload", address.place, file, name]
        # A commit cannot be written to; the branch is then the user's choice.
        branch = address.revision and not _is_commit(address.revision)
        return shlex.join([*words, "--revision", address.revision] if branch else words)
    if address.scheme == "s3":
        return shlex.join(["aws", "s3", "cp", file, f"{address.root}/{name}"])
    if address.scheme == "gs":
        return shlex.join(["gcloud", "storage", "cp", file, f"{address.root}/{name}"])
    return ""


def _is_commit(revision: str) -> bool:
    return len(revision) == 40 and set(revision) <= set("0123456789abcdef")
