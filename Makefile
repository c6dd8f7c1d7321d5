# `make run` and `make test` do all set-up themselves; once it is done they start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Of what pip says, a line for each large file while it comes, and the error if there is one.
SHOW := awk '/^exit / { code = $$2 } /Downloading .*\.whl.* MB\)|Using cached .*\.whl.* MB\)/ { \
	for (i = 1; i < NF; i++) if ($$i ~ /\.whl$$/) { split($$i, name, "-"); size = $$(i + 1) " MB"; sub(/\(/, "", size); \
	print "  " name[1] ", " size; fflush() } } \
	/^Installing collected packages/ { print "  unpacking ..."; fflush() } END { exit code }'
NPM := npm install --no-package-lock --no-audit --no-fund --no-engine-strict \
	--fetch-timeout=60000 --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=2000

# Where an environment forbids to keep compiled modules, each of the processes that tests start would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check docs bench torture clean

run: .venv/.model
	@$(BIN)/cofio serve

test: .venv/.model .venv/.dev .node/installed .redis/installed .strace/installed .pgbouncer/installed \
		.chromium/installed
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal  # on two cores: many tests wait for what they started

check: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@for each in darwin win32; do $(BIN)/mypy --platform $$each --cache-dir .mypy_cache/$$each src || exit 1; done
	@$(BIN)/lint-imports --no-cache

docs: .venv/.docs
	@rm -rf site
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir .venv/.doctrees . site
	@echo "The documentation is in site/index.html"

bench: .venv/.model .venv/.dev
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.conversation
	@$(BIN)/python -m benchmarks.mcp
	@$(BIN)/python -m benchmarks.memory_tool
	@$(BIN)/python -m benchmarks.animus
	@$(BIN)/python -m benchmarks.rest
	@$(BIN)/python -m benchmarks.model
	@$(BIN)/python -m benchmarks.checkpoints
	@$(BIN)/python -m benchmarks.install
	@$(BIN)/python -m benchmarks.hooks
	@$(BIN)/python -m benchmarks.postgres --sizes 20000 100000

torture: .venv/.model .venv/.dev .node/installed .strace/installed .pgbouncer/installed .chromium/installed
	@COFIO_TORTURE=1 $(BIN)/python -m pytest -q -rs --timeout 14400 tests/faults tests/network tests/everywhere \
		tests/doors/hooks \
		tests/doors/animus/test_process.py tests/doors/mcp/test_process.py tests/doors/memory_tool/test_paths.py \
		tests/capture/test_killed.py tests/doors/page/test_browser.py tests/doors/rest/test_process.py tests/doors/serve \
		tests/importing tests/knowledge/test_documents.py tests/library/adapters tests/library/stores tests/postgresql \
		tests/quality tests/capture tests/contract/test_checkpoints.py tests/llm/test_real_server.py

clean:
	rm -rf site .venv .node .redis .strace .pgbouncer .chromium .llama .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cofio needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 1; }
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv

.venv/.base: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing cofio and what it stands on (once; about 65 MB to fetch, 300 MB on the disk) ..."
	@{ $(PIP) install -c constraints.txt -e '.[server]'; echo "exit $$?"; } | $(SHOW)
	@touch $@

.venv/.dev: .venv/.base
	@echo "Installing the tools for tests and checks (once; a minute or two) ..."
	@{ $(PIP) install -c constraints.txt -e '.[server,dev]'; echo "exit $$?"; } | $(SHOW)
	@touch $@

.venv/.docs: .venv/.base
	@echo "Installing what builds the documentation (once) ..."
	@{ $(PIP) install -c constraints.txt -e '.[docs]'; echo "exit $$?"; } | $(SHOW)
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

# Debian's programs that the tests run: redis-server, pgbouncer, strace, which watches what leaves cofio, and chromium, which
# shows the page. Without one its tests are skipped: .redis/missing, .pgbouncer/missing and so on say why.
.redis/installed: PROGRAM := redis-server
.redis/installed: TRY := redis-server --version
.strace/installed: PROGRAM := strace
.strace/installed: TRY := strace -f --seccomp-bpf -e trace=openat -o /dev/null true
.pgbouncer/installed: PROGRAM := pgbouncer
.pgbouncer/installed: TRY := PATH=$$PATH:/usr/sbin pgbouncer --version
.chromium/installed: PROGRAM := chromium
.chromium/installed: TRY := chromium --version
.redis/installed .strace/installed .pgbouncer/installed .chromium/installed:
	@rm -rf $(@D) && mkdir -p $(@D)
	@if ! PATH=$$PATH:/usr/sbin command -v $(PROGRAM) >$(@D)/log; then \
		if ! command -v apt-get >$(@D)/log; then echo "there is no $(PROGRAM) on this machine" >$(@D)/missing; \
		else echo "Installing $(PROGRAM) for the tests (once) ..."; \
		SUDO=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		{ $$SUDO apt-get install -y --no-install-recommends $(PROGRAM) || \
			{ $$SUDO apt-get update && $$SUDO apt-get install -y --no-install-recommends $(PROGRAM); }; } >$(@D)/log 2>&1 || \
			tail -n 1 $(@D)/log >$(@D)/missing; fi; fi
	@if [ ! -e $(@D)/missing ]; then \
		if $(TRY) >$(@D)/log 2>&1; then touch $@; else tail -n 1 $(@D)/log >$(@D)/missing; fi; fi
	@if [ -e $(@D)/missing ]; then echo "$(PROGRAM) cannot be used: $$(cat $(@D)/missing) (see $(@D)/log)"; fi
