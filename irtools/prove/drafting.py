"""Run a target and its MTP head as in speculative decoding, with access to all intermediate values.

Runs in the worker process. The head gets the hidden state of a position and the embedding of the next
token. The target's lm_head turns the output of the head into logits of the token after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops

from irtools.model.annotation import Locator
from irtools.prove.cutting import expose, find, find_op
from irtools.prove.drive import Runner, Session
from irtools.prove.inputs import UndrivableError

__all__ = ["Branch", "Change", "Drafter", "Target", "Text", "constants", "losses"]

_LOGITS, _OUTPUT, _STATES = "logits", "last_hidden_state", "hidden_states"
_NORM, _NOISE = "irtools_norm_", "irtools_noise"


@dataclass(frozen=True)
class Text:
    """Token sequences of one length, and the values of the target for them.

    Attributes
    ----------
    tokens : array
        ``[B, S]``.
    prompt : int
        Length of the prompt; the target generated the remaining tokens.
    hidden : array
        Input of lm_head, ``[B, S, H]``.
    before : array or None
        Hidden states before the final norm.
    named : array or None
        Output ``last_hidden_state`` of the target, if it has one.
    embeddings : array
        ``[B, S, H]``.
    best : array
        The target's next token at each position, ``[B, S]``.
    certain : array
        Probability of that token.
    """

    tokens: Any
    prompt: int
    hidden: Any
    before: Any
    named: Any
    embeddings: Any
    best: Any
    certain: Any


class Target:
    """The target with its hidden state exposed.

    Parameters
    ----------
    hidden : Locator
        Input of lm_head.
    before : Locator or None
        Input of the final norm.
    """

    def __init__(self, session: Session, hidden: Locator, before: Locator | None) -> None:
        self._session = session
        model = session.copy("target")
        wanted = [hidden, *([before] if before is not None else [])]
        ports = find(model, wanted)
        self._shown = expose(model, [ports[value] for value in wanted])
        self._runner: Runner = session.runner(model)
        self._logits = self._runner.output(_LOGITS)
        self._named = next((index for index, names in enumerate(self._runner.names) if _OUTPUT in names), None)

    def write(self, prompts: Sequence[Sequence[int]], count: int) -> Text:
        """Continue prompts of one length greedily by ``count`` tokens, then run the whole sequences in one call."""
        self._runner.reset()
        fed = tokens = np.asarray(prompts, np.int64)
        for _ in range(count):
            fed = self._runner.run(fed)[self._logits][:, -1].argmax(-1)[:, None]
            tokens = np.concatenate([tokens, fed], 1)
        return self._read(tokens, len(prompts[0]))

    def _read(self, tokens: Any, prompt: int) -> Text:
        self._runner.reset()
        values = self._runner.run(tokens)
        hidden, *before = [values[index].reshape(*tokens.shape, -1) for index in self._shown]
        logits = values[self._logits]
        best = logits.argmax(-1)
        return Text(
            tokens,
            prompt,
            hidden,
            before[0] if before else None,
            values[self._named] if self._named is not None else None,
            self._session.embed(tokens),
            best,
            np.exp(-losses(logits, best)),
        )


@dataclass(frozen=True)
class Branch:
    """Output of a block of the head, as an operand of a residual sum.

    Attributes
    ----------
    kind : str
        ``attention`` or ``feed-forward``.
    reader : str
        Friendly name of the sum.
    index : int
        Input index of the sum.
    """

    kind: str
    reader: str
    index: int


@dataclass(frozen=True)
class Change:
    """Weights of the head that a call can change.

    Attributes
    ----------
    norms : sequence of (str, int)
        Friendly name and input index of each op that reads the weights of a norm.
    fusion : (str, int) or None
        The same of the weights of the fusion.
    """

    norms: Sequence[tuple[str, int]] = ()
    fusion: tuple[str, int] | None = None


class Drafter:
    """The MTP head with its own logits or, without these, followed by a MatMul of the target.

    Parameters
    ----------
    projection : tuple of str and int
        Friendly name of lm_head or of a draft head in the target, and the index of its hidden state input.
    branches : sequence of Branch
        Branches whose elements can be permuted.
    change : Change
        Weights that can be changed.
    seed : int
        Seed of the noise on the fusion.

    Attributes
    ----------
    norms : list of array
        Weights of the norms of ``change``.
    """

    def __init__(
        self,
        session: Session,
        projection: tuple[str, int],
        branches: Sequence[Branch],
        change: Change = Change(),
        seed: int = 0,
    ) -> None:
        model = session.copy("mtp")
        outputs = [port for port in model.outputs if _OUTPUT in port.get_names()]
        if not outputs:
            raise UndrivableError(f"no output of the head is named {_OUTPUT!r}")
        source = outputs[0].get_node().input_value(0)
        self._defaults = self._make_orders(model, branches)
        self.norms = constants(session, [find_op(model, name).input_value(index) for name, index in change.norms])
        for number, ((name, index), weights) in enumerate(zip(change.norms, self.norms, strict=True)):
            reader = find_op(model, name).input(index)
            kind = reader.get_element_type()
            weight = self._add_input(model, f"{_NORM}{number}", weights, kind)
            reader.replace_source_output(weight.output(0))
        if change.fusion is not None:
            self._add_noise(session, model, change.fusion, seed)
        if not any(_LOGITS in port.get_names() for port in model.outputs):
            logits = _project(session.copy("target"), projection, source)
            logits.get_tensor().set_names({_LOGITS})
            model.add_outputs([logits])
        model.validate_nodes_and_infer_types()
        self._covered = _covered(next(port for port in model.outputs if _LOGITS in port.get_names()))
        self._runner = session.runner(model, given={_STATES, *self._defaults})
        self._output, self._logits = self._runner.output(_OUTPUT), self._runner.output(_LOGITS)
        self._inputs = {name: port.get_partial_shape() for port in model.inputs for name in port.get_names()}

    def _make_orders(self, model: Any, branches: Sequence[Branch]) -> dict[str, Any]:
        """Add an input for the element order of each branch; returns the identity order by input name."""
        orders = {}
        for branch in branches:
            reader = find_op(model, branch.reader).input(branch.index)
            source = reader.get_source_output()
            name = f"irtools_order_{branch.kind}"
            order = ops.parameter([-1], ov.Type.i64, name=name)
            order.output(0).set_names({name})
            reader.replace_source_output(ops.gather(source, order, ops.constant(-1, ov.Type.i64)).output(0))
            model.add_parameters([order])
            orders[name] = np.arange(source.get_partial_shape()[-1].get_length())
        return orders

    def _add_input(self, model: Any, name: str, value: Any, kind: Any) -> Any:
        """Add an input with a default value."""
        parameter = ops.parameter(list(value.shape), kind, name=name)
        parameter.output(0).set_names({name})
        model.add_parameters([parameter])
        self._defaults[name] = value
        return parameter

    def _add_noise(self, session: Session, model: Any, fusion: tuple[str, int], seed: int) -> None:
        """Add an input for the size of the noise on the weights of the fusion, relative to their deviation."""
        node = find_op(model, fusion[0])
        (weights,) = constants(session, [node.input_value(fusion[1])])
        chance = np.random.default_rng(seed)
        noise = chance.standard_normal(weights.shape, np.float32) * np.float32(weights.std())
        size = self._add_input(model, _NOISE, np.zeros(1, np.float32), ov.Type.f32)
        operands = [node.input_value(0), node.input_value(1)]
        operands[fusion[1]] = ops.constant(noise).output(0)
        attributes = node.get_attributes()
        readers = list(node.output(0).get_target_inputs())
        product = ops.matmul(*operands, attributes["transpose_a"], attributes["transpose_b"])
        noisy = ops.add(node.output(0), ops.multiply(product, size))
        for reader in readers:
            reader.replace_source_output(noisy.output(0))

    def changed(self, norms: Mapping[int, Any] | None = None, noise: float = 0.0) -> dict[str, Any]:
        """Inputs of a call with other norm weights, by position in ``norms``, or with noise on the fusion."""
        inputs = {f"{_NORM}{number}": weights for number, weights in (norms or {}).items()}
        return inputs | ({_NOISE: np.full(1, noise, np.float32)} if noise else {})

    def covers(self, tokens: Any) -> Any:
        """True for each token that the logits can draft."""
        return np.isin(tokens, self._covered)

    def takes(self, name: str) -> bool:
        """True if the head has an input of this name."""
        return name in self._inputs

    @property
    def batched(self) -> bool:
        """True if the head accepts several sequences in a batch."""
        return bool(self._inputs[_STATES][0].is_dynamic)

    def run(
        self,
        tokens: Any,
        hidden: Any,
        embeddings: Any = None,
        *,
        orders: Mapping[str, Any] | None = None,
        keep: bool = False,
        **inputs: Any,
    ) -> tuple[Any, Any]:
        """Call the head.

        Parameters
        ----------
        tokens : array
            ``[B, S]``; each is the token after the position of the hidden state.
        hidden : array
            ``[B, S, H]``.
        embeddings : array, optional
            Default: embeddings of the tokens.
        orders : mapping of str to array, optional
            Element orders by kind of branch.
        keep : bool
            Continue from the state of the last call.
        **inputs : array
            Other inputs that replace the default ones.

        Returns
        -------
        tuple of array
            ``last_hidden_state`` ``[B, S, H]`` and logits ``[B, S, V]``, or fewer for the first tokens only.
        """
        given = {**self._defaults, **{f"irtools_order_{kind}": order for kind, order in (orders or {}).items()}}
        given |= {_STATES: hidden, **inputs}
        if embeddings is not None:
            given["inputs_embeds"] = embeddings
        if not keep:
            self._runner.reset()
        values = self._runner.run(tokens, given=given)
        return values[self._output], values[self._logits]


def constants(session: Session, ports: Sequence[Any]) -> list[Any]:
    """Values that depend on nothing but constants, decompressed."""
    if not ports:
        return []
    compiled = session.compile(ov.Model(list(ports), [], "constants"))
    return [value.copy() for value in compiled({}).values()]


def _project(target: Any, projection: tuple[str, int], source: Any) -> Any:
    """Logits that the target's lm_head computes from another value."""
    node = find_op(target, projection[0])
    operands = [node.input_value(0), node.input_value(1)]
    operands[projection[1]] = source
    attributes = node.get_attributes()
    return ops.matmul(*operands, attributes["transpose_a"], attributes["transpose_b"]).output(0)


def _covered(logits: Any) -> Any:
    """Ids of the tokens of an output: all of its columns, or those that a ScatterUpdate fills."""
    node = logits.get_node().input_value(0).get_node()
    if node.get_type_name() == "ScatterUpdate" and node.input_value(1).get_node().get_type_name() == "Constant":
        return node.input_value(1).get_node().get_data().reshape(-1)
    return np.arange(logits.get_partial_shape()[-1].get_length())


def losses(scores: Any, tokens: Any) -> Any:
    """Negative log probability of each token by the logits ``[..., V]``."""
    shifted = scores - scores.max(-1, keepdims=True)
    return np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, tokens[..., None], -1)[..., 0]
