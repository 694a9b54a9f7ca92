"""Measurements of the step ``state``. Runs in the worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irtools.model.annotation import Locator
from irtools.prove.cutting import expose, find
from irtools.prove.drive import Runner, Session, difference
from irtools.prove.inputs import UndrivableError

__all__ = ["measure"]


def measure(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare calls of a model that continue from state with a single call.

    Parameters
    ----------
    request : mapping
        ``tokens`` and ``other`` (lists of ids of one length), ``hidden`` (``[producer, index]`` of the
        target's hidden state, an input of the MTP head) or null, and ``part``.

    Returns
    -------
    dict
        See :func:`_measured`.

    Raises
    ------
    UndrivableError
        The part has an unknown input.
    """
    texts, part = [request["tokens"], request["other"]], request["part"]
    session.say(f"calling {part} with and without state")
    hidden = _hidden(session, request["hidden"], texts) if part == "mtp" else None
    return _measured(_StatefulModel(session, part, texts, hidden))


def _hidden(session: Session, value: Sequence[Any] | None, texts: Sequence[Sequence[int]]) -> Any:
    """Hidden states of the target for each text: ``[texts, tokens, width]``."""
    if value is None:
        raise UndrivableError("the target has no hidden states for it")
    model = session.copy("target")
    (position,) = expose(model, find(model, [Locator(*value)]).values())
    runner = session.runner(model)
    rows = []
    for tokens in texts:
        runner.reset()
        state = runner.run([tokens])[position]
        rows.append(state.reshape(len(tokens), -1))
    return np.stack(rows)


class _StatefulModel:
    """A part with its state, for calls with slices of two texts."""

    def __init__(self, session: Session, part: str, texts: Sequence[Sequence[int]], hidden: Any) -> None:
        self.model = session.model(part)
        self.runner: Runner = session.runner(self.model)
        self.output = self.runner.output("logits" if part == "target" else "last_hidden_state")
        self.texts = np.asarray(texts, np.int64)
        self._hidden = hidden

    def call(self, rows: Sequence[int], start: int, stop: int, **options: Any) -> Any:
        """Output for tokens ``start`` to ``stop`` of the texts ``rows``."""
        given = {} if self._hidden is None else {"hidden_states": self._hidden[list(rows), start:stop]}
        return self.runner.run(self.texts[list(rows), start:stop], start=start, given=given, **options)[self.output]


def _measured(subject: _StatefulModel) -> dict[str, Any]:
    """Measurements of the state of one part.

    Returns
    -------
    dict
        ``states`` (name, declared shape, shapes after all tokens but one and after all tokens, difference
        between two calls and one; empty without state), ``continued``, ``earlier`` (-1 if the model outputs
        only the last position), ``forgotten``, ``reset`` and ``reordered``. Differences are relative to the
        largest magnitude.
    """
    runner, end = subject.runner, subject.texts.shape[1]
    whole = subject.call([0], 0, end)
    if not runner.states():
        return {"states": []}
    at_once = runner.states()
    runner.reset()
    before = subject.call([0], 0, end - 1)
    first = {name: list(value.shape) for name, value in runner.states().items()}
    continued = subject.call([0], end - 1, end)
    in_two = runner.states()
    runner.reset()
    forgotten = subject.call([0], end - 1, end)
    runner.reset()
    declared = _declared(subject.model)
    return {
        "states": [
            [name, declared.get(name), first[name], list(value.shape), difference(value, at_once[name])]
            for name, value in sorted(in_two.items())
        ],
        "continued": difference(continued[:, -1], whole[:, -1]),
        "earlier": difference(whole[:, : end - 1], before) if whole.shape[1] == end else -1.0,
        "forgotten": difference(forgotten[:, -1], whole[:, -1]),
        "reset": difference(subject.call([0], 0, end), whole),
        "reordered": _reordered(subject),
    }


def _declared(model: Any) -> dict[str, list[int] | None]:
    """Shapes of the states as declared by the model; -1 for dynamic dimensions."""
    shapes: dict[str, list[int] | None] = {}
    for op in model.get_ops():
        if op.get_type_name() == "ReadValue":
            shape = op.get_output_partial_shape(0)
            shapes[op.get_variable_id()] = (
                [int(size.get_length()) if size.is_static else -1 for size in shape] if shape.rank.is_static else None
            )
    return shapes


def _reordered(subject: _StatefulModel) -> dict[str, Any]:
    """Effect of swapping two sequences by `beam_idx` before one more token."""
    if not any("beam_idx" in port.get_names() for port in subject.model.inputs):
        return {"inapplicable": "it has no input `beam_idx`"}
    runner, end = subject.runner, subject.texts.shape[1]
    rows = []
    try:
        for beam in ((0, 1), (1, 0)):
            runner.reset()
            subject.call([0, 1], 0, end - 1)
            # Both rows get the same token and hidden state, so only the state differs.
            rows.append(subject.call([0, 0], end - 1, end, beam=beam))
    except UndrivableError as error:
        return {"inapplicable": str(error)}
    kept, swapped = rows
    return {"difference": difference(swapped, kept[::-1]), "unswapped": difference(swapped, kept)}
