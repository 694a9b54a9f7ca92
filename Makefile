# On a fresh machine with Python 3.11 or newer, git and make: `make demo`, `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint docs-check bench clean

demo: .venv/installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

test: .venv/installed-dev
	@sh tests/browser/install.sh
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -q -n 2 -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs-check: .venv/installed-dev
	$(BIN)/python docs/check.py

bench: .venv/installed-dev
	$(BIN)/python -m tests.benchmarks.bench

clean:
	rm -rf .venv build dist demo *.egg-info

.venv/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'irtools needs Python 3.11 or newer, this is ' + sys.version)"
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -q -e '.[render]'
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@ .venv/installed
