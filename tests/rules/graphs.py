"""Graphs of OpenVINO Model Server with one language model, as people write them by hand."""

from __future__ import annotations

_GRAPH = """\
# A graph for tests: comments stay.
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node: {{
  name: "{name}"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info: {{ tag_index: 'LOOPBACK:0', back_edge: true }}
  node_options: {{
    [type.googleapis.com / mediapipe.{kind}]: {{
      # the model, not draft_models_path: "x"
{lines}
    }}
  }}
  input_stream_handler {{
    input_stream_handler: "SyncSetInputStreamHandler",
    options {{
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ sync_set {{ tag_index: "LOOPBACK:0" }} }}
    }}
  }}
}}
"""


def graph(*lines: str, models: str | None = "./", kind: str = "LLMCalculatorOptions", name: str = "LLMExecutor") -> str:
    """A graph; ``lines`` are further options of the language model, None for ``models`` leaves out its path."""
    options = [*([f'models_path: "{models}"'] if models is not None else []), *lines]
    return _GRAPH.format(name=name, kind=kind, lines="\n".join(f"      {line}" for line in options))
