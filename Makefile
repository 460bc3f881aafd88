# `make demo` runs the main job, `make test` runs every check; each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check-python lint types lit unit wheel setup

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "convir needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p .link && ln -sfn .. .link/convir
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,peers]'
	touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/pyright

lit: $(STAMP)
	$(BIN)/lit -q lit

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q
