"""The glossary: the words that readers look for, in order, each short and with a link to where it is used."""

from __future__ import annotations

import re
from pathlib import Path

from irtools.model.decoding import STRATEGIES

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "glossary.md").read_text()
ENTRIES = dict(re.findall(r"^### (.*)\n\n((?:(?!#).+\n)+)", PAGE, re.MULTILINE))
NEEDED = """
acceptance rate, annotation, baseline, benchmark, decode step, DFlash, draft, draft head,
draft_model, EAGLE-3, export, finding, fixture, friendly name, hidden state, KV cache, layer id,
lm_head, lossless, MTP, num_assistant_tokens, ordinary draft, OVMS, own head, part, port, prefill,
prefix caching, producer, residual stream, rt_info, rule, speed-up, state, tap, target, time to
first token, token mixer, truth, witness, zoo
"""


def test_every_word_is_there_once_and_in_order() -> None:
    terms = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert list(ENTRIES) == terms == sorted(terms, key=str.lower)
    assert len(set(terms)) == len(terms)
    assert set(re.split(r",\s+", " ".join(NEEDED.split()))) <= set(terms)
    letters = re.findall(r"^## (.)$", PAGE, re.MULTILINE)
    assert letters == sorted({term[0].upper() for term in terms})
    assert re.findall(r"\[(.)\]\(#.\)", PAGE.partition("\n## ")[0]) == letters


def test_each_is_short_and_leads_to_where_it_is_used() -> None:
    for term, text in ENTRIES.items():
        definition, _, links = text.rpartition(" See ") if " See " in text else text.rpartition("\nSee ")
        assert re.search(r"\]\([\w./-]+\.md", links), term
        assert len(definition) < 400, term


def test_the_decoding_strategies_are_named() -> None:
    assert all(f"`{name}`" in ENTRIES["decoding strategy"] for name in STRATEGIES)
