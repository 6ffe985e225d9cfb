# Every command of the project. `make help` explains them; each sets up what it needs in .venv first.
# A set-up that is up to date takes no time: the stamps below depend on the requirements and the project file.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# How many test processes: two more than processors, because tests also wait; `make test WORKERS=2` chooses.
WORKERS ?= $$($(BIN)/python -c 'import os; print(2 + (os.cpu_count() or 2))')
# How many random stories `make soak` tells of each kind, and from which seed on: it prints them for a repetition.
SOAK_RUNS ?= 5000
SOAK_SEED ?=

# The first Python on the path that is new enough; `make PYTHON=/path/to/python3 …` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

.PHONY: help install play check test bench mutants soak browser clean distclean

help: ## Explain every target (this list)
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make TARGET\n"} /^[a-z]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo '  make play ARGS="--port 9000"    hands arguments to the program'
	@echo '  make play PYTHON=python3.13     sets up .venv with another Python'

install: $(VENV)/.run ## Create .venv with all that the program needs

play: $(VENV)/.run ## Open the game on this machine: no account, no token, no other service
	@exec $(BIN)/codemojex play $(ARGS)

check: $(VENV)/.dev ## Lint, format, types, and the rules of the architecture (what CI runs first)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings
	$(BIN)/pytest tests/architecture

test: check browser ## Run check, then every test in parallel
	$(BIN)/pytest -n $(WORKERS) --dist load --maxschedchunk 1 $(ARGS)

bench: $(VENV)/.run ## Measure the engine beside its peers on this machine (ARGS="--quick" takes a minute)
	@exec $(BIN)/python -m benchmarks $(ARGS)

mutants: $(VENV)/.dev ## Try small defects of the engine's Lua; name those that no scenario or test notices
	@exec $(BIN)/python -m tests.mutants $(ARGS)

soak: $(VENV)/.dev ## Tell 5,000 random stories each of the engine beside its plain model and beside a peer; SOAK_RUNS=500 chooses
	CODEMOJEX_MODEL_RUNS=$(SOAK_RUNS) CODEMOJEX_MODEL_SEED=$(SOAK_SEED) $(BIN)/pytest \
		tests/engine/random_stories.py tests/engine/random_peer_stories.py -s $(ARGS)

clean: ## Remove the games of this machine (.codemojex) and all caches; .venv stays
	rm -rf .codemojex .pytest_cache .ruff_cache .hypothesis .mutants build dist *.egg-info
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## Remove .venv as well, as in a fresh clone
	rm -rf $(VENV) .venv-bench

# The page's test drives a real browser. As root on Debian it is installed here; elsewhere one line says what is missing.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing chromium for the test of the page (once) ...'; \
		log=$$(mktemp); \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
			chromium fonts-noto-color-emoji; } >"$$log" 2>&1 </dev/null || { \
			echo "chromium is missing, and installing it failed (apt-get install chromium): $$(tail -n 1 "$$log")" >&2; exit 1; }; \
		rm -f "$$log"; \
	else \
		echo 'chromium is missing: install it (Debian: sudo apt-get install chromium fonts-noto-color-emoji) and run make test again' >&2; \
		exit 1; \
	fi

$(VENV)/.made:
	@[ -n '$(PYTHON)' ] || { \
		echo 'Python 3.11 or newer is missing: install it (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'Python is too old or does not run: $(PYTHON) is not Python 3.11 or newer; name another: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo 'the Python module venv is missing: install it (Debian: apt-get install python3-venv) or name another Python: make PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'Setting up .venv (once) ...'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements/app.txt pyproject.toml
	@echo 'Installing what the program needs ...'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/app.txt || { \
		echo 'the requirements could not be installed: the line above says why; a network or a pip mirror is needed once' >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . || { \
		echo 'the project itself could not be installed: the line above says why' >&2; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo 'Installing what checks and tests need ...'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt || { \
		echo 'the requirements could not be installed: the line above says why; a network or a pip mirror is needed once' >&2; exit 1; }
	@touch $@
