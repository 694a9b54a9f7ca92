"""Processes that execute OpenVINO and OpenVINO GenAI; imported lazily."""
