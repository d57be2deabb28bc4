# The targets below need nothing beforehand but make, and on Debian as root not even Python or a compiler:
# .ci/prepare.sh installs what is missing, elsewhere it says what to install.

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip
# Commands that take minutes print what they are at, in a line every 20 seconds.
STEP := @.ci/step.sh
PYTEST_ARGS ?=

# The tests are spread over this many processes, each with a PostgreSQL server of its own: two more
# than small machines have cores, as many of them wait for servers, timeouts and killed processes.
WORKERS ?= 4

# Where it is set, each of the processes that tests start would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

# The install is editable: Python, SQL and migrations are read where they lie; the core is compiled.
CORE := $(shell find dbanon/kernels -name "*.[ch]pp" -o -name CMakeLists.txt -o -name sources.py)

.DEFAULT_GOAL := help
# The parts of `make lint`, each on its own: they take turns with the tests of `make check`.
LINTS := ruff-check ruff-format mypy basedpyright lint-imports wording
.PHONY: quick test-postgres $(LINTS)
.PHONY: help setup demo check test test-oldest campaign audit schedules faults chains sanitize bench picture site lint clean FORCE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(VENV)/.package $(VENV)/.dev ## .venv with an editable install and all development tools, brought up to date

demo: $(VENV)/.package ## the demonstration; needs no database server
	$(VENV)/bin/dbanon demo

check: setup ## lint, and a part of the tests that need no server: under a minute
	@$(MAKE) --no-print-directory -j 4 --output-sync=target quick $(LINTS)

quick:
	CASES=3 $(VENV)/bin/pytest -q -n 2 --dist loadfile -m 'not postgresql and not mariadb and not slow' \
	  --hypothesis-profile=check tests/unit tests/contracts tests/docs tests/doors

# A process of tests that died ends the run: xdist 3.8 may wait for one in its place without end
# (pytest-xdist #1378).
test: setup ## all tests; as root on Debian a missing PostgreSQL or MariaDB server, browser or Java is installed
	@.ci/prepare.sh postgres
	@.ci/prepare.sh mariadb
	@.ci/prepare.sh browser
	@.ci/prepare.sh java
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadfile --max-worker-restart 0 $(PYTEST_ARGS); \
	  status=$$?; .ci/prepare.sh report; exit $$status

campaign: setup ## all tests, with each case on each database and all examples
	CAMPAIGN=full $(MAKE) --no-print-directory test

audit: setup ## what draws of synthetic rows tell of one row: 1,500 pairs of neighbouring tables
	CAMPAIGN=full $(VENV)/bin/pytest -n $(WORKERS) tests/unit/synthesis/test_audits.py \
	  tests/unit/synthesis/test_dp_marginals.py tests/unit/synthesis/test_histogram.py $(PYTEST_ARGS)

# The oldest versions that pyproject.toml takes, under the core that is built already. The others are
# those of `make setup`: pip takes the newest. Servers and browsers are not asked again, and what old
# packages say of newer ones below them is their matter. No polars: its newest gives types that the
# oldest pyarrow does not know.
OLDEST := build/oldest
OLDEST_EXTRAS := all postgres mariadb bound dp plot sklearn
OF_THE_CORE = _editable_skbc_dbanon.pth _editable_skbc_dbanon.py dbanon dbanon-*.dist-info checkout.pth

test-oldest: setup $(OLDEST)/.done ## tests with the oldest versions of all that dbanon needs
	$(OLDEST)/bin/python -m pytest -q -n 2 -W ignore::DeprecationWarning -k 'not polars' $(PYTEST_ARGS) \
	  -m 'not postgresql and not mariadb and not slow' tests/unit tests/contracts tests/doors/test_frame.py tests/doors/test_frame_kinds.py \
	  tests/doors/test_frame_types.py tests/doors/test_alignment.py tests/doors/test_cards.py \
	  tests/doors/test_cli.py tests/doors/html/test_page.py

$(OLDEST)/.done: pyproject.toml .ci/oldest.py | $(VENV)/.package
	$(PYTHON) -m venv --clear $(@D)
	$(PYTHON) .ci/oldest.py $(OLDEST_EXTRAS) >$(@D)/oldest.txt
	$(STEP) "the oldest versions of what dbanon needs" \
	  $(@D)/bin/python -m pip install -r $(@D)/oldest.txt pytest pytest-xdist hypothesis ruff microagg1d
	$(@D)/bin/python -m pip --quiet install --no-deps pycanon==1.3.5
	cd $(VENV)/lib/python*/site-packages && cp -r $(OF_THE_CORE) $(CURDIR)/$(@D)/lib/python*/site-packages/
	touch $@

# What the examples of schedules run under. dbanon itself is lent to them by the tests.
SCHEDULERS := build/schedulers
OF_DBANON := duckdb pandas pyarrow sqlalchemy alembic rich pydantic pyyaml
RUN_UNDER_dbt := 'dbt-core>=1.11,<1.12' dbt-duckdb dbt-postgres
RUN_UNDER_airflow := 'apache-airflow>=3.1,<4'

schedules: setup $(SCHEDULERS)/dbt/.done $(SCHEDULERS)/airflow/.done ## the examples of schedules, with dbt and Airflow
	.ci/prepare.sh postgres
	DBANON_SCHEDULERS=$(CURDIR)/$(SCHEDULERS) $(VENV)/bin/pytest tests/schedules tests/sql/test_cron.py $(PYTEST_ARGS)

