"""What is installed and decides about results: compared between machines, and part of what a kept row depends on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version

from irtools._version import __version__
from irtools.registry import ENTRY_POINT_GROUP

__all__ = ["difference", "installed"]


@cache
def installed() -> Mapping[str, str]:
    """Versions of irtools, of OpenVINO and of the rule packs of others."""
    found = {"irtools": __version__}
    try:
        found["openvino"] = version("openvino")
    except PackageNotFoundError:  # built from source
        found["openvino"] = "unknown"
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        if point.module != ENTRY_POINT_GROUP:  # the module of our own pack has the name of the group
            found[f"the rule pack {point.name}"] = point.dist.version if point.dist is not None else "unknown"
    return found


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first difference between what two machines have, as a clause without subject; ``""`` if there is none.

    Examples
    --------
    >>> difference({"irtools": "1.0", "openvino": "2026.4"}, {"irtools": "1.0"})
    'has no openvino, and 2026.4 is installed here'
    """
    for name in dict.fromkeys((*ours, *theirs)):
        here, there = ours.get(name), theirs.get(name)
        if here != there:
            have = f"has {name} {there}" if there is not None else f"has no {name}"
            return f"{have}, and {here if here is not None else 'none'} is installed here"
    return ""
