# Every target sets itself up: Python 3.11 or newer with venv is all that a fresh machine needs.
# The set-up lives in .venv and is repeated only when pyproject.toml or the lock changes. What develops and tests clearfold
# is pinned with checksums in requirements-dev.lock; the demo installs as a user would, by the ranges of pyproject.toml.

PYTHON ?= python3
WORKERS ?= auto
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=

BIN := .venv/bin
# The stamp carries this folder's checksum: a copied or moved folder is set up again, or it would run the old one's code.
READY := .venv/.ready-$(shell pwd | cksum | cut -d ' ' -f 1)
LOCK := $(if $(shell command -v flock 2>/dev/null),flock .venv.lock)

# One thread for each worker: linear algebra would otherwise start as many threads as cores in every worker.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Runs under a lock, so that two set-ups at once wait for each other; the stamp is written last, so that an
# interrupted one is taken up again.
define SETUP
stamp="$(READY)-$$1"
if [ "$$stamp" -nt pyproject.toml ] && [ "$$stamp" -nt requirements-dev.lock ]; then exit 0; fi
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "clearfold needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then
  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || {
    echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
  $(PYTHON) -m venv --clear .venv
fi
echo "Setting up .venv with clearfold[$$1]; this takes a minute or two, once."
pip="$(BIN)/python -m pip --disable-pip-version-check install --quiet"
if [ "$$1" = dev ]; then
  $$pip --require-hashes --requirement requirements-dev.lock
  $$pip --no-deps --no-build-isolation --editable .
else
  $$pip --editable ".[$$1]"
fi
touch "$$stamp"
endef
export SETUP

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-quick soak fuzz lock docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY)-all ## the first look: a map, a ranking, an archive, a report, and the page over it
	$(BIN)/clearfold demo $(DEMO_ARGS)

test: $(READY)-dev ## all tests, doctests and documentation examples
	$(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

lint: $(READY)-dev ## style, format and types
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

bench: $(READY)-dev ## all benchmarks (long)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-quick: $(READY)-dev ## the benchmarks in small
	$(BIN)/python -m benchmarks --quick $(BENCH_ARGS)

fuzz: $(READY)-dev ## every reader, 100,000 inputs each (hours)
	$(BIN)/python -m fuzz --all --runs 100000

soak: $(READY)-dev ## an hour of indexing and querying: memory and files must not grow
	$(BIN)/python -m benchmarks.soak --minutes 60

lock: $(READY)-dev ## pin what develops and tests clearfold anew, with checksums
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header --upgrade --quiet --output-file requirements-dev.lock

docs: $(READY)-dev ## the documentation, into site/
	$(BIN)/python -m mkdocs build --strict

clean: ## remove all that these targets made, .venv included
	rm -rf .venv .venv.lock build clearfold-demo dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples fuzz -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY)-%: pyproject.toml requirements-dev.lock
	@$(LOCK) sh -euc "$$SETUP" setup $*
