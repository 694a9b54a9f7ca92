"""Measurements of the step ``head``. Runs in the worker process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov

from irtools.model.annotation import Locator
from irtools.prove.cutting import find
from irtools.prove.drafting import Branch, Change, Drafter, Target, Text, losses
from irtools.prove.drive import Session, UndrivableError, difference
from irtools.prove.structure import measure_structure

__all__ = ["measure"]

_WRITTEN, _SHORT_WRITTEN = 24, 16
"""Tokens that the target generates after a prompt, and after a chunk of a prompt."""
_CHUNK, _CHUNKS, _BATCH = 8, 16, 8
"""Length of a chunk, number of chunks, and chunks per call."""
_ORDERS = 7
"""Number of permutations per block."""
_LONGEST = 256
"""Maximum number of prompt tokens."""
_DEPTH = 3
"""Number of tokens drafted in a row."""
_NOISES = (0.05, 0.2, 1.0)
"""Noise on the weights of the fusion, relative to their standard deviation."""

Wiring = Callable[[Text], tuple[Any, Any]]
"""Function from a text to hidden states and embeddings, one position shorter than the text."""

_WIRINGS: dict[str, Wiring] = {
    "as it is": lambda text: (text.hidden[:, :-1], text.embeddings[:, 1:]),
    "exchanged": lambda text: (text.embeddings[:, 1:], text.hidden[:, :-1]),
    "own token": lambda text: (text.hidden[:, :-1], text.embeddings[:, :-1]),
    "next hidden state": lambda text: (text.hidden[:, 1:], text.embeddings[:, 1:]),
    "before the norm": lambda text: (text.before[:, :-1], text.embeddings[:, 1:]),
}


def measure(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Draft the tokens of the target with the head, unchanged and with changed inputs or block outputs.

    Parameters
    ----------
    request : mapping
        ``prompts`` (ids), ``hidden`` and ``before`` (``[producer, index]``; the latter may be null),
        ``projection`` (``[name, input index]`` of lm_head or of the target's draft head), ``branches`` (``[kind,
        sum, input index]``), ``frequencies`` and ``matrices`` (``{"target": ..., "mtp": ...}``, lists of
        ``[producer, index]`` and of ``[reader, input index]``), ``norms`` (list of ``[reader, input index]``),
        ``fusion norms`` (their positions, or empty), ``fusion`` (``[reader, input index]`` or null) and ``seed``.

    Returns
    -------
    dict
        ``shape``, ``expected``, ``finite``, ``magnitude`` and ``hidden magnitude``; ``frequencies``
        by part; ``named``, the difference between the target's output ``last_hidden_state`` and the
        hidden state, -1 without this output. If the output of the head is finite, also ``inputs`` (effect of
        changing each), ``scaled``, ``agreement`` by wiring, ``ahead``, ``branches`` and ``changed``. ``structure``
        has a number for each of ``matrices``.

    Raises
    ------
    UndrivableError
        The target or the head has an unknown input, or hidden states are not finite.
    """
    before = Locator(*request["before"]) if request["before"] else None
    target = Target(session, Locator(*request["hidden"]), before)
    branches = [Branch(*branch) for branch in request["branches"]]
    change = Change(request["norms"], request["fusion"])
    drafter = Drafter(session, tuple(request["projection"]), branches, change, request["seed"])
    texts = []
    for number, prompt in enumerate(request["prompts"], 1):
        session.say(f"generating with the target from prompt {number} of {len(request['prompts'])}")
        texts.append(target.write([prompt[-_LONGEST:]], _WRITTEN))
    session.say("calling the head with hidden states and embeddings")
    measured = _values(drafter, texts) | {
        "frequencies": _frequencies(session, request["frequencies"]),
        "named": _worst(difference(text.named, text.hidden) for text in texts if text.named is not None),
        "structure": measure_structure(session, request["matrices"]),
    }
    if not measured["finite"]:
        return measured
    measured |= {"inputs": _moved(drafter, texts), "scaled": _scaled(drafter, texts)}
    session.say("comparing the drafts with the tokens of the target")
    measured["agreement"] = _agreement(drafter, texts)
    session.say("measuring the contribution of the blocks")
    chunks, size = _chunks(request["prompts"], request["seed"]), _BATCH if drafter.batched else 1
    short = [target.write(chunks[start : start + size], _SHORT_WRITTEN) for start in range(0, _CHUNKS, size)]
    measured["ahead"] = _ahead(drafter, short)
    measured["branches"] = _contributions(drafter, short, branches, request["seed"])
    session.say("calling the head with other norm weights, and with noise on the fusion")
    own = measured["agreement"]["as it is"] / max(1, measured["agreement"]["positions"])
    measured["changed"] = {"as it is": own, **_changed(drafter, texts, request["fusion norms"], bool(change.fusion))}
    return measured


