# Everything lives in .venv: no target installs anything outside of this folder.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
TEST_ARGS ?=
TEST_PROCESSES ?= 2
BENCH_ARGS ?=

.PHONY: help setup demo test test-jvm test-s3 check bench docs clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=python3.12 chooses the interpreter of the virtual environment,"
	@echo "  TEST_ARGS=tests/unit/expr the tests to run, TEST_PROCESSES=0 all of them in one process,"
	@echo "  BENCH_ARGS=--quick a shorter benchmark."

setup: $(READY) ## Make the virtual environment in .venv with everything installed

demo: $(READY) ## Run a pipeline on Spark and open its tables with DuckDB, Polars and deltalake
	@$(RUN) docs/examples/demo.py

test: $(READY) ## Run the tests; without Java those that need Spark are skipped, and under CI they fail
	@$(RUN) tests/java.py
	$(RUN) -m pytest -n $(TEST_PROCESSES) $(TEST_ARGS)

test-jvm: $(READY) ## Run the tests beside Delta on Spark; skipped where its jars cannot be fetched
	$(RUN) -m pytest tests/jvm -o timeout=900 $(TEST_ARGS)

test-s3: $(READY) ## Race writers on an object store, MinIO, which Go builds into build/ once; without Go this is skipped
	@$(RUN) tests/s3/minio.py -m s3 tests/concurrency tests/s3 $(TEST_ARGS)

check: $(READY) ## Lint, check formatting and types, hold the layers, report sizes
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest tests/architecture
	$(RUN) tests/architecture/sizes.py

bench: $(READY) ## Compare listing, row changes, engines and Hudi scans with other clients; prints ratios of one run
	$(RUN) tests/bench/listing.py $(BENCH_ARGS)
	$(RUN) tests/bench/changes.py $(BENCH_ARGS)
	$(RUN) tests/bench/index.py $(BENCH_ARGS)
	$(RUN) tests/bench/engines.py $(BENCH_ARGS)
	$(RUN) tests/bench/spark.py $(BENCH_ARGS)
	$(RUN) tests/bench/hudi.py $(BENCH_ARGS)
	$(RUN) tests/bench/hudi_listing.py $(BENCH_ARGS)

docs: $(READY) ## Run every command and every example of the README and the documentation
	$(RUN) -m pytest tests/docs

clean: ## Remove caches and build products; the virtual environment stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find tablespec engines tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(RUN) -m pip --version >/dev/null 2>&1 || { \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
			{ echo "tablespec needs Python 3.11 or newer; choose one with PYTHON=/path/to/python3.11"; exit 1; }; \
		$(PYTHON) -m venv --clear $(VENV); }
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(READY)
