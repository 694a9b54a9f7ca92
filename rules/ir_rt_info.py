"""IR020 and IR021: the runtime information of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irtools.ir.scan import child_spans, parse_attributes
from irtools.lint import Context, Finding, Severity, rule


@rule("IR020", "several-rt-info", Severity.WARNING, "An IR has several model-level rt_info elements")
def several_rt_info(context: Context) -> Iterator[Finding]:
    """An IR has several model-level rt_info elements.

    What it checks
    --------------
    That ``<net>`` has one ``<rt_info>``, and no ``<meta_data>`` beside it. The ``<rt_info>`` of an op
    or of a Loop body is another thing.

    Why it matters
    --------------
    OpenVINO reads the first one, even if it is empty, and ignores every other silently: an annotation
    in the second does not exist for the runtime.

    How to fix it
    -------------
    Move the entries of the later ones into the first and remove them.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    for document in context.judged:
        scan = document.scan
        for number, span in enumerate(scan.rt_infos[1:], 2):
            yield Finding(
                f"this is the {_ordinal(number)} <rt_info> of the model, and OpenVINO reads only the first",
                "Move what it holds into the first and remove it.",
                file=document.path,
                line=document.line(span),
            )
        if scan.rt_infos and scan.meta_data is not None:
            yield Finding(
                "the model has <meta_data> beside <rt_info>, and OpenVINO does not read it",
                "Move what it holds into <rt_info> and remove it.",
                file=document.path,
                line=document.line(scan.meta_data),
            )


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


@rule("IR021", "repeated-rt-info-key", Severity.WARNING, "A key stands twice in the rt_info of a model")
def repeated_rt_info_key(context: Context) -> Iterator[Finding]:
    """A key stands twice in the rt_info of a model.

    What it checks
    --------------
    That the keys of the model-level rt_info are different. ``<key value="..."/>`` and
    ``<info name="key" value="..."/>`` are the same key.

    Why it matters
    --------------
    OpenVINO takes the last one silently, whatever a person who reads the first may think.

    How to fix it
    -------------
    Remove all but the one that is meant.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1, across both spellings.
    """
    for document in context.judged:
        if not document.scan.rt_infos:
            continue
        seen: Counter[str] = Counter()
        for tag, span in child_spans(document.data, document.scan.rt_infos[0]):
            opening = document.data[span.start : document.data.index(b">", span.start)]
            attributes = parse_attributes(opening) if b"name" in opening else {}
            key = attributes.get("name", tag)
            seen[key] += 1
            if seen[key] == 2:
                yield Finding(
                    f"the key {key!r} stands here again, and OpenVINO takes the last one",
                    "Remove all but the one that is meant.",
                    file=document.path,
                    line=document.line(span),
                )
