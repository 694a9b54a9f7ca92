"""SVG pictures for notebooks: the ``_repr_svg_`` methods of the Python objects."""

from __future__ import annotations

import time
from collections.abc import Iterator

from irtools.anatomy.describe import kind_text, layers_text
from irtools.decoder.mixers import MIXERS
from irtools.decoder.stack import DecoderStack
from irtools.errors import IrtoolsError
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.render.drawing import SECONDS, first_in_time
from irtools.render.picture import Picture
from irtools.render.pictures import PictureRequest, pictures
from irtools.render.sketch import Sketch
from irtools.text import plural, ranges

__all__ = ["stack_picture", "svg_of"]


def svg_of(shown: object) -> str | None:
    """Draw an object for a notebook, which shows its ``repr`` if it cannot be drawn (no engine, unreadable file)."""
    started = time.monotonic()
    try:
        return first_in_time(_pictures(shown), "svg", started, started + SECONDS)._repr_svg_()
    except IrtoolsError:
        return None


def _pictures(shown: object) -> Iterator[Picture]:
    if isinstance(shown, DecoderStack):
        yield stack_picture(shown)
    elif isinstance(shown, Document):
        yield from pictures(ModelDirectory(shown.path), PictureRequest(), shown)
    elif isinstance(shown, ModelDirectory):
        yield from pictures(shown, PictureRequest())


def stack_picture(stack: DecoderStack) -> Picture:
    """Picture of the decoder layers from the stack alone, without its graph."""
    sketch = Sketch()
    current = sketch.box("start", "embedding", "embeddings", (f"hidden size {stack.hidden_size}",))
    last = len(stack.layers) - 1
    start = 0
    for index, layer in enumerate(stack.layers):
        following = stack.layers[index + 1] if index < last else None
        if following and (following.mixer, following.feed_forward) == (layer.mixer, layer.feed_forward):
            continue
        numbers = range(start, index + 1)
        mixer = MIXERS.get(layer.mixer)
        text = kind_text(layer.mixer if mixer is None else mixer.title, layer.feed_forward)
        key = sketch.box(f"layer{start}", "layers", layers_text(numbers), (text,), hint=layer.locator.producer)
        sketch.arrow(current, key)
        taps = [number for number in numbers if number < last]
        if taps:
            sketch.arrow(key, sketch.box(f"tap{start}", "tap", f"tap {ranges(taps)}"), style="tap")
        current, start = key, index + 1
    norm = sketch.box("end", "norm", "input of the head")
    sketch.arrow(current, norm)
    sketch.arrow(norm, sketch.box("taplast", "tap", f"tap {last}"), style="tap")
    sketch.arrow(norm, sketch.box("head", "head", "Head"))
    scope = (stack.scope,) if stack.scope else ()
    return Picture(f"decoder stack of {plural(len(stack.layers), 'layer')}", scope, sketch.items, sketch.arrows)
