# `make demo` and `make test` do all the set-up.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# Compile on all cores; pip would use one. Files for other Python versions may fail.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true

.PHONY: demo test check test-slow fuzz docs lint format clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp
	$(BIN)/discrepant demo -o demo --overwrite

test: .venv/dev.stamp
	$(MAKE) --no-print-directory -j 2 lint check

check: .venv/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/dev.stamp docs
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m law --hypothesis-profile=long -n 2 --dist worksteal

fuzz: .venv/dev.stamp
	$(BIN)/python tools/fuzz.py --kind all --seconds 30

docs: .venv/docs.stamp
	MPLBACKEND=agg $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_ext/links.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing discrepant into .venv ..."
	$(INSTALL) --editable ".[restore]"
	$(COMPILE)
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing discrepant and its development tools into .venv ..."
	$(INSTALL) --editable ".[dev]"
	$(COMPILE)
	@touch $@ .venv/demo.stamp

.venv/docs.stamp: .venv/dev.stamp
	@echo "Installing the documentation tools into .venv ..."
	$(INSTALL) --editable ".[dev,docs]"
	$(COMPILE)
	@touch $@

clean:
	rm -rf .venv demo build dist docs/_build docs/api docs/gallery docs/recorded.md docs/recorded.png .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
