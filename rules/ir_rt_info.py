"""IR020 and IR021: the runtime information of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.ir.scan import child_spans, parse_attributes


@rule("IR020", "several-rt-info", Severity.WARNING, "An IR has several model-level rt_info elements")
def several_rt_info(context: Context) -> Iterator[Finding]:
    """An IR has several model-level rt_info elements.

    What it checks
    --------------
    That ``<net>`` has one ``<rt_info>`` and no ``<meta_data>`` beside it. The ``<rt_info>`` of an op or
    of a Loop body does not count.

    Why it matters
    --------------
    OpenVINO reads the first element, even an empty one, and silently ignores the others. To the
    runtime, an annotation in the second element does not exist.

    How to fix it
    -------------
    Move the entries of the later elements into the first one, and remove the later elements.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    for document in context.all_documents:
        scan = document.scan
        for number, span in enumerate(scan.rt_infos[1:], 2):
            message = f"this is <rt_info> number {number} of the model, but OpenVINO reads only the first"
            yield finding_at(document, span, message, "Move its entries into the first and remove it.")
        if scan.rt_infos and scan.meta_data is not None:
            message = "the model has <meta_data> beside <rt_info>, and OpenVINO ignores it"
            yield finding_at(document, scan.meta_data, message, "Move its entries into <rt_info> and remove it.")


@rule("IR021", "repeated-rt-info-key", Severity.WARNING, "A key appears twice in the rt_info of a model")
def repeated_rt_info_key(context: Context) -> Iterator[Finding]:
    """A key appears twice in the rt_info of a model.

    What it checks
    --------------
    That the keys of the model-level rt_info are unique. ``<key value="..."/>`` and ``<info name="key"
    value="..."/>`` are the same key.

    Why it matters
    --------------
    OpenVINO silently uses the last entry, although a reader may notice only the first.

    How to fix it
    -------------
    Remove all entries but the intended one.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1, with both spellings.
    """
    for document in context.all_documents:
        if not document.scan.rt_infos:
            continue
        seen: Counter[str] = Counter()
        for tag, span in child_spans(document.data, document.scan.rt_infos[0]):
            opening = document.data[span.start : document.data.index(b">", span.start)]
            attributes = parse_attributes(opening) if b"name" in opening else {}
            key = attributes.get("name", tag)
            seen[key] += 1
            if seen[key] == 2 and not (key == ANNOTATION_KEY and document is context.target):  # HID003 reports it
                message = f"the key {key!r} is repeated here, and OpenVINO uses the last entry"
                yield finding_at(document, span, message, "Remove all entries but the intended one.")