def _worst(differences: Any) -> float | None:
    """Largest difference; -1 if there are none, None if one is None."""
    values = list(differences)
    return None if None in values else max(values, default=-1.0)


def _as_it_is(drafter: Drafter, text: Text) -> tuple[Any, Any]:
    hidden, embeddings = _WIRINGS["as it is"](text)
    return drafter.run(text.tokens[:, 1:], hidden, embeddings)


def _values(drafter: Drafter, texts: Sequence[Text]) -> dict[str, Any]:
    """Shape and finiteness of the output, and magnitudes of the output and the hidden states per token."""
    outputs = [_as_it_is(drafter, text)[0] for text in texts]
    hidden = [text.hidden[:, :-1] for text in texts]
    made, own = (np.concatenate([_magnitudes(value) for value in values]) for values in (outputs, hidden))
    finite = bool(np.isfinite(made).all())
    if not np.isfinite(own).all():
        raise UndrivableError("the hidden states of the target are not finite")
    return {
        "shape": list(outputs[0].shape),
        "expected": list(hidden[0].shape),
        "finite": finite,
        "magnitude": _spread(made) if finite else None,
        "hidden magnitude": _spread(own),
    }


def _magnitudes(value: Any) -> Any:
    """Root mean square per token."""
    return np.sqrt((value.astype(np.float64) ** 2).mean(-1)).reshape(-1)


def _spread(magnitudes: Any) -> list[float]:
    """Mean and relative standard deviation."""
    mean = float(magnitudes.mean())
    return [mean, float(magnitudes.std()) / mean if mean else 0.0]


def _moved(drafter: Drafter, texts: Sequence[Text]) -> dict[str, float | None]:
    """Change of the last output of the longest text for a change of each input."""
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
    """Change of the output for inputs multiplied by 4; an input norm removes the factor."""
    text = texts[0]
    hidden, embeddings = _WIRINGS["as it is"](text)
    base = drafter.run(text.tokens[:, 1:], hidden, embeddings)[0]
    return {
        "hidden_states": difference(drafter.run(text.tokens[:, 1:], hidden * 4, embeddings)[0], base),
        "inputs_embeds": difference(drafter.run(text.tokens[:, 1:], hidden, embeddings * 4)[0], base),
    }


def _agreement(drafter: Drafter, texts: Sequence[Text]) -> dict[str, Any]:
    """Number of drafts equal to the target's token, for each wiring; only tokens that the draft can have count."""
    wanted = np.concatenate([text.best[0, text.prompt :] for text in texts])
    covered = wanted[drafter.covers(wanted)]
    counts: dict[str, Any] = {
        "positions": len(covered),
        "uncovered": len(wanted) - len(covered),
        "commonest": float(np.unique(covered, return_counts=True)[1].max() / len(covered)) if len(covered) else 0.0,
        "certainty": float(np.concatenate([text.certain[0, text.prompt :] for text in texts]).mean()),
    }
    for name, wiring in _WIRINGS.items():
        if name != "before the norm" or texts[0].before is not None:
            agreed = [_agreed(drafter, text, wiring) for text in texts]
            counts[name] = sum(map(sum, agreed))
            if name == "as it is":
                counts["by prompt"] = [[sum(flags), len(flags)] for flags in agreed]
    return counts


