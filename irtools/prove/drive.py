"""Run a target or an MTP head with OpenVINO: read it once, compile it, build its inputs, keep its state.

Runs in the worker process. The tolerances are tight, so the device computes without reduced precision
(:data:`irtools.runtime.exact.EXACT`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import openvino as ov

from irtools.prove.files import Files
from irtools.prove.inputs import Feeder, ModelCall, UndrivableError
from irtools.runtime.exact import exact_hints

__all__ = ["Runner", "Session", "UndrivableError", "difference"]


def difference(value: Any, expected: Any) -> float | None:
    """Largest difference relative to the largest magnitude; None if it is not finite or the shapes differ."""
    if value.shape != expected.shape:
        return None
    scale = float(np.abs(expected).max(initial=0)) or 1.0
    relative = float(np.abs(value.astype(np.float64) - expected).max(initial=0)) / scale
    return relative if np.isfinite(relative) else None


class Session:
    """Models of one export, each read once, and the properties of the device.

    Attributes
    ----------
    properties : dict of str to str
        Properties for the compilation.
    say : callable
        Called with a clause about the current work.
    made_up : set of str
        Missing parts whose outputs were replaced by random numbers.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self.say: Callable[[str], None] = lambda text: None
        self._core = ov.Core()
        self.properties = exact_hints(self._core, files.device)
        self.made_up: set[str] = set()
        self._models: dict[str, Any] = {}
        self._embedders: dict[str, Any] = {}

    def has(self, part: str) -> bool:
        """True if the export has a part: ``target``, ``mtp``, ``text_embeddings``, ``text_embeddings_per_layer``."""
        return getattr(self.files, part) is not None

    def model(self, part: str) -> Any:
        """The shared ``openvino.Model`` of a part; make changes only to a :meth:`copy`."""
        if part not in self._models:
            path = getattr(self.files, part)
            if path is None:
                raise UndrivableError(f"the export has no part {part!r}")
            self.say(f"reading {part}")
            self._models[part] = self._core.read_model(path)
        return self._models[part]

    def copy(self, part: str) -> Any:
        """A copy of a model that may be changed; it shares the constants."""
        model = self.model(part)
        clone = model.clone()
        for original, copied in zip(model.inputs, clone.inputs, strict=True):
            copied.add_names(original.get_names())  # `clone` keeps only one of several names
        return clone

    def compile(self, model: Any) -> Any:
        """Compile a model for the device."""
        return self._core.compile_model(model, self.files.device, self.properties)

    def runner(self, model: Any, given: Collection[str] = ()) -> Runner:
        """Compile a model for calls; ``given`` and the errors are those of :class:`~irtools.prove.inputs.Feeder`."""
        feeder = Feeder(self, model, given)
        self.say("compiling")
        return Runner(self.compile(model), feeder)

    def embed(self, tokens: Any, part: str = "text_embeddings") -> Any:
        """Embeddings of token ids ``[B, S]`` by a text embeddings part."""
        if part not in self._embedders:
            self._embedders[part] = self.compile(self.model(part)).create_infer_request()
        return self._embedders[part].infer([tokens])[0].copy()

    def release(self) -> None:
        """Release the compiled embeddings models; the models that were read stay in memory."""
        self._embedders.clear()


class Runner:
    """A compiled model with its state.

    Attributes
    ----------
    past : int
        Number of tokens in the state.
    names : list of frozenset of str
        Tensor names of the outputs, in the model's order.
    """

    def __init__(self, compiled: Any, feeder: Feeder) -> None:
        self._compiled = compiled
        self._request = compiled.create_infer_request()
        self._feeder = feeder
        self.past = 0
        self.names = [frozenset(port.get_names()) for port in compiled.outputs]

    def run(
        self, tokens: Any, *, beam: Any = None, start: int | None = None, given: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Call the model.

        Parameters
        ----------
        tokens : array_like of int
            ``[B, S]``, the tokens that follow those of the state.
        beam : sequence of int, optional
            For each batch row, the sequence of the state to continue; default: the same row.
        start : int, optional
            Position of the first token; default: the number of tokens in the state.
        given : mapping of str to array, optional
            Inputs by tensor name that replace the default ones.

        Returns
        -------
        list of array
            Copies of the outputs, in the model's order.
        """
        tokens = np.atleast_2d(np.asarray(tokens, np.int64))
        call = ModelCall(tokens, self.past, beam, self.past if start is None else start, given or {})
        # By position: compilation drops names of an input that is also an output.
        outputs = self._request.infer(list(self._feeder.feed(call).values()))
        self.past += tokens.shape[1]
        return [outputs[index].copy() for index in range(len(self.names))]

    def output(self, name: str) -> int:
        """Position of the output with a tensor name.

        Raises
        ------
        UndrivableError
            No output has this name.
        """
        for index, names in enumerate(self.names):
            if name in names:
                return index
        raise UndrivableError(f"no output is named {name!r}")

    def reset(self) -> None:
        """Reset the state."""
        self._request.reset_state()
        self.past = 0

    def states(self) -> dict[str, Any]:
        """Copies of the state values by ``variable_id``."""
        return {state.name: state.state.data.copy() for state in self._request.query_state()}
