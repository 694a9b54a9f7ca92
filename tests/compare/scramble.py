"""Rewrite an IR with other names, ids and order of layers, without changing its computation."""

from __future__ import annotations

import random
from pathlib import Path

from lxml import etree


def scramble(path: Path, *, names: bool = True, ids: bool = True, seed: int = 7) -> None:
    """Rename ops and their states, renumber layers, and shuffle them (inputs and outputs keep their order)."""
    tree = etree.parse(path, etree.XMLParser(huge_tree=True))
    chance = random.Random(seed)
    for layers in tree.getroot().iter("layers"):
        if names:
            _rename(layers)
        if ids:
            _renumber(layers, chance)
    tree.write(path, xml_declaration=True, encoding="utf-8")


def _rename(layers: etree._Element) -> None:
    for number, layer in enumerate(layers.findall("layer")):
        layer.set("name", f"op of number {number}")


def _renumber(layers: etree._Element, chance: random.Random) -> None:
    ops = layers.findall("layer")
    new = [str(10 + 3 * number) for number in range(len(ops))]
    chance.shuffle(new)
    ids = {layer.get("id"): number for layer, number in zip(ops, new, strict=True)}
    parent = layers.getparent()
    assert parent is not None
    for layer in ops:
        layer.set("id", ids[layer.get("id")])
    for edge in parent.findall("edges/edge"):
        edge.set("from-layer", ids[edge.get("from-layer")])
        edge.set("to-layer", ids[edge.get("to-layer")])
    owner = parent.getparent()
    for mapped in owner.iterfind("port_map/*") if owner is not None else ():
        mapped.set("internal_layer_id", ids[mapped.get("internal_layer_id")])
    for edge in owner.iterfind("back_edges/edge") if owner is not None else ():
        edge.set("from-layer", ids[edge.get("from-layer")])
        edge.set("to-layer", ids[edge.get("to-layer")])
    fixed = ("Parameter", "Result")
    moving = [layer for layer in ops if layer.get("type") not in fixed]
    chance.shuffle(moving)
    order = iter(moving)
    layers[:] = [layer if layer.get("type") in fixed else next(order) for layer in ops]
