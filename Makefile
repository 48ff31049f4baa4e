# The words to learn: setup check test demo bench eval. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
STAMP := build/setup.stamp
PROTOS := $(wildcard proto/muniment/v1/*.proto)
ENGINES := build/engines.stamp

.PHONY: help setup check test demo bench eval clean
help:
	@echo "setup  virtual environment, pinned dependencies, stubs, engines"
	@echo "check  ruff, mypy, buf, regal, opa, import-linter"
	@echo "test   every test, on real engines"
	@echo "demo   the main job, from nothing to evidence and a checked answer"
	@echo "bench  ratios, to build/bench.json (ONLY=prefix runs a part)"
	@echo "eval   quality, to build/eval.json (ONLY=prefix runs a part)"

setup: $(ENGINES)

$(STAMP): requirements-dev.txt pyproject.toml proto/pyproject.toml proto/hatch_build.py $(PROTOS)
	@mkdir -p build
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e proto -e .
	@touch $@

$(ENGINES): $(STAMP) deploy/engines/pins.toml
	$(BIN)/muniment engines build
	@touch $@

check: $(ENGINES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir build/import-linter
	cd proto && ../$(BIN)/buf lint
	$(BIN)/muniment engines run opa -- check --strict policy/bundle
	$(BIN)/muniment engines run opa -- test policy/bundle
	$(BIN)/muniment engines run regal -- lint policy/bundle

test: $(ENGINES)
	$(BIN)/python -m pytest

demo: $(ENGINES)
	$(BIN)/muniment demo

bench: $(ENGINES)
	$(BIN)/python -m loadtests.bench $(if $(ONLY),--only $(ONLY))

eval: $(ENGINES)
	$(BIN)/python -m evaluation $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf build .venv
