# Every verb installs what it needs: a fresh clone with Python 3.11+, git and make is enough.

PYTHON ?= python3
# More than the cores of a small machine: many tests wait for children and servers. One less where lines are
# counted in every child, which keeps the cores busy.
JOBS ?= 4
COUNTING_JOBS ?= 3
ARGS ?=
QUICK ?=
BIN := .venv/bin

# Cold start counts here, so bytecode is always compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check fmt bench local-table docs dist lock clean

help:
	@echo "make setup     .venv with everything, and .venv/bin/strands"
	@echo "make demo      see it work"
	@echo "make test      check, then the tests"
	@echo "make test-all  the same with the long tests and the coverage floor"
	@echo "make check     format, lint, types, layers, house rules"
	@echo "make fmt       format, and fix what can be fixed"
	@echo "make bench     compare with the peers (QUICK=1 in three minutes; ARGS=all for our own budgets)"
	@echo "make local-table  evaluate the embedded model, and write its table in the docs"
	@echo "make docs      write the reference pages anew"
	@echo "make dist      build the wheel and the sdist into dist/"
	@echo "make lock      write the lock files anew (ARGS=--upgrade for newer versions)"
	@echo "make clean     remove what the other verbs made"

setup: .venv/.ready

# uv where it is to be had, else pip: the same locked files with the same hashes.
.venv/.ready: requirements.lock requirements-uv.lock pyproject.toml
	@set -e; \
	new_enough='import sys; sys.exit(sys.version_info < (3, 11))'; \
	if ! $(BIN)/python -c "$$new_enough" >/dev/null 2>&1; then \
		python=; \
		for candidate in "$(PYTHON)" python3.13 python3.12 python3.11; do \
			if "$$candidate" -c "$$new_enough" >/dev/null 2>&1; then python=$$candidate; break; fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo "No Python 3.11 or newer: neither '$(PYTHON)' nor python3.13, python3.12, python3.11 is one." >&2; \
			echo "Install it, or say where it is: make setup PYTHON=/path/to/python3" >&2; \
			exit 1; \
		fi; \
		echo "Making .venv with $$python ..."; \
		"$$python" -m venv --clear .venv || { \
			echo "'$$python' could not make .venv. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	fi; \
	uv=$$(command -v uv || true); \
	if [ -z "$$uv" ]; then echo "Installing uv into .venv ..."; fi; \
	if [ -z "$$uv" ] && $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.lock; \
		then uv=$(BIN)/uv; fi; \
	echo "Installing the locked packages into .venv: up to a minute the first time ..."; \
	if [ -n "$$uv" ] \
		&& "$$uv" pip sync -q --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock \
		&& "$$uv" pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .; then :; else \
		echo "Installing with pip, which takes longer." >&2; \
		$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock; \
		$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi; \
	echo "Compiling ..."; \
	$(BIN)/python -m compileall -q src; \
	touch $@; \
	echo "Ready: $(BIN)/strands"

demo: setup
	@sh scripts/demo.sh

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/test_house.py

AFTER_CHECK := --ignore=tests/test_house.py

# The same order, examples and hashes every time: what passes once passes everywhere.
test: export PYTHONHASHSEED := 0
test: check
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not long" --randomly-seed=1 $(AFTER_CHECK) $(ARGS)

# Another order in each run, new examples and many more of them, the long tests, and the coverage floor.
# Counting lines in every child process costs a third of the time, so that only this verb does it.
test-all: export STRANDS_TEST_EXPLORE := 1
test-all: check
	$(BIN)/pytest --cov --cov-report=term-missing:skip-covered --cov-fail-under=90 -n $(COUNTING_JOBS) --dist worksteal --timeout=300 $(AFTER_CHECK) $(ARGS)

fmt: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup
	$(BIN)/python -m compileall -q src
	$(BIN)/python benchmarks/$(if $(ARGS),run.py $(ARGS),compare.py $(if $(QUICK),--quick))

# Exit code 1 says that cases have failed, which the table shows.
EVALS ?= tuning held-out
local-table: setup
	@set -e; mkdir -p benchmarks/results; for name in $(EVALS); do \
		$(BIN)/strands eval benchmarks/local_evals/$$name.yaml --jobs 1 --yes --json \
			> benchmarks/results/local-$$name.json || [ $$? = 1 ]; \
	done
	$(BIN)/python benchmarks/local_table.py $(EVALS)

docs: setup
	$(BIN)/python scripts/generate_reference.py

# The files carry the time of the last commit, so that everybody builds the same bytes.
dist: setup
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)} \
		$(BIN)/python -m hatchling build --clean $(ARGS)

# The locked uv makes the locks, so that two machines write the same file.
LOCK := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(LOCK) $(ARGS) requirements-uv.in -o requirements-uv.lock
	$(LOCK) $(ARGS) --all-extras --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .bench dist build htmlcov .coverage .coverage.* coverage.xml
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
