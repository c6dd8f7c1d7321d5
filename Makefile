# `make run` and `make test` do all set-up themselves; once it is done they start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
NPM := npm install --no-package-lock --no-audit --no-fund --no-engine-strict \
	--fetch-timeout=60000 --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=2000

.PHONY: run test check bench torture clean

run: .venv/.model
	@$(BIN)/cofio serve

test: .venv/.model .venv/.dev .node/installed .redis/installed
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: .venv/.model .venv/.dev
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.mcp
	@$(BIN)/python -m benchmarks.memory_tool
	@$(BIN)/python -m benchmarks.animus
	@$(BIN)/python -m benchmarks.rest
	@$(BIN)/python -m benchmarks.model
	@$(BIN)/python -m benchmarks.checkpoints

torture: .venv/.model .venv/.dev
	@COFIO_TORTURE=1 $(BIN)/python -m pytest -q tests/faults

clean:
	rm -rf .venv .node .redis .mypy_cache .ruff_cache .pytest_cache .hypothesis

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

# MCP clients of others, and the Node that they need. Without them their tests are skipped: .node/missing says why, and
# the next run tries again.
.node/installed: tests/node/package.json
	@echo "Installing the MCP clients that the tests run (once) ..."
	@rm -rf .node/node_modules .node/installed .node/missing && mkdir -p .node && cp tests/node/package.json .node/
	@cd .node && if ! command -v npm >npm.log; then echo "there is no npm on this machine" >missing; \
		elif $(NPM) >npm.log 2>&1 && node_modules/node/bin/node --version >>npm.log 2>&1; then touch installed; \
		else { grep -m 1 -E 'error code|not found' npm.log || tail -n 1 npm.log; } >missing; fi
	@if [ -e .node/missing ]; then echo "They could not be installed: $$(cat .node/missing) (see .node/npm.log)"; fi

# Debian's redis-server, which the tests start for themselves. Without it its tests are skipped: .redis/missing says why.
.redis/installed:
	@rm -rf .redis && mkdir -p .redis
	@if command -v redis-server >.redis/log; then touch $@; \
		elif ! command -v apt-get >.redis/log; then echo "there is no redis-server on this machine" >.redis/missing; \
		else echo "Installing redis-server for the tests (once) ..."; \
		SUDO=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		if { $$SUDO apt-get install -y --no-install-recommends redis-server || \
			{ $$SUDO apt-get update && $$SUDO apt-get install -y --no-install-recommends redis-server; }; } >.redis/log 2>&1; \
		then touch $@; else tail -n 1 .redis/log >.redis/missing; fi; fi
	@if [ -e .redis/missing ]; then echo "redis-server could not be installed: $$(cat .redis/missing) (see .redis/log)"; fi
