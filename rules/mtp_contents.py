"""MTP: the head's output, and ops that a head must not have."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.graph.view import Source
from irtools.lint.mtp import expected, own_target, runnable_head
from irtools.model.mtp import MtpHead
from irtools.model.target import head_width
from irtools.model.values import norm_input


@rule("MTP037", "output-before-norm", Severity.ERROR, "The MTP head's output is not taken after its final norm")
def output_before_norm(context: Context) -> Iterator[Finding]:
    """`last_hidden_state` is not the output of a norm, or it is the output of a norm inside the layer.

    What it checks
    --------------
    That the output is a norm of a value without other consumers.

    Why it matters
    --------------
    The target's output projection is grafted onto this output and expects normalised values. The head
    runs without an error message, but the acceptance rate drops; a short test may not show it.

    How to fix it
    -------------
    Export the head again, with the output of the final norm.

    Source
    ------
    Optimum Intel 2.2; reproduced with GenAI 2026.4: no error message.
    """
    head = runnable_head(context)
    output = head.part.output("last_hidden_state") if head is not None else None
    if head is None or output is None:
        return
    normed = norm_input(head.part.graph, output.source)
    if normed is None:
        message = f"{output.label!r} is not the output of a norm"
    elif _read_elsewhere(head, normed):
        message = f"{output.label!r} is the output of a norm inside the layer, not of the final norm"
    else:
        return
    yield finding_at(head.part, output.source.op, message, "export the output of the final norm")


def _read_elsewhere(head: MtpHead, value: Source) -> bool:
    """True if the residual stream continues below: an Add of activations, live or dead, reads the value."""
    graph = head.part.graph
    return any(
        consumer.port == value.port
        and graph.op_type(consumer.op) == "Add"
        and not any(map(graph.constant, graph.producers(consumer.op)))
        for consumer in graph.consumers(value.op)
    )


@rule("MTP038", "embedding-in-mtp", Severity.WARNING, "The MTP head has an embedding table")
def embedding_in_mtp(context: Context) -> Iterator[Finding]:
    """The head looks up rows of a table by token id.

    What it checks
    --------------
    That no live Gather has a constant table of the head's width and integer ids from a model input.

    Why it matters
    --------------
    The runtime embeds tokens with the text embeddings part and feeds `inputs_embeds`. A table in the
    head is loaded from disk without use, or shows that the file is a language model.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    head = runnable_head(context)
    if head is None:
        return
    graph = head.part.graph
    for key in head.part.live_ops("Gather"):
        sources = graph.inputs(key)
        table = graph.port(sources[0])
        if table is None or not graph.constant(sources[0].op) or len(table.shape) != 2 or graph.constant(sources[1].op):
            continue
        above = head.part.ancestors([sources[1].op], through_shapes=False)
        if any(port.op in above and port.element_type in ("i64", "i32") for port in head.part.inputs):
            message = f"{graph.op_name(key)!r} looks up rows of a table with {table.shape[0]} rows"
            yield finding_at(head.part, key, message, "export the head without an embedding table", expected(context))


@rule("MTP039", "head-in-mtp", Severity.WARNING, "The MTP head has an output projection")
def head_in_mtp(context: Context) -> Iterator[Finding]:
    """The head has its own projection to the vocabulary.

    What it checks
    --------------
    That no live MatMul with constant weights is as wide as the target's logits. MTP014 reports a
    projection that feeds an output `logits`.

    Why it matters
    --------------
    The runtime grafts the target's projection onto the head. A second one costs memory and time.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    head, target = runnable_head(context), own_target(context)
    logits = target.output("logits") if target is not None else None
    if head is None or target is None or logits is None or not logits.shape:
        return
    vocabulary, graph = logits.shape[-1], head.part.graph
    if vocabulary == head_width(target) or head.part.output("logits") is not None:
        return
    for key in head.part.live_ops("MatMul"):
        outputs = graph.op(key).outputs
        weights = any(map(graph.constant, graph.producers(key)))
        if outputs and outputs[0].shape[-1:] == (vocabulary,) and weights and _feeds_output(head, key):
            message = f"{graph.op_name(key)!r} projects to the vocabulary of {vocabulary} tokens"
            yield finding_at(head.part, key, message, "export the head without the projection", expected(context))


def _feeds_output(head: MtpHead, key: int) -> bool:
    """True if elementwise ops at most lie between a MatMul and an output."""
    graph, pending = head.part.graph, [key]
    for current in pending[:32]:
        for consumer in graph.consumers(current):
            if graph.op_type(consumer.op) == "Result":
                return True
            if graph.op_type(consumer.op) in ("Add", "Multiply", "Convert", "Tanh", "Divide"):
                pending.append(consumer.op)
    return False
