"""The numeric half of the step ``head``, in the worker process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irtools.prove.cutting import Value, find
from irtools.prove.drafting import Branch, Drafter, Target, Text, losses
from irtools.prove.drive import Session, UndrivableError, difference

__all__ = ["measure"]

_WRITTEN, _SHORT_WRITTEN = 24, 16
"""Tokens that the target writes after a prompt, and after a piece of one."""
_PIECE, _PIECES, _BATCH = 8, 16, 8
_ORDERS = 7
_LONGEST = 256
_DEPTH = 3

Wiring = Callable[[Text], tuple[Any, Any]]
"""Hidden states and embeddings, a position less than the text has tokens."""

_WIRINGS: dict[str, Wiring] = {
    "as it is": lambda text: (text.hidden[:, :-1], text.embeddings[:, 1:]),
    "exchanged": lambda text: (text.embeddings[:, 1:], text.hidden[:, :-1]),
    "own token": lambda text: (text.hidden[:, :-1], text.embeddings[:, :-1]),
    "next hidden state": lambda text: (text.hidden[:, 1:], text.embeddings[:, 1:]),
    "before the norm": lambda text: (text.before[:, :-1], text.embeddings[:, 1:]),
}


def measure(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Draft what the target writes, with the head as it is and with something about it changed.

    Parameters
    ----------
    session : Session
    request : mapping
        ``prompts`` (ids), ``hidden`` and ``before`` (``[producer, index]``; the latter may be null),
        ``projection`` (``[name, input index]`` of the target's MatMul), ``branches`` (``[kind,
        sum, input index]``), ``frequencies`` (``{"target": ..., "mtp": ...}``, lists of
        ``[producer, index]``) and ``seed``.

    Returns
    -------
    dict
        ``shape``, ``expected``, ``finite``, ``magnitude`` and ``hidden magnitude``; ``frequencies``
        by part; ``named``, the difference of an output ``last_hidden_state`` of the target, -1
        without one; and if the output is finite ``inputs`` (what changing each does), ``scaled``,
        ``agreement`` by wiring, ``ahead`` and ``branches``.

    Raises
    ------
    UndrivableError
        Target or head has an input that nobody knows how to feed, or the target yields no numbers.
    """
    before = Value(*request["before"]) if request["before"] else None
    target = Target(session, Value(*request["hidden"]), before)
    branches = [Branch(*branch) for branch in request["branches"]]
    drafter = Drafter(session, Value(*request["projection"]), branches)
    texts = []
    for number, prompt in enumerate(request["prompts"], 1):
        session.say(f"letting the target continue prompt {number} of {len(request['prompts'])}")
        texts.append(target.write([prompt[-_LONGEST:]], _WRITTEN))
    session.say("feeding the head with hidden states and embeddings")
    found = _values(drafter, texts) | {
        "frequencies": _frequencies(session, request["frequencies"]),
        "named": _worst(difference(text.named, text.hidden) for text in texts if text.named is not None),
    }
    if not found["finite"]:
        return found
    found |= {"inputs": _moved(drafter, texts), "scaled": _scaled(drafter, texts)}
    session.say("comparing its drafts with the target's tokens")
    found["agreement"] = _agreement(drafter, texts)
    session.say("looking at what its blocks contribute")
    pieces, size = _pieces(request["prompts"], request["seed"]), _BATCH if drafter.batched else 1
    short = [target.write(pieces[start : start + size], _SHORT_WRITTEN) for start in range(0, _PIECES, size)]
    found["ahead"] = _ahead(drafter, short)
    found["branches"] = _contributions(drafter, short, branches, request["seed"])
    return found


def _worst(differences: Any) -> float | None:
    """The largest; -1 when there are none, None when one is no number."""
    found = list(differences)
    return None if None in found else max(found, default=-1.0)


def _as_it_is(drafter: Drafter, text: Text) -> tuple[Any, Any]:
    hidden, embeddings = _WIRINGS["as it is"](text)
    return drafter.run(text.tokens[:, 1:], hidden, embeddings)


def _values(drafter: Drafter, texts: Sequence[Text]) -> dict[str, Any]:
    """Shape, whether finite, and how large the output and the hidden states are for each token."""
    import numpy as np

    outputs = [_as_it_is(drafter, text)[0] for text in texts]
    made, own = (np.concatenate([_magnitudes(value) for value in values]) for values in (outputs, _hidden(texts)))
    finite = bool(np.isfinite(made).all())
    if not np.isfinite(own).all():
        raise UndrivableError("the hidden states of the target are no numbers")
    return {
        "shape": list(outputs[0].shape),
        "expected": list(texts[0].hidden[:, :-1].shape),
        "finite": finite,
        "magnitude": _spread(made) if finite else None,
        "hidden magnitude": _spread(own),
    }


def _hidden(texts: Sequence[Text]) -> list[Any]:
    return [text.hidden[:, :-1] for text in texts]


def _magnitudes(value: Any) -> Any:
    import numpy as np

    return np.sqrt((value.astype(np.float64) ** 2).mean(-1)).reshape(-1)


def _spread(magnitudes: Any) -> list[float]:
    """Mean, and standard deviation relative to it."""
    mean = float(magnitudes.mean())
    return [mean, float(magnitudes.std()) / mean if mean else 0.0]


