# Everything runs in a virtual environment of its own, made from PyPI on first use; no root needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test lint prove mutate nightly clean

demo: $(READY)
	$(BIN)/tensordash demo

test: lint
	$(BIN)/python -m pytest -n 2 -q -m "not slow"

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Answers are kept in build/prove: a run that was interrupted goes on where it was. `make clean` forgets them.
prove: $(READY)
	$(BIN)/tensordash prove --all -o build

# Likewise in build/mutate. An 8-bit format, so that the proofs of the PE apply.
mutate: $(READY)
	$(BIN)/tensordash mutate --set tile.rows=2 --set tile.columns=1 --set tile.format=fp8_e5m2 -o build

nightly: lint prove mutate
	$(BIN)/python -m pytest -n 2 -q

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) build dist
