"""Read the model-level rt_info, and set or remove one entry without changing any other byte.

OpenVINO reads the first ``<rt_info>`` below ``<net>``. If there is none, it reads the first ``<meta_data>``,
so an ``<rt_info>`` added to such a file would hide the ``<meta_data>``. The key of an entry in ``<rt_info>``
is its ``name`` attribute, or its tag without one; in ``<meta_data>`` it is always the tag. The last of several
entries with one key counts. All of this was verified with OpenVINO 2026.4.

Edits work on byte offsets, and every edit is read back. An element that an edit created for its entry, or opened, is
recorded at the entry, so that removing the entry restores the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union
from xml.parsers import expat

from irtools.errors import EditError, InvalidIRError
from irtools.ir.markup import (
    SPACE,
    Splice,
    attributes_at,
    declares_ascii,
    first_space,
    last_line,
    removal,
    space_before,
    spell_attribute,
    spliced,
)
from irtools.ir.scan import (
    ATTRIBUTES,
    TAG,
    Scan,
    Span,
    child_spans,
    parse_attributes,
    same_graph,
    same_section,
    scan_outline,
)
from irtools.text import listed

__all__ = [
    "ANNOTATION_KEY",
    "RtInfo",
    "RtInfoEntry",
    "effective_entry",
    "entries",
    "entry_path",
    "leaves",
    "read_rt_info",
    "remove_entry",
    "set_entry",
]

ANNOTATION_KEY = "hidden_states_decoder_layers"
"""Model-level rt_info key of the hidden-state annotation."""

RtInfo: TypeAlias = Mapping[str, Union[str, "RtInfo"]]
"""Nested runtime information: values are strings or mappings."""

_REPLACED = "irtools-replaced"
"""Attribute of an element whose parent irtools created or opened for it: the previous text of the parent."""

_EMPTY = re.compile(rb"<([^\s>/]+)" + ATTRIBUTES + rb"\s*(?:/>|></\1\s*>)")
_XML_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RtInfoEntry:
    """One entry of the model-level rt_info.

    Attributes
    ----------
    value : str or None
        None for an entry without a value: a mapping or an empty element.
    span : Span
        Byte range in the file.
    line : int
        Counted from 1.
    """

    value: str | None
    span: Span
    line: int


# -- reading ---------------------------------------------------------------------------


def _container(scan: Scan) -> Span | None:
    """Element that OpenVINO reads rt_info from."""
    return scan.rt_infos[0] if scan.rt_infos else scan.meta_data


def _key(scan: Scan, tag: str, attributes: Mapping[str, str]) -> str:
    if scan.rt_infos:
        return attributes.get("name", tag)
    return "conversion_parameters" if tag == "cli_parameters" else tag


def read_rt_info(scan: Scan) -> RtInfo:
    """Model-level rt_info of a file as OpenVINO interprets it; empty without one."""
    where = _container(scan)
    root: dict[str, str | RtInfo] = {}
    if where is None:
        return root
    stack: list[dict[str, str | RtInfo]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not stack:
            stack.append(root)
            return
        children: dict[str, str | RtInfo] = {}
        key = _key(scan, tag, attributes) if len(stack) == 1 else attributes.get("name", tag)
        stack[-1][key] = attributes.get("value", children)
        stack.append(children)

    # Not lxml, which rejects undeclared namespace prefixes and deep nesting; OpenVINO accepts both.
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.Parse(scan.data[where.start : where.end], True)
    return root


def _children(scan: Scan, parent: Span | None = None) -> Iterator[tuple[str, Mapping[str, str], Span]]:
    """Key, attributes and byte range of each entry of a group, by default of the container."""
    where = parent or _container(scan)
    for tag, span in child_spans(scan.data, where) if where is not None else ():
        attributes = _attributes(scan, span)
        yield attributes.get("name", tag) if parent else _key(scan, tag, attributes), attributes, span


def _attributes(scan: Scan, element: Span) -> Mapping[str, str]:
    opening = TAG.match(scan.data, element.start)
    return parse_attributes(opening[3]) if opening else {}


def _way(scan: Scan, path: Sequence[str]) -> list[Span]:
    """Elements of a path that exist, the outermost first; each is the last of its key, which counts."""
    way: list[Span] = []
    for key in path:
        if way and "value" in _attributes(scan, way[-1]):
            break  # OpenVINO ignores the content of an element with a value
        members = [span for name, _, span in _children(scan, way[-1] if way else None) if name == key]
        if not members:
            break
        way.append(members[-1])
    return way


def leaves(entries: RtInfo) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and value of each value in nested runtime information."""
    pending: list[tuple[tuple[str, ...], str | RtInfo]] = [((), entries)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        else:
            pending += [((*path, key), inner) for key, inner in value.items()][::-1]


def entry_path(scan: Scan, key: str | Sequence[str]) -> tuple[str, ...]:
    """Path of an entry: the keys of its groups, then its own.

    Parameters
    ----------
    key : str or sequence of str
        A path. In text, ``/`` separates the keys, unless the file has an entry with this very key.

    Raises
    ------
    EditError
        A key is empty.
    """
    path = tuple(key.split("/")) if isinstance(key, str) else tuple(key)
    if isinstance(key, str) and len(path) > 1 and len(_way(scan, path)) < len(path) and _way(scan, (key,)):
        path = (key,)
    if not all(path) or not path:
        raise EditError(f"{key!r} is not the path of an rt_info entry; write a key, or group/key")
    return path


def entries(scan: Scan, key: str) -> tuple[RtInfoEntry, ...]:
    """Entries of a file with a key, in file order; OpenVINO reads the last one."""
    return tuple(
        RtInfoEntry(attributes.get("value"), span, scan.line(span.start))
        for name, attributes, span in _children(scan)
        if name == key
    )


def effective_entry(scan: Scan, key: str) -> RtInfoEntry | None:
    """The entry with a key that OpenVINO reads, which is the last one; None if there is none."""
    return next(reversed(entries(scan, key)), None)


# -- editing ---------------------------------------------------------------------------


def set_entry(scan: Scan, key: str | Sequence[str], value: str, *, force: bool = False) -> bytes:
    """Set one entry of the model-level rt_info and return the new file; all other bytes are unchanged.

    New elements go where OpenVINO would write them: sorted bytewise among their siblings. If entries with this
    key exist, the last one, which counts, gets the new value.

    Parameters
    ----------
    key : str or sequence of str
        Key of the entry, or its path: the keys of the groups around it first. A key becomes the tag if it is a valid
        XML name, otherwise the ``name`` attribute.
    value : str
        Any text that XML can represent, not escaped.
    force : bool
        Replace a group of entries by the value, or a value on the path by a group.

    Raises
    ------
    EditError
        There is a group in place of the entry, or a value in place of a group.
    InvalidIRError
        The file has no place for the entry, or reading it back does not give the new value.
    """
    path = (key,) if isinstance(key, str) else tuple(key)
    way = _way(scan, path)
    where = way[-1] if way else _container(scan)
    _require_readable(scan, path)
    if where is None:
        edited = _create(scan, path, value)
    elif len(way) == len(path):
        if not force:
            _require_no_group(scan, where, path)
        edited = _replace(scan, where, path, value)
    elif way and "value" in _attributes(scan, where):
        if not force:
            raise EditError(
                f"the rt_info entry {_shown(path[: len(way)])} has a value, so it cannot hold {path[len(way)]!r}; "
                "remove it first, or force its replacement"
            )
        element = _element(scan, path[len(way) - 1 :], value, space_before(scan.data, where.start))
        edited = spliced(scan.data, [Splice(*where, element)])
    else:
        rest = path[len(way) :]
        if _EMPTY.fullmatch(scan.data, where.start, where.end):
            edited = _open(scan, where, rest, value)
        else:
            edited = _insert(scan, where, way[-1] if way else None, rest, value)
    return _read_back(scan, edited, path, value)


def _require_readable(scan: Scan, path: Sequence[str]) -> None:
    """Refuse what OpenVINO 2026.4 does not read in ``<meta_data>``: "Unsupported legacy argument"."""
    old = _hides_quantization(scan) if _container(scan) is None else not scan.rt_infos
    if old and len(path) > 1 and path[0] != "conversion_parameters":
        raise EditError(
            "this file has <meta_data>, an old form of rt_info in which OpenVINO cannot read a group; read the file "
            "with OpenVINO and save it again, then set the entry"
        )


def _hides_quantization(scan: Scan) -> bool:
    """True for an old file in which an ``<rt_info>`` would hide the ``<quantization_parameters>``."""
    return b"<quantization_parameters" in scan.data


def _require_no_group(scan: Scan, element: Span, path: Sequence[str]) -> None:
    if "value" in _attributes(scan, element):
        return
    inside = [name for name, _, _ in _children(scan, element)]
    if inside:
        raise EditError(
            f"the rt_info entry {_shown(path)} is a group ({listed(inside, separator=', ')}); set an entry in it, such "
            f"as {_shown((*path, inside[0]))}, or force its replacement"
        )


def _shown(path: Sequence[str]) -> str:
    return repr("/".join(path))


def remove_entry(scan: Scan, key: str | Sequence[str]) -> bytes:
    """Remove all entries with a key, or a path, and return the new file; all other bytes are unchanged.

    This is the inverse of :func:`set_entry` for a file that had no such entry.

    Raises
    ------
    InvalidIRError
        Reading the new file back does not give the expected content.
    """
    path = (key,) if isinstance(key, str) else tuple(key)
    way = _way(scan, path)
    if len(way) < len(path):
        return scan.data
    group = way[-2] if len(way) > 1 else None
    existing = [span for name, _, span in _children(scan, group) if name == path[-1]]
    if len(existing) == 1:
        return _read_back(scan, _restore(scan, way), path, None)
    edited = spliced(scan.data, [removal(scan.data, span) for span in existing])
    return _read_back(scan, edited, path, None)


def _read_back(scan: Scan, edited: bytes, path: tuple[str, ...], value: str | None) -> bytes:
    """Return the edited file after a check: it is valid, the graph is unchanged, and only this entry is another."""
    again = _read_again(scan, edited)
    wanted = {
        other: text
        for other, text in leaves(read_rt_info(scan))
        if other[: len(path)] != path and other != path[: len(other)]
    }
    if value is not None:
        wanted[path] = value
    if again is None or dict(leaves(read_rt_info(again))) != wanted:
        raise InvalidIRError(
            f"the rt_info entry {_shown(path)} cannot be edited safely in this file; "
            "read it with OpenVINO and save it again to get the standard form",
            path=scan.path,
        )
    return edited


def _read_again(scan: Scan, edited: bytes) -> Scan | None:
    """Scan of the edited file; None if its layers or edges changed.

    Layers and edges before the edit are complete elements that were validated with the old file, so they are
    skipped. In 5 MB they would take 0.035 s of 0.04 s, in 150 MB 0.8 s.
    """
    graph = [span for span in sorted((scan.layers, scan.edges_section)) if span.end > span.start]
    end = graph[-1].end if graph else 0
    if same_section(edited, 0, scan, Span(0, end)):
        return scan_outline(spliced(edited, [Splice(*span, b"") for span in graph]))
    again = scan_outline(edited)
    return again if same_graph(again, scan) else None


def _attribute(scan: Scan, name: str, value: str) -> bytes:
    return spell_attribute(name, value, declares_ascii(scan.data))


def _element(scan: Scan, path: Sequence[str], value: str, space: bytes, replaced: str | None = None) -> bytes:
    """Element of an entry, inside the elements of its groups; ``space`` is the white space before the first one."""
    key, *rest = path
    parts = [key.encode()] if _XML_NAME.fullmatch(key) else [b"info", _attribute(scan, "name", key)]
    if not rest:
        parts.append(_attribute(scan, "value", value))
    if replaced is not None:
        parts.append(_attribute(scan, _REPLACED, replaced))
    opening = b"<" + b" ".join(parts)
    if not rest:
        return opening + b" />"
    return _filled(scan, space, opening + b">", _element(scan, rest, value, _indent(scan, space), ""))


def _indent(scan: Scan, space: bytes) -> bytes:
    """White space before a child of an element whose end tag follows ``space``."""
    unit = last_line(first_space(scan.data, scan.net_tag.end))
    return space + unit if b"\n" in space or b"\r" in space else b""


def _filled(scan: Scan, space: bytes, opening: bytes, entry: bytes) -> bytes:
    """Container or group with one entry; ``space`` is the white space before it."""
    name = opening[1:].split(maxsplit=1)[0].rstrip(b">")
    inner = _indent(scan, space)
    return b"".join((opening, inner, entry, space if inner else b"", b"</", name, b">"))


def _create(scan: Scan, path: Sequence[str], value: str) -> bytes:
    """Create a container with the entry as the last child of ``<net>``."""
    data, end = scan.data, scan.net_end
    if not data.startswith(b"</", end):
        raise InvalidIRError("<net> has no content; export the model again", path=scan.path)
    space = space_before(data, end)
    before = _indent(scan, space)
    element = _element(scan, path, value, _indent(scan, before), "")
    container = _filled(scan, before, b"<meta_data>" if _hides_quantization(scan) else b"<rt_info>", element)
    start = end - len(space)
    return spliced(data, [Splice(start, start, before + container)])


def _open(scan: Scan, where: Span, path: Sequence[str], value: str) -> bytes:
    """Add the entry to an empty container or group."""
    data, space = scan.data, space_before(scan.data, where.start)
    entry = _element(scan, path, value, _indent(scan, space), data[where.start : where.end].decode())
    start_tag = data[where.start : attributes_at(data, where.start)[1]] + b">"
    return spliced(data, [Splice(*where, _filled(scan, space, start_tag, entry))])


def _insert(scan: Scan, where: Span, group: Span | None, path: Sequence[str], value: str) -> bytes:
    """Insert the entry before the first sibling that sorts after it; ``group`` is None for the container."""
    data, siblings = scan.data, list(_children(scan, group))
    # Every entry of a parent that irtools created has the record, so that they can be removed in any order.
    replaced = next((attributes[_REPLACED] for _, attributes, _ in siblings if _REPLACED in attributes), None)
    after = next((span for name, _, span in siblings if name.encode() > path[0].encode()), None)
    if siblings:
        near = after or siblings[-1][2]
        space = space_before(data, near.start)
        element = _element(scan, path, value, space, replaced)
        at, new = (near.start, element + space) if after else (near.end, space + element)
        return spliced(data, [Splice(at, at, new)])
    end = data.rindex(b"</", where.start, where.end)
    space = space_before(data, end)
    start, inner = end - len(space), _indent(scan, space)
    return spliced(data, [Splice(start, start, inner + _element(scan, path, value, inner))])


def _replace(scan: Scan, element: Span, path: Sequence[str], value: str) -> bytes:
    data = scan.data
    old = attributes_at(data, element.start)[0].get("value")
    if old is None:
        return spliced(data, [Splice(*element, _element(scan, path[-1:], value, b""))])
    before = data[old.whole.start : old.value.start]
    space = before[: len(before) - len(before.lstrip(SPACE))]
    return spliced(data, [Splice(*old.whole, space + _attribute(scan, "value", value))])


def _restore(scan: Scan, way: Sequence[Span]) -> bytes:
    """Remove an entry, and the elements around it that irtools created for it and that hold nothing else."""
    data = scan.data
    splice = removal(data, way[-1])
    inside = [*filter(None, [_container(scan)]), *way]
    for parent, element in zip(inside[-2::-1], inside[:0:-1], strict=True):
        replaced, opening = _attributes(scan, element).get(_REPLACED), TAG.match(data, parent.start)
        if replaced is None or opening is None:
            break
        around = data[opening.end() : element.start] + data[element.end : data.rindex(b"</", *parent)]
        if around.strip(SPACE) or (replaced and not _EMPTY.fullmatch(replaced.encode())):
            break
        splice = Splice(*parent, replaced.encode()) if replaced else removal(data, parent)
        if replaced:
            break
    return spliced(data, [splice])
