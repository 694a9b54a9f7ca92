"""What needs OpenVINO or GenAI to execute; imported lazily."""
