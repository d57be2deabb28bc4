# The targets below need nothing beforehand but make, and on Debian as root not even Python or a compiler:
# .ci/prepare.sh installs what is missing, elsewhere it says what to install.

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --quiet
PYTEST_ARGS ?=

# Directories are listed too: their time changes when a file in them is added or removed.
SOURCES := $(shell find dbanon sql migrations -name __pycache__ -prune -o -print)

.DEFAULT_GOAL := help
.PHONY: help setup develop demo test faults sanitize bench lint clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: $(VENV)/.package $(VENV)/.dev ## .venv with the package and all development tools, brought up to date

demo: $(VENV)/.package ## the demonstration; needs no database server
	$(VENV)/bin/dbanon demo

test: setup ## all tests; as root on Debian a missing PostgreSQL server is installed
	.ci/prepare.sh postgres
	$(VENV)/bin/pytest $(PYTEST_ARGS)

# FAULTS=full for the long campaign; FAULTS_SEED and FAULTS_CASE repeat what a finding names.
faults: setup ## random tables and killed runs against an oracle of its own, in some ten minutes
	.ci/prepare.sh postgres
	$(VENV)/bin/python -m tests.faults

sanitize: setup ## kernel tests under AddressSanitizer and UBSan, in a build of their own
	.ci/sanitize.sh $(VENV) build/sanitize

# -I: with the working directory first on the path, dbanon would be the source tree, which has no compiled core.
bench: setup $(VENV)/.bench ## seconds, memory and loss side by side
	$(VENV)/bin/python -I -m benchmarks

lint: setup ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

develop: setup ## editable install (then run .venv/bin/pytest; an outdated `make setup` puts the copy back)
	$(PIP) install --no-build-isolation --no-deps --config-settings=editable.rebuild=false --editable .

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build tools stay in the venv: building outside pip's isolation lets CMake compile only what changed.
# The .pth file lets tests, benchmarks and examples import one another; it comes after site-packages,
# so dbanon remains the installed one.
$(VENV)/.base: pyproject.toml
	PYTHON=$(PYTHON) .ci/prepare.sh build
	$(PYTHON) -m venv $(VENV)
	$(PIP) install scikit-build-core nanobind cmake ninja
	$(VENV)/bin/python -c 'import os, sysconfig; \
	  open(os.path.join(sysconfig.get_path("purelib"), "checkout.pth"), "w").write(os.getcwd() + "\n")'
	touch $@

$(VENV)/.package: $(VENV)/.base $(SOURCES)
	$(PIP) install --no-build-isolation .
	touch $@

# pycanon, a witness of the tests, pins an old numpy, but works with the newest.
$(VENV)/.dev: pyproject.toml | $(VENV)/.package
	$(PIP) install --no-build-isolation '.[dev]'
	$(PIP) install --no-deps pycanon==1.3.5
	touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.package
	$(PIP) install --no-build-isolation '.[bench]'
	touch $@
