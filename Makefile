# `make` alone lists what there is. Every target sets up what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Begun first, so that one of them is not what is waited for in the end; then every other folder and file of tests.
LONG_TESTS  := tests/terminal tests/faults tests/eagle3_tui tests/daemon
OTHER_TIERS := tests/sglang tests/trainers tests/benchmarks
OTHER_TESTS := $(filter-out $(LONG_TESTS) $(OTHER_TIERS) tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/))) \
               $(wildcard tests/test_*.py)

# Each of the hundreds of Pythons that the tests start would compile our modules anew, and each worker all test files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-sglang test-trainers lint type format bench docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## virtual environment with everything the demo and the tests need
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,speculators,dev]'
	@touch $@

demo: $(STAMP) ## the whole job on the embedded server, in the TUI (HEADLESS=1: without; so too without a terminal)
	$(BIN)/eagle3 demo $(if $(HEADLESS),--headless)

test: $(STAMP) ## all tests but those of the real SGLang and the trainers (under 5 minutes on 2 cores)
	$(BIN)/python -m pytest -n 3 --dist loadfile $(LONG_TESTS) $(OTHER_TESTS)

test-sglang: $(STAMP) ## the same job against the real SGLang on the CPU; builds its own environment (.venv-sglang)
	$(BIN)/python -m tests.sglang.environment
	$(BIN)/python -m pytest tests/sglang

test-trainers: $(STAMP) ## our stores, read by the trainers' own loaders; builds its own environment (.venv-trainers)
	$(BIN)/python -m tests.trainers.environment
	$(BIN)/python -m pytest tests/trainers

lint: $(STAMP) ## ruff: style, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(STAMP) ## mypy --strict
	$(BIN)/mypy

format: $(STAMP) ## put the code into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## benchmarks, as ratios against a baseline of the same run
	$(BIN)/python -m tests.benchmarks $(ONLY)

docs: $(STAMP) ## docs pages that are made from the code
	$(BIN)/eagle3 schema --markdown > docs/contracts.md

clean: ## remove environments and caches
	rm -rf $(VENV) .venv-sglang .venv-trainers .mypy_cache .ruff_cache build *.egg-info
