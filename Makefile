# On a fresh machine with Python 3.11 or newer, git and make: `make demo`, `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint docs docs-check fuzz mutants bench wheel sbom audit clean

demo: .venv/installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

# Byte code is kept even where the environment forbids it, because the tests start many processes.
test test-slow: export PYTHONDONTWRITEBYTECODE =

test: .venv/installed-dev
	@sh tests/browser/install.sh
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in build/docs. A warning is an error; blocks of the pages are run by docs-check, the notebook here.
docs: .venv/installed-docs
	@$(BIN)/python fixtures/pack.py
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html docs build/docs
	@echo 'open build/docs/index.html'

docs-check: .venv/installed-dev
	$(BIN)/python docs/check.py

# For example `make fuzz SECONDS=600 SEED=7`. Without SEED, a new seed each time; it is printed.
SECONDS ?= 120
fuzz: .venv/installed-dev
	@$(BIN)/python fixtures/pack.py
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Small changes to the code, drawn at random: which of them does a test notice? Takes long; not in CI.
MUTANTS ?= 100
mutants: .venv/installed-dev
	$(BIN)/python -m tests.mutants --number $(MUTANTS) $(if $(SEED),--seed $(SEED))

# Known vulnerabilities of what is installed. Needs the network; a package that cannot be judged fails.
audit: .venv/installed-release
	$(BIN)/python -m pip freeze --exclude-editable > .venv/audited.txt
	$(BIN)/python -m pip_audit --strict --no-deps --disable-pip -r .venv/audited.txt

wheel: .venv/installed-release
	$(BIN)/python release/build.py wheel

sbom: wheel
	$(BIN)/python release/build.py sbom

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

.venv/installed-docs: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -q -e '.[docs,plots,render,runtime]'
	@touch $@ .venv/installed

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@ .venv/installed .venv/installed-docs

.venv/installed-release: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -q -e '.[release]'
	@touch $@
