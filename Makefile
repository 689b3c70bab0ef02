# Everything runs in a virtual environment of its own, made from PyPI on first use; no root needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the demo and campaigns of benches need, and on top of that what proofs, networks, plots and tests need.
READY := $(VENV)/ready
READY_TEST := $(VENV)/ready-test

# Compiled modules are kept: where they are not, each of the suite's thousands of processes compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo soc-demo test suite lint docs prove mutate soak traces evaluate nightly clean

demo: $(READY)
	$(BIN)/tensordash demo

# Networks train on a simulated system without a host, a new batch in each step. Exit status 0: all tensors of all steps equal the emulator's.
STEPS ?=
JSON ?=
soc-demo: $(READY_TEST)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/soc.py $(if $(STEPS),--steps $(STEPS)) $(if $(JSON),--json $(JSON))

# The checker of types has one core for a minute: the suite has the other one.
test: $(READY_TEST)
	$(MAKE) --no-print-directory -j 2 lint suite

suite: $(READY_TEST)
	$(BIN)/python -m pytest -n 2 -q -m "not slow"

lint: $(READY_TEST)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The site, in build/site.
docs: $(READY_TEST)
	$(BIN)/python -m sphinx -b html -W --keep-going docs build/site
	@echo "Open build/site/index.html"

# Answers are kept in build/prove: a run that was interrupted goes on where it was. `make clean` forgets them.
prove: $(READY_TEST)
	$(BIN)/tensordash prove --all -o build

# Answers are kept in build/mutate and build/mutate-by-hand, too.
mutate: $(READY_TEST)
	$(BIN)/tensordash mutate --by-hand -o build
	$(BIN)/tensordash mutate --all -o build

# Networks in training, recorded once: one that is there stays. Ten minutes, with `tensordash data fetch` on real data.
NETWORKS := squeezenet vgg16 resnet50 resnet50-sparse img2txt snli bert detectron2 ncf gcn gpt

# A dense GPT with each activation, with values: what number formats make of them.
ACTIVATIONS := gelu relu relu2

traces: $(NETWORKS:%=build/traces/%.trace) $(ACTIVATIONS:%=build/traces/values/gpt-%.trace)

build/traces/%.trace: | $(READY_TEST)
	rm -rf build/traces/$*.partial
	$(BIN)/tensordash trace --model $* --steps 5 --every 25 -o build/traces/$*.partial
	mv build/traces/$*.partial $@

build/traces/values/gpt-%.trace: | $(READY_TEST)
	rm -rf build/traces/values/gpt-$*.partial
	$(BIN)/tensordash trace --model gpt --set sparsity=0 --set activation=$* --layer 'blocks.?.*' --values \
		--after 100 -o build/traces/values/gpt-$*.partial
	mv build/traces/values/gpt-$*.partial $@

# Answers are kept in build/evaluation: a run that was interrupted goes on where it was.
evaluate: $(READY_TEST) traces
	$(BIN)/tensordash evaluate --all --traces build/traces -o build/evaluation --page docs/evaluation-tables.md
	$(BIN)/python bench/evaluation_page.py

nightly: lint prove mutate soak
	$(PIP) --no-deps torchao==0.18.0
	$(PIP) --editable ".[fpga]"
	$(BIN)/python -m pytest -n 2 -q

# A campaign of its own every day; one that was interrupted goes on, with SEED=... on another day.
SEED ?= $(shell date +%Y%m%d)
soak: $(READY)
	$(BIN)/tensordash soak --seed $(SEED) --positions 100000000 --cover -o build/soak
	$(BIN)/tensordash soak --seed $(SEED) --cores 20 --positions 100000000 --descriptors 100000 --faults 10000 --cover -o build/soak

# pip shows what it installs. Wheels only, so that nothing is compiled (wavedrom, pure Python, has none: pip makes one, with
# pinned tools); bytecode comes as it is used.
PIP := PIP_CONSTRAINT=build-constraints.txt $(BIN)/pip install --disable-pip-version-check --no-compile \
	--only-binary :all: --no-binary wavedrom --use-pep517

# Of this wheel only CACTI's sources are read: neither what it needs nor the Python that it asks for matters.
CACTI := hwcomponents-cacti==1.0.40

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	@echo "Installing what simulation and synthesis need into $(VENV): 520 MB"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[synth,verify]"
	touch $@

$(READY_TEST): $(READY)
	@echo "Installing what the tests need into $(VENV): 2 GB more"
	$(PIP) --editable ".[test]"
	$(PIP) --no-deps --ignore-requires-python $(CACTI)
	touch $@

clean:
	rm -rf $(VENV) build dist