def _moved(drafter: Drafter, texts: Sequence[Text]) -> dict[str, float | None]:
    """How far the last output of the longest text moves when one input is changed."""
    import numpy as np

    text = max(texts, key=lambda text: text.tokens.size)
    length = text.tokens.size - 1
    positions, mask = np.arange(length)[None] * 3, np.ones((1, length), np.int64)
    mask[:, : length // 2] = 0
    changed = {
        "hidden_states": {"hidden": text.hidden[:, :-1][:, ::-1]},
        "inputs_embeds": {"inputs_embeds": text.embeddings[:, 1:][:, ::-1]},
        "position_ids": {"position_ids": positions},
        "attention_mask": {"attention_mask": mask},
    }
    base = _as_it_is(drafter, text)[0][:, -1]
    moved = {}
    for name, inputs in changed.items():
        if drafter.takes(name):
            hidden = inputs.pop("hidden", text.hidden[:, :-1])
            embeddings = inputs.pop("inputs_embeds", text.embeddings[:, 1:])
            moved[name] = difference(drafter.run(text.tokens[:, 1:], hidden, embeddings, **inputs)[0][:, -1], base)
    return moved


def _scaled(drafter: Drafter, texts: Sequence[Text]) -> dict[str, float | None]:
    """How far the output moves when an input becomes four times as large: a norm takes that back."""
    text = texts[0]
    hidden, embeddings = _WIRINGS["as it is"](text)
    base = drafter.run(text.tokens[:, 1:], hidden, embeddings)[0]
    return {
        "hidden_states": difference(drafter.run(text.tokens[:, 1:], hidden * 4, embeddings)[0], base),
        "inputs_embeds": difference(drafter.run(text.tokens[:, 1:], hidden, embeddings * 4)[0], base),
    }


def _agreement(drafter: Drafter, texts: Sequence[Text]) -> dict[str, Any]:
    """How many drafts are the target's own token, for each way to feed the head."""
    import numpy as np

    wanted = np.concatenate([text.best[0, text.prompt :] for text in texts])
    found: dict[str, Any] = {
        "positions": len(wanted),
        "commonest": float(np.unique(wanted, return_counts=True)[1].max() / len(wanted)),
        "certainty": float(np.concatenate([text.certain[0, text.prompt :] for text in texts]).mean()),
    }
    for name, wiring in _WIRINGS.items():
        if name != "before the norm" or texts[0].before is not None:
            agreed = [_agreed(drafter, text, wiring) for text in texts]
            found[name] = sum(map(sum, agreed))
            if name == "as it is":
                found["by prompt"] = [[sum(flags), len(flags)] for flags in agreed]
    return found


def _agreed(drafter: Drafter, text: Text, wiring: Wiring) -> list[int]:
    """Which drafts of tokens that follow a written one are right."""
    scores = drafter.run(text.tokens[:, 1:], *wiring(text))[1][0, text.prompt - 1 :]
    return [int(draft == own) for draft, own in zip(scores.argmax(-1), text.best[0, text.prompt :], strict=True)]


def _ahead(drafter: Drafter, texts: Sequence[Text]) -> list[list[int]]:
    """Right and all drafts one, two, three tokens ahead, each from the head's own state and draft before."""
    import numpy as np

    counts = [[0, 0] for _ in range(_DEPTH)]
    for text in texts:
        for start in range(text.prompt, text.tokens.shape[1] - _DEPTH, 4):
            state, scores = drafter.run(text.tokens[:, 1:start], text.hidden[:, : start - 1])
            going = np.ones(len(text.tokens), bool)
            for depth in range(_DEPTH):
                drafts = scores[:, -1].argmax(-1)
                counts[depth][1] += int(going.sum())
                going &= drafts == text.best[:, start - 1 + depth]
                counts[depth][0] += int(going.sum())
                if depth < _DEPTH - 1:
                    state, scores = drafter.run(drafts[:, None], state[:, -1:], keep=True)
    return counts


def _pieces(prompts: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    """Short stretches of the prompts; where they are too few, of their tokens in another order."""
    cut = [
        list(prompt[start : start + _PIECE])
        for start in range(0, max(map(len, prompts)), _PIECE)
        for prompt in prompts
        if len(prompt) >= start + _PIECE
    ][:_PIECES]
    chance, pool = random.Random(seed), [token for prompt in prompts for token in prompt]
    return cut + [chance.choices(pool, k=_PIECE) for _ in range(_PIECES - len(cut))]


def _contributions(
    drafter: Drafter, texts: Sequence[Text], branches: Sequence[Branch], seed: int
) -> dict[str, dict[str, float]]:
    """Loss of the target's own tokens as it is, and with the elements that each block adds in another order.

    Whatever trained weights add is of use only at its place; what random weights add is worth as
    much anywhere.
    """
    import numpy as np

    def loss(**orders: Any) -> float:
        found = []
        for text in texts:
            hidden, embeddings = _WIRINGS["as it is"](text)
            scores = drafter.run(text.tokens[:, 1:], hidden, embeddings, orders=orders)[1][:, text.prompt - 1 :]
            found.append(losses(scores, text.best[:, text.prompt :]))
        return float(np.concatenate(found).mean())

    chance = np.random.default_rng(seed)
    shuffles = [chance.permutation(texts[0].hidden.shape[-1]) for _ in range(_ORDERS)]
    base = loss()
    return {
        branch.kind: {"loss": base, "reordered": float(np.mean([loss(**{branch.kind: order}) for order in shuffles]))}
        for branch in branches
    }


def _frequencies(session: Session, request: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[list[float]]]:
    """Values of the rotary frequencies of each part."""
    import openvino as ov

    found: dict[str, list[list[float]]] = {}
    for part, values in request.items():
        wanted = [Value(*value) for value in values]
        model = session.copy(part)
        ports = find(model, wanted)
        constants = ov.Model([ports[value] for value in wanted], [], "frequencies") if wanted else None
        outputs = session.compile(constants)({}) if constants is not None else {}
        found[part] = [[float(number) for number in output.reshape(-1)] for output in outputs.values()]
    return found
