"""SRV: a graph of OpenVINO Model Server that serves the export with a draft: what drafting needs."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, rule
from irtools.lint.decoding import too_new
from irtools.lint.serving import SERVER_TOKENS, finding_in_graph, served, stateful
from irtools.model.directory import MTP_FILE
from irtools.serving.graph_file import same
from irtools.text import joined, shortened

_REFUSED = (
    "draft_device",
    "draft_max_num_batched_tokens",
    "draft_cache_size",
    "draft_block_size",
    "draft_max_num_seqs",
    "draft_dynamic_split_fuse",
)
"""Options with which the server refuses to start without a draft; it ignores ``draft_eagle3_mode``."""


@rule("SRV007", "served-draft-without-head", Severity.ERROR, "The graph drafts with an MTP head that is not there")
def served_draft_without_head(context: Context) -> Iterator[Finding]:
    """`draft_models_path` is the directory of the model itself, and there is no MTP head.

    What it checks
    --------------
    That a draft path such as `.`, which leads to the directory of `models_path`, leads to `openvino_mtp_model.xml`.

    Why it matters
    --------------
    GenAI then takes the target for an ordinary draft of itself. Each token costs two passes of the whole model, and a
    target that takes embeddings does not start.

    How to fix it
    -------------
    Export with an MTP head, put one there with `irtools attach`, or remove `draft_models_path`.

    Source
    ------
    OpenVINO Model Server, `continuous_batching/servable_initializer.cpp`, passes the path to GenAI unchanged;
    reproduced with GenAI 2026.4.1.
    """
    for one in served(context):
        if same(one.draft_path, context.export.directory) and context.export.mtp is None:
            given = shortened(one.node.value("draft_models_path"))
            message = f"draft_models_path {given!r} is the model itself, which has no {MTP_FILE}"
            hint = "attach an MTP head, or remove draft_models_path"
            yield finding_in_graph(one.node, "draft_models_path", message, hint)


@rule("SRV008", "served-prefix-caching", Severity.ERROR, "The graph turns on prefix caching, which the draft forbids")
def served_prefix_caching(context: Context) -> Iterator[Finding]:
    """`enable_prefix_caching` is true, and the decoding strategy of the draft needs it off.

    What it checks
    --------------
    The conditions of the decoding strategy, as `irtools verify` shows them: DFlash always needs prefix caching off, and
    a target with linear attention with every draft.

    Why it matters
    --------------
    The server does not start the model, or each request fails.

    How to fix it
    -------------
    Write `enable_prefix_caching: false`. The export script of the server writes `true` unless told otherwise.

    Source
    ------
    OpenVINO GenAI, `dflash_strategy.cpp` and `continuous_batching/pipeline_impl.cpp`; reproduced with GenAI 2026.4.1.
    """
    for one in served(context):
        needed = one.needs("SchedulerConfig.enable_prefix_caching")
        if needed is not None and one.node.value("enable_prefix_caching") and not stateful(one.node):
            message = f"enable_prefix_caching is true, but {one.strategy} needs it off: {needed.otherwise!r}"
            hint = "write enable_prefix_caching: false"
            yield finding_in_graph(one.node, "enable_prefix_caching", message, hint)


@rule("SRV009", "draft-options-without-draft", Severity.WARNING, "The graph has options of a draft, and no draft")
def draft_options_without_draft(context: Context) -> Iterator[Finding]:
    """The graph has options that begin with `draft_`, and `draft_models_path` is missing or empty.

    What it checks
    --------------
    The options of each node. `draft_block_size`, which no release reads, gets a note also with a draft.

    Why it matters
    --------------
    The server ignores `draft_eagle3_mode` and an empty path without a message, and decodes without a draft. With any
    other of these options it does not start the model, which is an error here: "Draft model path is not provided, but
    draft scheduler options are set."

    How to fix it
    -------------
    Give `draft_models_path`, or remove the options.

    Source
    ------
    OpenVINO Model Server, `continuous_batching/servable_initializer.cpp`, v2025.4 to v2026.3.
    """
    for one in served(context):
        node = one.node
        refused = [name for name in _REFUSED if node.has(name)]
        if one.draft_path is not None:
            if node.has("draft_block_size"):
                message = "no release of the server reads draft_block_size"
                yield finding_in_graph(node, "draft_block_size", message, "remove it", Severity.NOTE)
            continue
        ignored = [name for name in ("draft_eagle3_mode", "draft_models_path") if node.has(name)]
        hint = "give draft_models_path, or remove them"
        if refused:
            message = f"the server refuses {joined(refused)} without draft_models_path"
            yield finding_in_graph(node, refused[0], message, hint, Severity.ERROR)
        if ignored:
            message = f"without a draft, the server ignores {joined(ignored)} and decodes plainly"
            yield finding_in_graph(node, ignored[0], message, hint)


@rule("SRV010", "draft-in-stateful-pipeline", Severity.WARNING, "The graph has a draft and a pipeline that ignores it")
def draft_in_stateful_pipeline(context: Context) -> Iterator[Finding]:
    """The graph has `draft_models_path` and a pipeline without continuous batching.

    What it checks
    --------------
    `pipeline_type` `LM`, `VLM` and `OMNI`, and `AUTO` on the device `NPU`.

    Why it matters
    --------------
    These pipelines do not read `draft_models_path`: the server decodes without a draft and does not say so. With
    another option of the draft, such as `draft_device`, it does not start the model, which is an error here.

    How to fix it
    -------------
    Remove `pipeline_type`, or remove the draft.

    Source
    ------
    OpenVINO Model Server, `legacy/servable_initializer.cpp` of both kinds of models, v2025.4 to v2026.3.
    """
    for one in served(context):
        if one.draft_path is None or not stateful(one.node):
            continue
        kind = one.node.value("pipeline_type")
        what = "on NPU" if kind == "AUTO" else f"with pipeline_type {kind}"
        refused = [name for name in _REFUSED if one.node.has(name)]
        does = f"refuses {joined(refused)}" if refused else "ignores the draft and decodes plainly"
        severity = Severity.ERROR if refused else None
        hint = (
            f"{'use another device' if kind == 'AUTO' else 'remove pipeline_type'}, or remove the options of the draft"
        )
        yield finding_in_graph(one.node, "draft_models_path", f"{what}, the server {does}", hint, severity)


@rule("SRV011", "sampling-with-eagle3", Severity.WARNING, "The graph lets requests sample with an EAGLE-3 draft")
def sampling_with_eagle3(context: Context) -> Iterator[Finding]:
    """The draft is an EAGLE-3 draft, and `draft_eagle3_mode` is not set.

    What it checks
    --------------
    The kind of the draft, for releases that have the option.

    Why it matters
    --------------
    The option makes every request greedy. Without it, the server samples unless a request has `"temperature": 0`, and
    a request that samples and streams fails: "Eagle3 streaming only supports batch size=1 with greedy or tree search".

    How to fix it
    -------------
    Write `draft_eagle3_mode: true`.

    Source
    ------
    OpenVINO Model Server, `base_generation_config_builder.cpp`; OpenVINO GenAI, `eagle3_strategy.cpp`.
    """
    for one in served(context):
        if one.strategy == "eagle3" and one.node.value("draft_eagle3_mode") is False:
            message = "the draft is for EAGLE-3, but draft_eagle3_mode is not set"
            yield finding_in_graph(one.node, "draft_models_path", message, "write draft_eagle3_mode: true")


@rule("SRV012", "small-served-batch", Severity.ERROR, "The graph batches fewer tokens than the draft needs")
def small_served_batch(context: Context) -> Iterator[Finding]:
    """`max_num_batched_tokens` is smaller than the number of drafted tokens and one more.

    What it checks
    --------------
    The number in generation_config.json, else the 5 tokens that the server drafts by default.

    Why it matters
    --------------
    The target verifies all drafted tokens in one pass. If they do not fit, the server does not start the model, or
    requests fail, or the text is another one, depending on the decoding strategy.

    How to fix it
    -------------
    Remove the option, whose default is 256, or give a larger number.

    Source
    ------
    OpenVINO GenAI, `dflash_strategy.cpp` and `continuous_batching/scheduler.hpp`; reproduced with GenAI 2026.4.1.
    """
    drafted = context.export.generation_config.get("num_assistant_tokens")
    count = drafted if isinstance(drafted, int) and drafted > 0 else SERVER_TOKENS
    for one in served(context):
        size = one.node.value("max_num_batched_tokens")
        needed = one.needs("SchedulerConfig.max_num_batched_tokens")
        if needed is not None and size < count + 1 and not stateful(one.node):
            message = f"max_num_batched_tokens {size} is smaller than the {count} drafted tokens and one more"
            yield finding_in_graph(one.node, "max_num_batched_tokens", message, f"give at least {count + 1}")


@rule("SRV013", "served-draft-too-new", Severity.ERROR, "The release of the server cannot use the draft of the graph")
def served_draft_too_new(context: Context) -> Iterator[Finding]:
    """The draft needs a decoding strategy that the release of `--target-runtime` does not have.

    What it checks
    --------------
    The kind of the draft against the releases of OpenVINO GenAI; a server has the release of the GenAI in it.

    Why it matters
    --------------
    An older release takes the draft for an ordinary one: it does not start the model, or drafts with the target itself.

    How to fix it
    -------------
    Use a newer server, or remove the options of the draft.

    Source
    ------
    `versions.mk` of OpenVINO Model Server; the libraries of OpenVINO GenAI.
    """
    for one in served(context):
        reason = too_new(one.context, one.strategy) if one.context is not None and one.strategy else ""
        if reason:
            message = f"OpenVINO Model Server {context.target_runtime} cannot draft with {one.strategy}: {reason}"
            hint = "use a newer server, or remove the options of the draft"
            yield finding_in_graph(one.node, "draft_models_path", message, hint)
