"""Facts that the rules about running a target share."""

from __future__ import annotations

from dataclasses import replace

from irtools.lint.model import Context, Finding
from irtools.model.draft import is_draft
from irtools.model.part import PartFacts

__all__ = ["FED", "stateful_only", "target_part"]

FED = frozenset(
    {
        "input_ids",
        "inputs_embeds",
        "attention_mask",
        "position_ids",
        "beam_idx",
        "token_type_ids",
        "per_layer_inputs",
        "visual_pos_masks",
        "deepstack_visual_embeds",
    }
)
"""Tensor names of the inputs that GenAI 2026.4 sets on a target."""


def target_part(context: Context) -> PartFacts | None:
    """The target; None if it is unreadable or a draft."""
    if context.target is None:
        return None
    part = context.facts(context.target)
    return None if is_draft(part) else part


def stateful_only(finding: Finding) -> Finding:
    """The finding as a reason why the target cannot be converted to paged attention, which every draft needs."""
    needs = {"plain": "only on the stateful path, without continuous batching"}
    return replace(finding, rules_out=("mtp", "dflash", "eagle3"), needs=needs)
