# Every task has one verb here; continuous integration calls the same ones.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
LAB_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-fast test-browser thorough check format web lab bench clean

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
NODE_MODULES := labextension/node_modules/.package-lock.json
FAST_FOLDERS := tests/unit tests/contracts tests/machines
TEST_FOLDERS := $(FAST_FOLDERS) tests/wire tests/process tests/notebook

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

demo: $(VENV)/.has-demo ## set up, then run the first notebook here in the terminal
	@$(BIN)/python notebooks/show.py notebooks/01-first-cell.ipynb

# $(1): folders, in order. Those that do not exist are skipped; nothing to run is an error, as is a folder without a test.
define run_folders
	@test -n "$(strip $(wildcard $(1)))" || { echo "none of these folders exists: $(1)" >&2; exit 1; }
	@set -e; for folder in $(wildcard $(1)); do \
		echo "== $$folder"; \
		$(BIN)/python -m pytest -q -m "not thorough" $(PYTEST_ARGS) "$$folder"; \
	done
endef

test: $(VENV)/.has-test ## all tests, from quick to slow; stops at the first folder that fails
	$(call run_folders,$(TEST_FOLDERS))

test-fast: $(VENV)/.has-test ## the tests that start no process and no browser
	$(call run_folders,$(FAST_FOLDERS))

test-browser: $(VENV)/.has-browser ## the tests in JupyterLab and Notebook 7, in a real browser
	@$(BIN)/python -m pytest -q -m "not thorough" $(PYTEST_ARGS) tests/browser

thorough: $(VENV)/.has-browser ## the long tests that `make test` and `make test-browser` leave out
	@$(BIN)/python -m pytest -m thorough $(PYTEST_ARGS) --ignore=tests/browser tests
	@$(BIN)/python -m pytest -m thorough $(PYTEST_ARGS) tests/browser

check: $(VENV)/.has-test ## format, lint, types and import contracts
	@red=0; for step in "ruff format --check ." "ruff check ." mypy lint-imports; do \
		echo "== $$step"; $(BIN)/$$step || red=1; \
	done; exit $$red

format: $(VENV)/.has-test ## rewrite the files the way `make check` and `make web` want them
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@test ! -d labextension/node_modules || (cd labextension && npm run --silent format)

web: $(VENV)/.has-browser $(NODE_MODULES) ## check, test and rebuild what the browser shows (needs Node.js)
	@cd labextension && npm run --silent lint && npm run --silent test
	@rm -rf wool_jupyter/labextension labextension/lib
	@cd labextension && PATH="$(abspath $(BIN)):$$PATH" npm run --silent build

lab: $(VENV)/.has-lab $(VENV)/.has-demo ## open JupyterLab on the notebooks
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --notebook-dir=notebooks $$(test "$$(id -u)" != 0 || echo --allow-root) $(LAB_ARGS)

bench: $(VENV)/.has-bench ## run the benchmarks, also those beside other libraries
	@$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

clean: ## remove the environment, caches and builds
	@rm -rf "$(VENV)" dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache labextension/node_modules labextension/lib
	@find wool_jupyter tests notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# A stamp says which set of dependencies the environment has. A change of pyproject.toml installs again, and so does a new build of what
# JupyterLab shows: an installation has a copy of it.

$(VENV)/.has-python:
	@command -v "$(PYTHON)" >/dev/null || { echo "'$(PYTHON)' was not found: install Python 3.11 or later, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1). Name another: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "creating the environment $(VENV)"
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch "$@"

$(VENV)/.has-%: pyproject.toml $(wildcard wool_jupyter/labextension/package.json) | $(VENV)/.has-python
	@echo "installing wool_jupyter with what '$*' needs into $(VENV) (the first time takes a minute)"
	@$(PIP) --editable '.[$*]'
	@touch "$@"

$(NODE_MODULES): labextension/package-lock.json
	@node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' \
		|| { echo "Node.js 20.19 or later is needed, with npm" >&2; exit 1; }
	@echo "installing what builds and checks the browser's side (the first time takes half a minute)"
	@cd labextension && npm ci --ignore-scripts --silent
	@touch "$@"
