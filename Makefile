# A fresh machine needs Python 3.11 to 3.14, git and make; the rest is fetched, pinned by hash, into .venv.

# The Pythons that are here, newest first, one of each version: those on the PATH and those that pyenv has. Each is tried,
# not just looked up: a version manager's stand-in may be on the PATH with nothing behind it.
PYTHONS = $(shell for minor in 14 13 12 11; do \
	for python in python3.$$minor "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.$$minor.*/bin/python python3 python; do \
		"$$python" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $$minor))" >/dev/null 2>&1 \
		&& { echo "$$python"; break; }; \
	done; done)
PYTHON ?= $(firstword $(PYTHONS))

# The environment that is made and used: `make demo PYTHON=python3.12 VENV=.venv-3.12` leaves .venv alone.
VENV ?= .venv

# Tests wait for other processes about half of their time: three keep two cores busy. The suites' budgets are meant for that.
WORKERS ?= 3

BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check install --quiet
PINNED := $(PIP) --require-hashes --requirement
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header --no-annotate

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup pythons system postgresql demo cluster test check format docs map record screenshots bench soak security lock vendor clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/installed $(VENV)/wheels/fetched ## .venv with the locked packages, the developers' too, and Parley itself, editable

# What it takes to run Parley: `make demo` needs no more. The recipes use nothing but the shell, Python and git.
$(VENV)/runtime: requirements.lock requirements-build.lock pyproject.toml
	$(call make-venv,$(VENV))
	@echo "installing what Parley needs, from requirements.lock and requirements-build.lock"
	@$(BIN)/python $(PINNED) requirements.lock --requirement requirements-build.lock
	@echo "installing Parley itself, from this folder"
	@$(BIN)/python -m pip -qq uninstall --yes parley  # another project's, or ours under its former name
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@: > $@

$(VENV)/installed: $(VENV)/runtime requirements-dev.lock
	@echo "installing what the tests and checks need, from requirements-dev.lock (some hundred megabytes)"
	@$(BIN)/python $(PINNED) requirements-dev.lock
	@: > $@

# What a cluster takes besides: the extras `postgres` and `temporal`, and Temporal's server.
$(VENV)/cluster: requirements-cluster.lock | postgresql $(VENV)/runtime
	@echo "installing what a cluster needs, from requirements-cluster.lock"
	@$(BIN)/python $(PINNED) requirements-cluster.lock
	@: > $@

# What installing Parley fetches, for the tests that install it without a network.
$(VENV)/wheels/fetched: requirements-wheels.lock | $(VENV)/runtime
	@echo "fetching what the tests of installing need, from requirements-wheels.lock"
	@rm -rf $(VENV)/wheels && mkdir $(VENV)/wheels
	@$(BIN)/python -m pip --disable-pip-version-check --quiet download --only-binary :all: --no-deps --require-hashes \
		--requirement requirements-wheels.lock --dest $(VENV)/wheels
	@: > $@

# The systems that bench compares with, and what draws its plots, in an environment of their own.
.venv-peers/installed: bench/peers/requirements-peers.lock
	$(call make-venv,.venv-peers)
	.venv-peers/bin/python $(PINNED) bench/peers/requirements-peers.lock
	@: > $@

# $(1): the environment's folder. Made anew only where its Python does not start.
define make-venv
@$(1)/bin/python -c '' 2>/dev/null || { \
	test -n "$(PYTHON)" || { echo "no Python of 3.11 to 3.14 with venv is on the PATH; name one: make PYTHON=..." >&2; exit 1; }; \
	echo "making $(1) with $(PYTHON)"; "$(PYTHON)" -m venv --clear $(1); }
endef

pythons: ## the Pythons that are here, newest first
	@printf '%s\n' $(PYTHONS)

system: ## the programs that the tests need besides: git, strace, bubblewrap, npm, zsh, fish, Chromium, PostgreSQL, …
	$(call need-programs,git:git strace:strace bwrap:bubblewrap setpriv:util-linux npm:npm zsh:zsh fish:fish \
		chromium:chromium initdb:postgresql ip:iproute2 faketime:faketime \
		systemd-analyze:systemd,the tests need programs that are missing,[ "$$CI" != true ])

