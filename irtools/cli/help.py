"""Groups of the commands, and an example for the help page of each."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXAMPLES", "GROUPS", "OTHERS"]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Look at an export": ("inspect", "locate", "render", "report", "diff"),
    "Check and prove": ("verify", "rules", "prove", "bench"),
    "Annotate and edit": ("annotate", "strip", "expose", "extract", "rt-info"),
    "Make drafting possible or faster": ("attach", "graft"),
}
"""Commands by group; those without a group come last."""
OTHERS = "Other commands"

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "annotate": ("irtools annotate my-model", "irtools annotate --diff my-model"),
    "attach": ("irtools attach my-finetune --mtp-from base-model", "irtools attach my-finetune --remove"),
    "cache": ("irtools cache", "irtools cache --limit 2GiB", "irtools cache --clear hf://org/name"),
    "completion": (
        "irtools completion bash > ~/.local/share/bash-completion/completions/irtools",
        "irtools completion fish > ~/.config/fish/completions/irtools.fish",
        'eval "$(irtools completion zsh)"    # in ~/.zshrc, after compinit',
    ),
    "diff": ("irtools diff my-model my-model-int4",),
    "expose": ("irtools expose my-model --layers 1,15,last --concat taps", "irtools expose my-model --remove"),
    "extract": (
        "irtools extract my-model --layers 3-5 -o piece",
        "irtools extract my-model --stages 0-11,12-23,24- -o stages",
    ),
    "graft": (
        "irtools graft my-model --advise --corpus my-text.txt",
        "irtools graft my-model --vocabulary 32k",
        "irtools graft my-model --remove",
    ),
    "inspect": (
        "irtools inspect my-model",
        "irtools inspect my-model --context 32k --budget 8GiB",
        "irtools inspect my-model --snippet > generate.py",
    ),
    "locate": ("irtools locate my-model", "irtools locate --explain my-model"),
    "bench": (
        "irtools bench my-model --assistant-tokens 1-4",
        "irtools bench my-model --graft 32k --min-speedup 1.2 -o bench.html",
    ),
    "prove": (
        "irtools prove my-model --steps taps,state",
        'irtools prove my-model --prompt "Once upon a time" --format json > proof.json',
    ),
    "render": ("irtools render my-model -o model.svg", "irtools render my-model --layer last -o last.svg"),
    "report": ("irtools report my-model -o model.html",),
    "rules": ("irtools rules list", "irtools rules explain missing-annotation"),
    "rules explain": (
        "irtools rules explain missing-annotation",
        'irtools rules explain "MTP speculative decoding requires num_assistant_tokens > 0"',
    ),
    "rules list": ("irtools rules list",),
    "rt-info": (
        "irtools rt-info show my-model runtime_options",
        "irtools rt-info set my-model runtime_options/KV_CACHE_PRECISION=u8",
    ),
    "rt-info remove": ("irtools rt-info remove my-model runtime_options/KV_CACHE_PRECISION",),
    "rt-info set": ("irtools rt-info set my-model runtime_options/KV_CACHE_PRECISION=u8",),
    "rt-info show": (
        "irtools rt-info show my-model",
        "irtools rt-info show my-model runtime_options --full",
    ),
    "strip": ("irtools strip my-model",),
    "verify": (
        "irtools verify my-model",
        "irtools verify my-model --expect-mtp --fail-on warning",
        "irtools verify my-model --ignore missing-tokenizer --output findings.sarif",
    ),
}
"""Command lines, by the names of command and subcommand."""
