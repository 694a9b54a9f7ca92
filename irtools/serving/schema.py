"""Message classes of protobuf for the interface of a release of OpenVINO Model Server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from irtools.errors import UsageError
from irtools.model.versions import parse_version
from irtools.serving.fields import ENUMS, EXTENSIONS, FIRST_RELEASE, LAST_RELEASE, MESSAGES, OPTIONS, PACKAGE

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

__all__ = ["INSTALL", "Schema", "available", "releases_with", "require_protobuf", "schema"]

INSTALL = "pip install 'ov-irtools[serve]'"
"""Command that installs what reads and writes the graphs of the server."""

_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SCALARS = {"float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "uint32": 13}
_MESSAGE, _ENUM = 11, 14
_EXTENSIBLE, _MOST = 20_000, 1 << 29
"""Field numbers that MediaPipe keeps for extensions."""


def available() -> bool:
    """True if protobuf is installed."""
    return find_spec("google") is not None and find_spec("google.protobuf") is not None


def require_protobuf() -> None:
    """Refuse to continue without protobuf.

    Raises
    ------
    UsageError
        It is not installed; says how to install it.
    """
    if not available():
        raise UsageError("graphs of OpenVINO Model Server need protobuf", hint=f"Install it: {INSTALL}.")


@dataclass(frozen=True, slots=True)
class Schema:
    """The interface of one release.

    Attributes
    ----------
    release : str
        The release asked for, such as ``2026.4``.
    known : bool
        False if the release is older or newer than those that irtools knows; then the nearest one stands for it.
    """

    release: str
    known: bool
    pool: DescriptorPool

    def new(self, name: str) -> Any:
        """An empty message, such as ``CalculatorGraphConfig``."""
        from google.protobuf.message_factory import GetMessageClass

        return GetMessageClass(self.pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))()

    def knows(self, since: str) -> bool:
        """True if what came with a release is in this one."""
        return parse_version(since) <= max(parse_version(self.release), parse_version(FIRST_RELEASE))

    def options(self, packed: Message) -> Any:
        """The options of a language model in a ``google.protobuf.Any``; None if it contains another message."""
        if getattr(packed, "type_url", "").rpartition("/")[2] != f"{PACKAGE}.{OPTIONS}":
            return None
        message = self.new(OPTIONS)
        message.ParseFromString(packed.value)  # type: ignore[attr-defined]
        return message


@lru_cache(maxsize=16)
def schema(release: str, others: tuple[str, ...] = ()) -> Schema:
    """The interface of a release; of the nearest known one if irtools does not know it.

    Parameters
    ----------
    release : str
        Such as ``2026.3``. A server has the numbers of the OpenVINO GenAI in it.
    others : tuple of str
        Types to take for empty messages, such as the options of other calculators.

    Raises
    ------
    UsageError
        protobuf is not installed.
    TypeError
        One of ``others`` cannot be the name of a type.
    """
    require_protobuf()
    from google.protobuf import any_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    wanted = parse_version(release)
    first, last = parse_version(FIRST_RELEASE), parse_version(LAST_RELEASE)
    used = max(wanted, first)
    pool = DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    file = FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto2")
    file.dependency.append("google/protobuf/any.proto")
    for name, values in ENUMS.items():
        present = [value.split()[0] for value in values if _is_in(value, used)]
        if present:
            enum = file.enum_type.add(name=name)
            for number, value in enumerate(present):
                # Values of an enumeration share the scope of the message; here all are in one file.
                enum.value.add(name=value, number=number)
    for name in MESSAGES:
        _add_message(file.message_type.add(name=name), name, used)
    pool.AddSerializedFile(file.SerializeToString())
    for other in others:
        package, _, name = other.rpartition(".")
        file = FileDescriptorProto(name=f"{other}.proto", package=package)
        file.message_type.add(name=name)
        pool.AddSerializedFile(file.SerializeToString())
    return Schema(release, first <= wanted and wanted[:2] <= last[:2], pool)


def _add_message(message: DescriptorProto, name: str, release: tuple[int, ...]) -> None:
    for number, (field, spec) in enumerate(MESSAGES[name].items(), 1):
        if _is_in(spec, release):
            _describe(message.field.add(name=field, number=number), spec)
    if name in {*EXTENSIONS.values(), "PacketFactoryOptions", "PacketGeneratorOptions"}:
        message.extension_range.add(start=_EXTENSIBLE, end=_MOST)
    if name in EXTENSIONS:
        number = _EXTENSIBLE + sorted(EXTENSIONS).index(name)
        extension = message.extension.add(name="ext", number=number, extendee=f".{PACKAGE}.{EXTENSIONS[name]}")
        _describe(extension, name)


def _describe(field: FieldDescriptorProto, spec: str) -> None:
    words = spec.partition(" since ")[0].split()
    label = words.pop(0) if words[0] in _LABELS else "optional"
    kind = words.pop(0)
    field.label = _LABELS[label]  # type: ignore[assignment]
    if kind in _SCALARS:
        field.type = _SCALARS[kind]  # type: ignore[assignment]
    else:
        field.type = _ENUM if kind in ENUMS else _MESSAGE  # type: ignore[assignment]
        field.type_name = f".{kind}" if "." in kind else f".{PACKAGE}.{kind}"
    if words:  # "=", default
        field.default_value = words[1]


def _is_in(spec: str, release: tuple[int, ...]) -> bool:
    since = spec.partition(" since ")[2]
    return not since or parse_version(since) <= release


def releases_with(name: str) -> str:
    """First release with an option of a language model or a value of an enumeration; ``""`` if none has it."""
    return next((found or FIRST_RELEASE for one, found in _names() if one == name), "")


def _names() -> Iterator[tuple[str, str]]:
    for field, spec in MESSAGES[OPTIONS].items():
        yield field, spec.partition(" since ")[2]
    for values in ENUMS.values():
        for value in values:
            yield value.split()[0], value.partition(" since ")[2]