postgresql:
	$(call need-programs,initdb:postgresql,the cluster needs a program that is missing,false)

# $(1): programs, each with the Debian package that has it, which is installed where that is allowed. $(2): what is said
# where one is missing all the same, and $(3) what is done then.
define need-programs
@missing() { for pair in $(1); do \
	{ command -v "$${pair%:*}" || ls /usr/lib/postgresql/*/bin/"$${pair%:*}"; } >/dev/null 2>&1 \
	|| printf ' %s' "$${pair#*:}"; done; }; \
if [ -n "$$(missing)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	echo "installing:$$(missing)"; \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $$(missing); } >/dev/null || :; \
fi; \
if [ -n "$$(missing)" ]; then \
	echo "$(2): apt-get install$$(missing)" >&2; $(3); \
fi
endef

# Codex, which the tests run as an agent: pinned with hashes, no script of a package's is run. Without npm its tests are
# left out, but never where CI is set.
.codex/installed: tests/codex/package.json tests/codex/package-lock.json | system
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "npm is missing, and with it Codex, which the tests run: install npm" >&2; [ "$$CI" != true ]; \
	else \
		mkdir -p .codex && cp tests/codex/package.json tests/codex/package-lock.json .codex/ && cd .codex \
		&& npm ci --ignore-scripts --no-audit --no-fund --loglevel error && touch installed; \
	fi

demo: $(VENV)/runtime ## a whole job, played by scripted agents; WORKFLOW=1, PLAY=1 (you answer), PAGE=1 (in the browser), FAST=1
	@$(BIN)/parley demo $(if $(filter-out 0,$(WORKFLOW)),--workflow) $(if $(filter-out 0,$(PLAY)),--play) \
		$(if $(filter-out 0,$(PAGE)),--page) $(if $(filter-out 0,$(FAST)),--fast)

cluster: $(VENV)/cluster ## the workflow demo on three hosts of this machine, of which one is killed; FAST=1
	@$(BIN)/python -m tools.cluster $(if $(filter-out 0,$(FAST)),--fast)

test: setup system .codex/installed check ## checks and all suites, within their budgets
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: setup ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## mend what can be mended by a program
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup .venv-peers/installed ## measures Parley beside its peers
	$(BIN)/python -m bench
	$(BIN)/python -m bench.cluster

docs: setup ## refreshes what the docs show of the code
	$(BIN)/python -m tools.docs

map: setup system ## draws docs/map.md: every module, the imports, the walk of one message
	$(BIN)/python -m tools.map

record: setup ## plays a session of `parley watch` and keeps it for the docs
	$(BIN)/python -m tools.record

screenshots: setup system ## plays jobs on the page and keeps pictures of it for README and docs
	$(BIN)/python -m tools.screenshots

soak: setup system ## the tests that run for long
	PARLEY_SOAK=1 $(BIN)/python -m pytest -m soak --timeout 0

security: setup system ## makes all attempts to get out, as root and as an ordinary user, and prints a table
	$(BIN)/python -m tools.security $(WORKERS)

lock: setup ## pins the requirements anew
	$(COMPILE) --upgrade requirements.in --output-file requirements.lock
	$(COMPILE) --upgrade requirements-build.in --output-file requirements-build.lock
	$(COMPILE) --upgrade requirements-dev.in --output-file requirements-dev.lock
	$(COMPILE) --upgrade requirements-cluster.in --output-file requirements-cluster.lock
	$(COMPILE) --upgrade requirements-wheels.in --output-file requirements-wheels.lock
	$(COMPILE) --upgrade bench/peers/requirements-peers.in --output-file bench/peers/requirements-peers.lock

vendor: setup ## fetches the vendored files of the page and of its tests anew, as each vendor.json names them
	$(BIN)/python -m tools.vendor

clean: ## removes all that make and the tools made
	rm -rf .venv .venv-* .codex .bench build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
