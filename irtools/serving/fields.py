"""Fields that a ``graph.pbtxt`` may have in each release of OpenVINO Model Server, as data.

A statement of the interface: names, types, defaults, and the first release that has them. It was compared, field by
field, with `src/llm/llm_calculator.proto` of openvinotoolkit/model_server at the tags v2025.4, v2026.0, v2026.1,
v2026.2, v2026.2.1 and v2026.3, and at the branch main-2026.4 (d721ba8, 2026-08-01), and with the messages of MediaPipe
that this file uses (`mediapipe/framework/calculator.proto` and its imports). The text format contains no field numbers,
so there are none here.

A specification is ``[required|repeated] TYPE [= DEFAULT] [since RELEASE]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ENUMS", "EXTENSIONS", "FIRST_RELEASE", "LAST_RELEASE", "MESSAGES", "OPTIONS", "PACKAGE"]

FIRST_RELEASE = "2025.4"
"""Oldest release that the table describes; it stands for older ones too."""
LAST_RELEASE = "2026.4"
"""Newest release that the table describes, read before it was published; it stands for newer ones too."""

PACKAGE = "mediapipe"
OPTIONS = "LLMCalculatorOptions"
"""Message with the options of a language model, in the ``node_options`` of its node."""

_STREAMS = {
    "input_stream": "repeated string",
    "output_stream": "repeated string",
    "input_side_packet": "repeated string",
    "output_side_packet": "repeated string",
}
_HANDLERS = {
    "input_stream_handler": "InputStreamHandlerConfig",
    "output_stream_handler": "OutputStreamHandlerConfig",
    "profiler_config": "ProfilerConfig",
}

MESSAGES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        OPTIONS: {
            "models_path": "required string",
            "max_num_batched_tokens": "uint64 = 256",
            "cache_size": "uint64 = 0",
            "max_num_seqs": "uint64 = 256",
            "dynamic_split_fuse": "bool = true",
            "device": "string",  # up to 2026.2.1 its default is CPU; later the server chooses
            "plugin_config": "string",
            "best_of_limit": "uint32 = 20",
            "max_tokens_limit": "uint32",
            "enable_prefix_caching": "bool = false",
            "draft_models_path": "string",
            "draft_device": "string",
            "draft_max_num_batched_tokens": "uint64",
            "draft_cache_size": "uint64",
            "draft_block_size": "uint64",
            "draft_max_num_seqs": "uint64",
            "draft_dynamic_split_fuse": "bool",
            "draft_eagle3_mode": "bool = false since 2026.0",
            "pipeline_type": "PipelineType = AUTO",
            "cache_eviction_config": "CacheEvictionConfig",
            "tool_parser": "string",
            "reasoning_parser": "string",
            "enable_tool_guided_generation": "bool = false",
            "sparse_attention_config": "SparseAttentionConfig",
            "cache_interval_multiplier": "uint64 since 2026.2.1",
            "chat_template_mode": "ChatTemplateMode since 2026.3",
        },
        "CacheEvictionConfig": {
            "aggregation_mode": "AggregationMode = NORM_SUM",
            "start_size": "required uint64",
            "recent_size": "required uint64",
            "max_cache_size": "required uint64",
            "apply_rotation": "bool = false",
            "snapkv_window_size": "uint64 = 8",
            "kv_crush_config": "KVCrushConfig",
        },
        "KVCrushConfig": {
            "budget": "uint64 = 0",
            "anchor_point_mode": "AnchorPointMode = RANDOM",
            "rng_seed": "uint64 = 0",
        },
        "SparseAttentionConfig": {
            "mode": "SparseAttentionMode = TRISHAPE",
            "num_last_dense_tokens_in_prefill": "uint64",
            "num_retained_start_tokens_in_cache": "uint64",
            "num_retained_recent_tokens_in_cache": "uint64",
            "xattention_threshold": "float",
            "xattention_block_size": "uint64",
            "xattention_stride": "uint64",
        },
        "CalculatorGraphConfig": {
            "node": "repeated Node",
            "packet_factory": "repeated PacketFactoryConfig",
            "packet_generator": "repeated PacketGeneratorConfig",
            "num_threads": "int32",
            "status_handler": "repeated StatusHandlerConfig",
            **_STREAMS,
            "max_queue_size": "int32",
            "report_deadlock": "bool",
            **_HANDLERS,
            "executor": "repeated ExecutorConfig",
            "package": "string",
            "type": "string",
            "options": "MediaPipeOptions",
            "graph_options": "repeated google.protobuf.Any",
        },
        "Node": {
            "name": "string",
            "calculator": "string",
            **_STREAMS,
            "options": "CalculatorOptions",
            "node_options": "repeated google.protobuf.Any",
            "source_layer": "int32",
            "buffer_size_hint": "int32",
            **_HANDLERS,
            "input_stream_info": "repeated InputStreamInfo",
            "executor": "string",
            "max_in_flight": "int32",
            "option_value": "repeated string",
            "external_input": "repeated string",
        },
        "ExecutorConfig": {"name": "string", "type": "string", "options": "MediaPipeOptions"},
        "InputStreamInfo": {"tag_index": "string", "back_edge": "bool"},
        "InputStreamHandlerConfig": {
            "input_stream_handler": "string = DefaultInputStreamHandler",
            "options": "MediaPipeOptions",
        },
        "OutputStreamHandlerConfig": {
            "output_stream_handler": "string = InOrderOutputStreamHandler",
            "input_side_packet": "repeated string",
            "options": "MediaPipeOptions",
        },
        "PacketFactoryConfig": {
            "packet_factory": "string",
            "output_side_packet": "string",
            "external_output": "string",
            "options": "PacketFactoryOptions",
        },
        "PacketGeneratorConfig": {
            "packet_generator": "string",
            "input_side_packet": "repeated string",
            "external_input": "repeated string",
            "output_side_packet": "repeated string",
            "external_output": "repeated string",
            "options": "PacketGeneratorOptions",
        },
        "StatusHandlerConfig": {
            "status_handler": "string",
            "input_side_packet": "repeated string",
            "external_input": "repeated string",
            "options": "MediaPipeOptions",
        },
        "ProfilerConfig": {
            "histogram_interval_size_usec": "int64",
            "num_histogram_intervals": "int64",
            "enable_input_output_latency": "bool",
            "enable_profiler": "bool",
            "enable_stream_latency": "bool",
            "use_packet_timestamp_for_added_packet": "bool",
            "trace_log_capacity": "int64",
            "trace_event_types_disabled": "repeated int32",
            "trace_log_path": "string",
            "trace_log_count": "int32",
            "trace_log_interval_usec": "int64",
            "trace_log_margin_usec": "int64",
            "trace_log_duration_events": "bool",
            "trace_log_interval_count": "int32",
            "trace_log_disabled": "bool",
            "trace_enabled": "bool",
            "trace_log_instant_events": "bool",
            "calculator_filter": "string",
        },
        "CalculatorOptions": {"merge_fields": "bool"},
        "PacketGeneratorOptions": {"merge_fields": "bool = true"},
        "PacketFactoryOptions": {},
        "MediaPipeOptions": {},
        "SyncSetInputStreamHandlerOptions": {"sync_set": "repeated SyncSet"},
        "SyncSet": {"tag_index": "repeated string"},
    }
)

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {OPTIONS: "CalculatorOptions", "SyncSetInputStreamHandlerOptions": "MediaPipeOptions"}
)
"""Messages that extend another one, as ``[mediapipe.NAME.ext]``."""

ENUMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "PipelineType": ("LM", "VLM", "LM_CB", "VLM_CB", "OMNI since 2026.3", "AUTO"),
        "AggregationMode": ("SUM", "NORM_SUM"),
        "AnchorPointMode": ("RANDOM", "ZEROS", "ONES", "MEAN", "ALTERNATING"),
        "SparseAttentionMode": ("TRISHAPE", "XATTENTION"),
        "ChatTemplateMode": ("MINJA since 2026.3", "JINJA since 2026.3"),
    }
)
"""Values of each enumeration in their order; a value that a release lacks shifts the numbers of the later ones."""
