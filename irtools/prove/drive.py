"""Drive a target or an MTP head with OpenVINO: read it once, compile, build every input, hold the state.

Runs in the worker process. Numbers are compared tightly, so the device is told to compute
exactly (:data:`EXACT`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from irtools.model.directory import ModelDirectory
from irtools.prove.inputs import Call, Feeder, UndrivableError
from irtools.runtime.exact import EXACT, exact_hints, first_words

__all__ = ["EXACT", "Files", "Runner", "Session", "UndrivableError", "difference", "first_words"]


@dataclass(frozen=True, slots=True)
class Files:
    """What a session reads; absolute paths of ``.xml`` files.

    Attributes
    ----------
    target : str
    mtp, text_embeddings, text_embeddings_per_layer : str or None
    device : str
    """

    target: str
    mtp: str | None = None
    text_embeddings: str | None = None
    text_embeddings_per_layer: str | None = None
    device: str = "CPU"

    @classmethod
    def of(cls, export: ModelDirectory, device: str = "CPU") -> Files:
        """The files of an export.

        Raises
        ------
        ExportError
            It has no target.
        """
        found = {
            name: str(document.path.absolute())
            for name in ("mtp", "text_embeddings", "text_embeddings_per_layer")
            if (document := export.find_part(name)) is not None
        }
        return cls(str(export.target.path.absolute()), **found, device=device)


def difference(value: Any, expected: Any) -> float | None:
    """Largest difference, relative to the largest magnitude; None when it is no number."""
    import numpy as np

    if value.shape != expected.shape:
        return None
    scale = float(np.abs(expected).max(initial=0)) or 1.0
    found = float(np.abs(value.astype(np.float64) - expected).max(initial=0)) / scale
    return found if np.isfinite(found) else None


class Session:
    """The models of one export, each read once, and what the device is told.

    Parameters
    ----------
    files : Files

    Attributes
    ----------
    properties : dict of str to str
        What the device is told.
    say : callable
        Takes what is being done, as a clause.
    made_up : set of str
        Parts that the export lacks, so that what they would have made was made up.
    """

    def __init__(self, files: Files) -> None:
        import openvino as ov

        self.files = files
        self.say: Callable[[str], None] = lambda text: None
        self._core = ov.Core()
        self.properties = exact_hints(self._core, files.device)
        self.made_up: set[str] = set()
        self._models: dict[str, Any] = {}
        self._embedders: dict[str, Any] = {}

    def has(self, part: str) -> bool:
        """Whether the export has a part: ``target``, ``mtp``, ``text_embeddings``, ``text_embeddings_per_layer``."""
        return getattr(self.files, part) is not None

    def model(self, part: str) -> Any:
        """The ``openvino.Model`` of a part. It is shared: change a :meth:`copy`."""
        if part not in self._models:
            path = getattr(self.files, part)
            if path is None:
                raise UndrivableError(f"the export has no part {part!r}")
            self.say(f"reading {part}")
            self._models[part] = self._core.read_model(path)
        return self._models[part]

    def copy(self, part: str) -> Any:
        """A model of its own to change; constants are shared with the one that was read."""
        model = self.model(part)
        made = model.clone()
        for own, copied in zip(model.inputs, made.inputs, strict=True):
            copied.add_names(own.get_names())  # of several, `clone` keeps one
        return made

    def compile(self, model: Any) -> Any:
        """Compile a model for the device; it is released when nobody refers to it any more."""
        return self._core.compile_model(model, self.files.device, self.properties)

    def runner(self, model: Any, given: Collection[str] = ()) -> Runner:
        """Compile a model and prepare to run it.

        Parameters
        ----------
        model : openvino.Model
        given : collection of str
            Inputs of its own that every call will give, besides ``hidden_states``.

        Raises
        ------
        UndrivableError
            It has an input that nobody knows how to feed.
        """
        feeder = Feeder(self, model, given)
        self.say("compiling")
        return Runner(self.compile(model), feeder)

    def embed(self, tokens: Any, part: str = "text_embeddings") -> Any:
        """What a text embeddings part makes of token ids ``[B, S]``."""
        if part not in self._embedders:
            self._embedders[part] = self.compile(self.model(part)).create_infer_request()
        return self._embedders[part].infer([tokens])[0].copy()

    def release(self) -> None:
        """Let go of what is compiled; the models stay."""
        self._embedders.clear()


class Runner:
    """A compiled model with its state.

    Attributes
    ----------
    past : int
        Tokens that the state holds.
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
        """One call.

        Parameters
        ----------
        tokens : array_like of int
            ``[B, S]``, the tokens that follow those of the state.
        beam : sequence of int, optional
            Which sequence of the state each of the batch continues; by default its own.
        start : int, optional
            Position of the first token; by default as many as the state holds.
        given : mapping of str to array, optional
            Inputs by tensor name, instead of what would be built.

        Returns
        -------
        list of array
            The outputs, in the model's order; copies.
        """
        import numpy as np

        tokens = np.atleast_2d(np.asarray(tokens, np.int64))
        call = Call(tokens, self.past, beam, self.past if start is None else start, given or {})
        # By position: of an input that is an output too, compiling keeps one of the names.
        outputs = self._request.infer(list(self._feeder.feed(call).values()))
        self.past += tokens.shape[1]
        return [outputs[index].copy() for index in range(len(self.names))]

    def output(self, name: str) -> int:
        """Position of the output with a tensor name.

        Raises
        ------
        UndrivableError
            There is none.
        """
        for index, names in enumerate(self.names):
            if name in names:
                return index
        raise UndrivableError(f"no output is named {name!r}")

    def reset(self) -> None:
        """Forget the state."""
        self._request.reset_state()
        self.past = 0

    def states(self) -> dict[str, Any]:
        """Copies of the state's values by ``variable_id``."""
        return {state.name: state.state.data.copy() for state in self._request.query_state()}
