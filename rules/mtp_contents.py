"""MTP: what the head gives out, and what it must not have inside."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.graph.view import Source
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import Head, at_op, expected, own_target, qwen_like
from irtools.model.target import head_width
from irtools.model.values import norm_input


@rule("MTP037", "output-before-norm", Severity.ERROR, "The MTP head's output is not that of its final norm")
def output_before_norm(context: Context) -> Iterator[Finding]:
    """`last_hidden_state` is not the output of a norm, or is a norm inside the layer.

    What it checks
    --------------
    Whether the output is a norm of a value that nothing else reads.

    Why it matters
    --------------
    The target's output projection is grafted onto this output, and expects normalised values. It
    runs all the same, and fewer candidates are accepted; a short test may not show it.

    How to fix it
    -------------
    Export the head again; the output is the final norm's.

    Source
    ------
    Optimum Intel 2.2; reproduced with GenAI 2026.4: silent.
    """
    found = qwen_like(context)
    output = found.part.output("last_hidden_state") if found is not None else None
    if found is None or output is None:
        return
    normed = norm_input(found.part.graph, output.source)
    if normed is None:
        message = f"{output.label!r} is not the output of a norm"
    elif _read_elsewhere(found, normed):
        message = f"{output.label!r} is a norm inside the layer, not the final one"
    else:
        return
    yield at_op(found, output.source.op, message, "give out the output of the final norm")


def _read_elsewhere(found: Head, value: Source) -> bool:
    """Whether a residual sum goes on below: an Add reads the value, in use or not."""
    graph = found.part.graph
    return any(
        consumer.port == value.port
        and graph.op_type(consumer.op) == "Add"
        and not any(map(graph.constant, graph.producers(consumer.op)))
        for consumer in graph.consumers(value.op)
    )


@rule("MTP038", "embedding-in-mtp", Severity.WARNING, "The MTP head has an embedding table")
def embedding_in_mtp(context: Context) -> Iterator[Finding]:
    """The head looks rows of a table up by token ids.

    What it checks
    --------------
    Whether a live Gather has a constant table of the head's width and integer ids from a model input.

    Why it matters
    --------------
    The runtime embeds with the text embeddings part and feeds `inputs_embeds`. A table in the head is
    read from disk for nothing, or shows that the file is a language model.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found = qwen_like(context)
    if found is None:
        return
    graph = found.part.graph
    for key in found.part.live_ops("Gather"):
        sources = graph.inputs(key)
        port = graph.port(sources[0])
        if port is None or not graph.constant(sources[0].op) or len(port.shape) != 2 or graph.constant(sources[1].op):
            continue
        above = found.part.ancestors([sources[1].op], through_shapes=False)
        if any(there.op in above and there.element_type in ("i64", "i32") for there in found.part.inputs):
            message = f"{graph.op_name(key)!r} looks up rows of a table of {port.shape[0]}"
            yield at_op(found, key, message, "export the head without an embedding table", expected(context))


@rule("MTP039", "head-in-mtp", Severity.WARNING, "The MTP head has an output projection")
def head_in_mtp(context: Context) -> Iterator[Finding]:
    """The head projects to the vocabulary itself.

    What it checks
    --------------
    Whether a live MatMul with constant weights is as wide as the target's logits. One that an output
    `logits` gives out is reported by MTP014.

    Why it matters
    --------------
    The runtime grafts the target's projection on. A second one costs memory and time.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found, target = qwen_like(context), own_target(context)
    logits = target.output("logits") if target is not None else None
    if found is None or target is None or logits is None or not logits.shape:
        return
    vocabulary, graph = logits.shape[-1], found.part.graph
    if vocabulary == head_width(target) or found.part.output("logits") is not None:
        return
    for key in found.part.live_ops("MatMul"):
        outputs = graph.op(key).outputs
        weights = any(map(graph.constant, graph.producers(key)))
        if outputs and outputs[0].shape[-1:] == (vocabulary,) and weights and _feeds_output(found, key):
            message = f"{graph.op_name(key)!r} projects to the vocabulary of {vocabulary}"
            yield at_op(found, key, message, "export the head without it", expected(context))


def _feeds_output(found: Head, key: int) -> bool:
    """Whether a product goes to an output, perhaps over elementwise ops, and not to another layer."""
    graph, pending = found.part.graph, [key]
    for current in pending[:32]:
        for consumer in graph.consumers(current):
            if graph.op_type(consumer.op) == "Result":
                return True
            if graph.op_type(consumer.op) in ("Add", "Multiply", "Convert", "Tanh", "Divide"):
                pending.append(consumer.op)
    return False
