"""Whole proofs: the trained export, a defect that the text does not show, and other exports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from irtools.prove.steps import FAILED, PASSED
from tests.prove import defects_head
from tests.prove.conftest import Proved

Prove = Callable[..., Proved]
BASE = "qwen3_5_vl_trained"
ZQAB = ("--prompt", "zqab")
DRAFTED = ("--steps", "head,runtime", "--assistant-tokens", "1", *ZQAB)
pytestmark = pytest.mark.slow


def failed(done: Proved, step: str) -> set[str]:
    return {check["name"] for check in done.step(step)["checks"] if check["status"] == FAILED}


def test_the_trained_head_passes_every_step_with_the_default_prompts(trained: Proved) -> None:
    assert {step["name"]: step["status"] for step in trained.proof["steps"]} == dict.fromkeys(
        ("taps", "state", "head", "runtime"), PASSED
    )
    assert len(trained.proof["prompts"]) == 9
    assert trained.check("runtime", "acceptance")["figures"]["assistant_tokens"][0]["acceptance"] >= 0.9
    assert trained.code == 0


def test_the_text_hides_the_head_of_another_export(proved: Prove) -> None:
    """The tests of the step head cover the other defects without GenAI."""
    edit, checks = defects_head.FAILING["head of another export"]
    done = proved("another", BASE, *DRAFTED, edit=edit)

    assert done.check("runtime", "text")["figures"]["equal"]
    assert failed(done, "head") == checks
    assert failed(done, "runtime") == set()
    (row,) = done.check("runtime", "acceptance")["figures"]["assistant_tokens"]
    assert row["acceptance"] <= 0.4
    assert done.code == 1


STEPS: dict[str, tuple[str, str, str, str]] = {
    "gemma4_vl": ("passed", "passed", "not applicable", "passed"),
    "qwen3_5_vl_int4": ("passed", "passed", "warning", "passed"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_passes_or_says_why_it_does_not_apply(name: str, proved: Prove) -> None:
    done = proved(name, name, "--assistant-tokens", "1", "--max-new-tokens", "4", *ZQAB)

    steps = done.proof["steps"]
    assert tuple(step["status"] for step in steps) == STEPS[name]
    assert all(step["why"] for step in steps if step["status"] == "not applicable")
    assert done.code == 0
