# `make run` and `make test` do all set-up themselves; once it is done they start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: run test check bench torture clean

run: .venv/.model
	@$(BIN)/python examples/tour.py

test: .venv/.model .venv/.dev
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: .venv/.model .venv/.dev
	@$(BIN)/python -m benchmarks

torture: .venv/.model .venv/.dev
	@COFIO_TORTURE=1 $(BIN)/python -m pytest -q tests/faults

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cofio needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 1; }
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv

.venv/.base: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing cofio and what it stands on (once) ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

.venv/.dev: .venv/.base
	@echo "Installing the tools for tests and checks (once) ..."
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

.venv/.model: .venv/.base
	@$(BIN)/cofio model install
	@touch $@
