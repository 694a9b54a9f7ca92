"""The atlas of many exports as rows."""