def _agreed(drafter: Drafter, text: Text, wiring: Wiring, **inputs: Any) -> list[int]:
    """For each covered token from the last prompt token on: 1 if the draft is the token of the target, else 0."""
    scores = drafter.run(text.tokens[:, 1:], *wiring(text), **inputs)[1][0, text.prompt - 1 :]
    own = text.best[0, text.prompt :]
    return [int(equal) for equal in (scores.argmax(-1) == own)[drafter.covers(own)]]


def _ahead(drafter: Drafter, texts: Sequence[Text]) -> list[list[int]]:
    """Correct and total drafts one, two and three tokens ahead, each from the head's previous output and draft."""
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


def _chunks(prompts: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    """Short chunks of the prompts, filled up with random sequences of their tokens."""
    cut = [
        list(prompt[start : start + _CHUNK])
        for start in range(0, max(map(len, prompts)), _CHUNK)
        for prompt in prompts
        if len(prompt) >= start + _CHUNK
    ][:_CHUNKS]
    chance, pool = random.Random(seed), [token for prompt in prompts for token in prompt]
    return cut + [chance.choices(pool, k=_CHUNK) for _ in range(_CHUNKS - len(cut))]


def _contributions(
    drafter: Drafter, texts: Sequence[Text], branches: Sequence[Branch], seed: int
) -> dict[str, dict[str, float]]:
    """Loss of the target's tokens that are covered, unchanged and with permuted elements of each block's output.

    A permutation makes the output of a trained block useless, but does not matter for random weights.
    """

    def loss(**orders: Any) -> float:
        values = []
        for text in texts:
            hidden, embeddings = _WIRINGS["as it is"](text)
            scores = drafter.run(text.tokens[:, 1:], hidden, embeddings, orders=orders)[1][:, text.prompt - 1 :]
            own = text.best[:, text.prompt :]
            covered = drafter.covers(own)
            values.append(losses(scores[covered], own[covered]))
        joined = np.concatenate(values)
        return float(joined.mean()) if joined.size else 0.0

    chance = np.random.default_rng(seed)
    shuffles = [chance.permutation(texts[0].hidden.shape[-1]) for _ in range(_ORDERS)]
    base = loss()
    return {
        branch.kind: {"loss": base, "reordered": float(np.mean([loss(**{branch.kind: order}) for order in shuffles]))}
        for branch in branches
    }


def _changed(drafter: Drafter, texts: Sequence[Text], fusion_norms: Sequence[int], fusion: bool) -> dict[str, float]:
    """Share of the drafts that agree with the target, with other weights than the head's own, by change."""
    norms = dict(enumerate(drafter.norms))
    variants: dict[str, dict[str, Any]] = {}
    if norms:
        variants["one larger"] = drafter.changed({number: weights + 1 for number, weights in norms.items()})
        variants["one smaller"] = drafter.changed({number: weights - 1 for number, weights in norms.items()})
    if fusion_norms:
        one, other = fusion_norms
        variants["exchanged"] = drafter.changed({one: norms[other], other: norms[one]})
    if fusion:
        variants |= {f"noise {size:g}": drafter.changed(noise=size) for size in _NOISES}
    found = {}
    for name, inputs in variants.items():
        agreed = [flag for text in texts for flag in _agreed(drafter, text, _WIRINGS["as it is"], **inputs)]
        found[name] = sum(agreed) / max(1, len(agreed))
    return found


def _frequencies(session: Session, request: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[list[float]]]:
    """Rotary frequencies of each part."""
    frequencies: dict[str, list[list[float]]] = {}
    for part, values in request.items():
        wanted = [Locator(*value) for value in values]
        model = session.copy(part)
        ports = find(model, wanted)
        constants = ov.Model([ports[value] for value in wanted], [], "frequencies") if wanted else None
        outputs = session.compile(constants)({}) if constants is not None else {}
        frequencies[part] = [[float(number) for number in output.reshape(-1)] for output in outputs.values()]
    return frequencies
