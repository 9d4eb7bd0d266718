# `make run` and `make test` work on a machine that has only git, make and Python 3.11 or newer.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: run demo install test quick portable coverage check bench soak mutants compat docs dist clean

# An environment with the development tools is enough for `make run`; a new one gets only the broker.
RUNTIME := $(firstword $(wildcard $(VENV)/.installed) $(VENV)/.runtime)
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check

run: $(RUNTIME)
	$(BIN)/pykbroker serve --listen 127.0.0.1:9092

demo: install # a fleet of trucks: examples/fleet
	$(BIN)/python -m examples.fleet

install: $(VENV)/.installed

$(VENV)/.runtime: pyproject.toml | $(BIN)/python # with the client of examples/truck_positions.py
	$(PIP) --editable . kafka-python
	touch $@

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pykbroker needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check
	$(BIN)/pytest -n 2 --dist loadgroup

# Folders whose tests start many processes, other clients, Java, Go, Node or Spark.
HEAVY := $(addprefix --ignore=tests/,compat containers delivery portability end_to_end examples pipeline)

quick: install # run it at every save
	$(BIN)/pytest -n 2 --dist loadgroup -q -m "not slow and not oracle and not spark" $(HEAVY)

portable: install # run it on another version of Python: .ci/other-pythons
	$(BIN)/pytest -n 2 --dist loadgroup -q -m "not oracle and not spark" $(HEAVY)

coverage: install # `make portable` with a floor for each package: .ci/coverage_floors.toml
	mkdir -p build/coverage
	$(BIN)/pytest -n 2 --dist loadgroup -q -m "not oracle and not spark" $(HEAVY) \
	  --cov --cov-report=json:build/coverage/report.json
	$(BIN)/python .ci/coverage_floors.py build/coverage/report.json

bench: install
	$(BIN)/python -m benchmarks

# SEEDS may be a number or a stretch: make soak SEEDS=20000-25000
soak: install
	SIMULATION_SEEDS=$(or $(SEEDS),1000) $(BIN)/pytest tests/simulation -k failures -n auto -q
	PYKBROKER_POWER_CUTS=$(or $(POWER_CUTS),10) $(BIN)/pytest tests/end_to_end/test_power_cuts.py -q -rs # root and loop devices
	PYKBROKER_CHAOS_SECONDS=$(or $(CHAOS_SECONDS),300) $(BIN)/pytest tests/cluster/test_chaos.py -q -rs # needs Java

# 24 mutants of a sample take about an hour: make mutants ARGS="--seed 7 --count 8 --rooms storage"
mutants: install
	$(BIN)/python -m benchmarks.mutants $(ARGS)

compat: install
	$(BIN)/pykbroker-compat run --report build/compat

docs: install # the generated pages, and the site in build/site with its links checked
	$(PIP) --editable '.[docs]'
	$(BIN)/python -m compat.command_line page
	$(BIN)/python -m pykbroker.apis.document > docs/supported-apis.md
	$(BIN)/python -m pykbroker.pipeline.declaration.document docs/pipelines.md
	$(BIN)/python -m pykbroker.settings.document > docs/properties.md
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet

dist: # sdist and wheel in dist/, each tested in a fresh environment
	PYTHON=$(PYTHON) .ci/dist

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
