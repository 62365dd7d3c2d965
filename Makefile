# `make demo` and `make test` are all the set-up there is.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test test-slow fuzz lint format clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp
	$(BIN)/discrepant demo -o demo --overwrite

test: .venv/dev.stamp lint
	$(BIN)/python -m pytest -n 2

test-slow: .venv/dev.stamp
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m law --hypothesis-profile=long -n 2

fuzz: .venv/dev.stamp
	$(BIN)/python tests/fuzz.py --kind all --seconds 30

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
	$(INSTALL) --editable ".[plot,restore]"
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing discrepant and its development tools into .venv ..."
	$(INSTALL) --editable ".[dev]"
	@touch $@ .venv/demo.stamp

clean:
	rm -rf .venv demo build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