$(SCHEDULERS)/%/.done:
	$(PYTHON) -m venv $(@D)
	$(STEP) "$* for the examples of schedules" $(@D)/bin/python -m pip install $(RUN_UNDER_$*) $(OF_DBANON)
	touch $@

# SUITE=trixie has Python 3.13 and PostgreSQL 17, SUITE=sid the newest of both.
test-postgres: ## all tests on another Debian suite, SUITE=bookworm, trixie or sid; as root on Debian
	.ci/suite.sh "$(SUITE)" $(PYTEST_ARGS)

# FAULTS=full for the long campaign; FAULTS_SEED and FAULTS_CASE repeat what a finding names.
faults: setup ## random tables and killed runs against an oracle of its own, in some fifteen minutes
	.ci/prepare.sh postgres
	.ci/prepare.sh mariadb
	$(VENV)/bin/python -m tests.faults

chains: setup ## chains at length: 1,000 random worlds, all small ones, killed runs; hours
	.ci/prepare.sh postgres
	CHAINS=full $(VENV)/bin/pytest -n $(WORKERS) tests/unit/test_chain_theorem.py \
	  tests/unit/test_chain_theorem_rows.py tests/unit/test_chain_returns.py tests/stores/test_chain_worlds.py tests/stores/test_chain_campaign.py $(PYTEST_ARGS)

sanitize: setup ## kernel tests under AddressSanitizer and UBSan, in a build of their own
	.ci/sanitize.sh $(VENV) build/sanitize

# -I: no variable of the environment chooses another dbanon.
bench: setup $(VENV)/.bench ## seconds, memory and loss side by side
	$(VENV)/bin/python -I -m benchmarks

picture: setup ## the pictures in docs again
	.ci/prepare.sh browser
	$(VENV)/bin/python -m tests.docs.house_picture
	$(VENV)/bin/python -m tests.docs.report_picture
	$(VENV)/bin/python -m tests.docs.workbench_picture
	$(VENV)/bin/python -m tests.docs.risk_pictures
	$(VENV)/bin/python -m benchmarks.synthesis_summary

site: setup $(VENV)/.docs ## the documentation as a website in build/site/html; warnings are errors
	$(VENV)/bin/python -m docs.site.build

lint: setup ## ruff, mypy, pyright, import-linter, wording
	@$(MAKE) --no-print-directory -j 4 --output-sync=target $(LINTS)

ruff-check:
	$(VENV)/bin/ruff check .

ruff-format:
	$(VENV)/bin/ruff format --check .

mypy basedpyright lint-imports:
	$(VENV)/bin/$@

wording:
	$(VENV)/bin/python -m tests.docs.words --check
	$(VENV)/bin/python -m tests.docs.names --check
	$(VENV)/bin/python -m tests.docs.house_picture --check

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build tools stay in the venv: building outside pip's isolation lets CMake compile only what changed.
# setuptools builds pyspark, which comes as source.
# The .pth file lets tests, benchmarks and examples import one another; dbanon itself is found by the
# editable install's own, which comes before any path.
$(VENV)/.base: pyproject.toml
	@PYTHON=$(PYTHON) .ci/prepare.sh build
	$(STEP) "a virtual environment in $(VENV)" $(PYTHON) -m venv $(VENV)
	$(STEP) "build tools" $(PIP) install --no-compile scikit-build-core nanobind cmake ninja 'setuptools>=70.1'
	@$(VENV)/bin/python -c 'import os, sysconfig; \
	  open(os.path.join(sysconfig.get_path("purelib"), "checkout.pth"), "w").write(os.getcwd() + "\n")'
	touch $@

# The install keeps a list of the modules: one that is added, moved or removed asks for another list.
# Not by the directories' times, which change with each __pycache__ and each file that an editor saves.
$(VENV)/.modules: FORCE | $(VENV)/.base
	@find dbanon -name '*.py' | sort | cmp -s - $@ || find dbanon -name '*.py' | sort >$@

# With what the demonstration needs; tests need more. Modules are compiled when they are first imported,
# which is a part of them: compiling all takes as long as unpacking them.
$(VENV)/.package: $(VENV)/.base $(VENV)/.modules $(CORE)
	$(STEP) "dbanon, whose core is compiled, and the packages of its demonstration" \
	  $(PIP) install --no-compile --no-build-isolation --editable '.[cli,duckdb,report]'
	@touch $@

# --use-pep517: pyspark comes as source without pyproject.toml, and older versions of pip would run its setup.py in a
# way that they themselves warn about.
# pycanon, a witness of the tests, pins an old numpy, but works with the newest.
$(VENV)/.dev: pyproject.toml | $(VENV)/.package
	$(STEP) "tools and libraries for development and tests" \
	  $(PIP) install --no-build-isolation --use-pep517 --editable '.[dev]'
	$(STEP) "pycanon, for the tests" $(PIP) install --no-deps pycanon==1.3.5
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.package
	$(STEP) "tools for the website" $(PIP) install --no-build-isolation --editable '.[docs]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.package
	$(STEP) "libraries for benchmarks" $(PIP) install --no-build-isolation --editable '.[bench]'
	@touch $@
