# Everything runs in a virtual environment of its own, made from PyPI on first use; no root needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test lint prove mutate soak traces evaluate nightly clean

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

# Likewise in build/mutate.
mutate: $(READY)
	$(BIN)/tensordash mutate --all -o build

# Networks in training, recorded once: one that is there stays. Ten minutes, with `tensordash data fetch` on real data.
NETWORKS := squeezenet vgg16 resnet50 resnet50-sparse img2txt snli bert detectron2 ncf gcn gpt

traces: $(NETWORKS:%=build/traces/%.trace)

build/traces/%.trace: | $(READY)
	rm -rf build/traces/$*.partial
	$(BIN)/tensordash trace --model $* --steps 5 --every 25 -o build/traces/$*.partial
	mv build/traces/$*.partial $@

# Answers are kept in build/evaluation: a run that was interrupted goes on where it was.
evaluate: $(READY) traces
	$(BIN)/tensordash evaluate --all --traces build/traces -o build/evaluation --page docs/evaluation.md

nightly: lint prove mutate soak
	$(BIN)/python -m pytest -n 2 -q

# A campaign of its own every day; one that was interrupted goes on, with SEED=... on another day.
SEED ?= $(shell date +%Y%m%d)
soak: $(READY)
	$(BIN)/tensordash soak --seed $(SEED) --positions 100000000 --cover -o build/soak

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) build dist
