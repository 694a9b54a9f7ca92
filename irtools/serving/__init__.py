"""Graphs of OpenVINO Model Server: the interface of its releases, reading a ``graph.pbtxt``, writing one."""

from __future__ import annotations
