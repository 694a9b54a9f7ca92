"""Model calls: every known input is built, and the worker process reports its failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

import irtools
from irtools.prove.drive import Session
from irtools.prove.files import Files
from irtools.prove.inputs import Feeder, ModelCall, UndrivableError
from irtools.prove.structure import measure_structure, structure
from irtools.prove.worker import Worker

TOKENS = np.array([[5, 9, 33, 7, 10], [1, 2, 3, 4, 5]])


def session_of(directory: Path) -> Session:
    return Session(Files.of(irtools.open_export(directory)))


def test_the_structure_of_stacked_experts_is_the_mean_of_their_matrices(fixtures: Path) -> None:
    """The experts are one constant; numpy cuts it here as OpenVINO reads it."""
    directory = fixtures / "mixtral"
    graph = irtools.open_export(directory).target.graph
    places = [
        (graph.op_name(key), index)
        for key in graph.by_type["MatMul"]
        for index, source in enumerate(graph.inputs(key))
        if graph.constant(source.op) and graph.shape(source)[:-2] == (4,)
    ]
    assert len(places) > 6
    measured = measure_structure(session_of(directory), {"target": places})["target"]
    ops = {op.get_friendly_name(): op for op in ov.Core().read_model(directory / "openvino_model.xml").get_ops()}
    for (name, index), found in zip(places, measured, strict=True):
        stored = ops[name].input_value(index).get_node()
        while stored.get_type_name() != "Constant":
            stored = stored.input_value(0).get_node()
        experts = stored.data.astype(np.float32)
        assert found == pytest.approx(np.mean([structure(matrix) for matrix in experts]), rel=1e-3)


# Two sequences with five new tokens after three in the state.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "llama": {"input_ids": (2, 5), "attention_mask": (2, 8), "position_ids": (2, 5), "beam_idx": (2,)},
    "qwen3_5_vl": {
        "inputs_embeds": (2, 5, 32),
        "attention_mask": (2, 8),
        "position_ids": (4, 2, 5),
        "beam_idx": (2,),
    },
    "gemma4_vl": {
        "inputs_embeds": (2, 5, 32),
        "per_layer_inputs": (2, 5, 6, 8),
        "attention_mask": (2, 8),
        "position_ids": (2, 5),
        "beam_idx": (2,),
    },
    "zoo/qwen3_vl": {
        "inputs_embeds": (2, 5, 32),
        "attention_mask": (2, 8),
        "position_ids": (3, 2, 5),
        "visual_pos_masks": (2, 5),
        "deepstack_visual_embeds": (3, 1, 32),
        "beam_idx": (2,),
    },
    "zoo/mamba": {"input_ids": (2, 5), "attention_mask": (2, 5), "cache_position": (5,), "beam_idx": (2,)},
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_input_is_built(name: str, fixtures: Path) -> None:
    session = session_of(fixtures / name)
    fed = Feeder(session, session.model("target")).feed(ModelCall(TOKENS, past=3, start=3))
    assert {key: value.shape for key, value in fed.items()} == SHAPES[name]
    if "position_ids" in fed:
        assert (fed["position_ids"] == [3, 4, 5, 6, 7]).all()


def test_head_is_fed_what_it_is_given(fixtures: Path) -> None:
    session = session_of(fixtures / "qwen3_5_vl")
    feeder = Feeder(session, session.model("mtp"))
    hidden = np.ones((2, 5, 32), np.float32)
    fed = feeder.feed(ModelCall(TOKENS, given={"hidden_states": hidden}))
    assert (fed["hidden_states"] == hidden).all()
    assert fed["position_ids"].shape == (2, 5)
    with pytest.raises(UndrivableError, match="'hidden_states'"):
        feeder.feed(ModelCall(TOKENS))
    with pytest.raises(UndrivableError, match="shape"):
        feeder.feed(ModelCall(TOKENS, given={"hidden_states": hidden[..., :5]}))


def test_says_what_the_runtime_says(fixtures: Path) -> None:
    """The logits equal those of OpenVINO with hand-written inputs."""
    session = session_of(fixtures / "llama")
    runner = session.runner(session.model("target"))
    own = runner.run(TOKENS)[runner.output("logits")]
    model = ov.Core().compile_model(fixtures / "llama" / "openvino_model.xml", "CPU", session.properties)
    inputs: dict[str, Any] = {
        "input_ids": TOKENS,
        "attention_mask": np.ones((2, 5), np.int64),
        "position_ids": np.array([[0, 1, 2, 3, 4]] * 2),
        "beam_idx": np.array([0, 1], np.int32),
    }
    assert np.abs(own - model.create_infer_request().infer(inputs)["logits"]).max() < 1e-6
    assert runner.past == 5
    runner.reset()
    assert runner.past == 0


def test_one_process_serves_several_steps(fixtures: Path) -> None:
    said: list[str] = []
    export = irtools.open_export(fixtures / "llama")
    with Worker(Files.of(export)) as worker:
        request = {"tokens": [5, 9, 33], "other": [33, 5, 9], "hidden": None, "part": "target"}
        first = worker.measure("state", request, said.append)
        again = worker.measure("state", request, said.append)
        wrong = worker.measure("state", request | {"tokens": [5, 9]}, said.append)
    assert first.done
    assert first.value == again.value
    assert first.seconds > 0
    assert first.properties["INFERENCE_PRECISION_HINT"] == "f32"
    assert said.count("reading target") == 1
    assert not wrong.done
