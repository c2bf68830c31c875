# Everything runs in .venv, which the first target that needs it creates.
# `make demo` and `make test` are all that a newcomer has to know.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed in .venv so far: the command, then what the tests need, then what the docs need.
COMMAND_READY := $(VENV)/.command-ready
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --compile --editable

# Two test processes share the cores; a BLAS pool in each would only make them wait for each other.
# A test that takes minutes hangs: the stacks of all threads are shown, and after a second try the run ends.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 \
	--dist loadgroup --timeout 300 --timeout-method thread --max-worker-restart 1

.PHONY: help setup demo test coverage test-slow test-lowest check lint types doctest docs format bench bench-keep \
	bench-label-ranking fuzz reproduce reproduce-full clean

help:
	@echo "make demo         duels and baselines on the digits data: a table, and output/demo.png"
	@echo "make test         run the tests"
	@echo "make check        ruff, mypy, doctests, and the tests, with their coverage from Python 3.12 on"
	@echo "make test-slow    the tests that take minutes"
	@echo "make test-lowest  the tests with the lowest supported versions"
	@echo "make docs         build the pages, the gallery included, into output/docs/html"
	@echo "make bench        measurements against peers, and a page: output/benchmarks/benchmarks.md"
	@echo "make bench-label-ranking  the field of label ranking on 28 sets: hours, can be stopped"
	@echo "make fuzz         strange files, tables and numbers for minutes; SEED=1 CASES=10000 or MINUTES=60"
	@echo "make reproduce    the paper's figures and tables, from seeds"
	@echo "make format       let ruff rewrite what it can"

setup: $(READY)

$(COMMAND_READY): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "duelrank needs Python 3.11 or newer; name one with: make PYTHON=python3.11"; exit 1; }
	@echo "setting up $(VENV): this takes a minute, once"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[cli]'
	$(BIN)/python -m compileall -q src
	@touch $@

$(READY): $(COMMAND_READY)
	@echo "installing what the tests need: this takes a minute or two, once"
	$(INSTALL) '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(INSTALL) '.[dev,docs]'
	@touch $@

demo: $(COMMAND_READY)
	$(BIN)/duelrank evaluate --figure output/demo.png

test: $(READY)
	$(PYTEST) -m "not slow"

# The same tests; at the end, every file with lines that no test has run. There is no threshold.
coverage: $(READY)
	$(PYTEST) -m "not slow" --cov --cov-report=term-missing:skip-covered

test-slow: $(READY)
	$(PYTEST) --timeout 7200 -m slow

# With coverage where it costs next to nothing: Python 3.11 needs half as much time again.
check: lint types doctest
	$(MAKE) $$($(BIN)/python -c 'import sys; print("coverage" if sys.version_info >= (3, 12) else "test")')

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

doctest: $(READY)
	$(BIN)/python -m pytest -q --doctest-modules src
	$(BIN)/python -m pytest -q --doctest-glob='*.md' README.md $(wildcard docs/*.md docs/how_to/*.md)

# The gallery runs examples/plot_*.py without the network; a warning fails the build.
docs: $(DOCS_READY)
	rm -rf docs/api docs/gallery
	OPENBLAS_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python -m sphinx -W --keep-going -n -q \
		-d output/docs/doctrees docs output/docs/html
	@echo "output/docs/html/index.html"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A run is added to those in output/benchmarks; the page has the range of every ratio over all of them.
bench: $(READY)
	$(BIN)/python benchmarks/run.py

# The runs in output/benchmarks become benchmarks/results.json and results.md, and README's table.
bench-keep: $(READY)
	$(BIN)/python benchmarks/run.py --keep --readme

# Minutes by default. Every case is determined by its kind, the seed and a number; finds go to
# output/fuzz, with the command that runs them again.
SEED ?= 0
JOBS ?= 2
fuzz: $(READY)
	$(BIN)/python -m fuzz $(KINDS) --seed $(SEED) --jobs $(JOBS) \
		$(if $(CASES),--cases $(CASES)) $(if $(MINUTES),--minutes $(MINUTES))

# All of these can be stopped and go on where they stopped.
bench-label-ranking: $(READY)
	$(BIN)/python -m experiments label_ranking

reproduce: $(READY)
	$(BIN)/python -m experiments

reproduce-full: $(READY)
	$(BIN)/python -m experiments --full

test-lowest:
	test -d .venv-lowest || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		numpy==1.26.0 scipy==1.11.2 scikit-learn==1.6.0 joblib==1.3.0 threadpoolctl==3.1.0 matplotlib==3.8.0 pandas==2.1.1 \
		networkx==3.2 rich==13.0.0 hypothesis==6.90.0 pytest==8.0.0 pytest-xdist==3.5.0
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n auto --maxprocesses 4 --dist loadgroup -m "not slow"
	test -d .venv-lowest-cli || $(PYTHON) -m venv .venv-lowest-cli
	.venv-lowest-cli/bin/python -m pip install --quiet --disable-pip-version-check \
		numpy==1.26.0 scipy==1.11.2 scikit-learn==1.7.0 joblib==1.4.0 threadpoolctl==3.1.0 matplotlib==3.8.0 pandas==2.1.1 \
		click==8.1.0 rich==13.0.0 pyarrow==14.0.1 narwhals==1.30.0 skops==0.16.0 \
		'dask[array,dataframe,distributed]==2024.1.1' \
		hypothesis==6.90.0 pytest==8.0.0 pytest-xdist==3.5.0
	.venv-lowest-cli/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv-lowest-cli/bin/python -m pytest -n auto --maxprocesses 4 --dist loadgroup -m "not slow" \
		tests/storage tests/tables tests/cli/test_cli.py tests/preprocessing tests/test_evaluation.py \
		tests/blocks/test_blocks.py tests/blocks/test_blocks_ranking.py tests/blocks/test_cluster.py \
		tests/duels/logistic tests/duels/test_estimator_duels_dask.py

clean:
	rm -rf $(VENV) .venv-lowest .venv-lowest-cli output docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
