# make demo and make test set everything up by themselves; the rest builds on the same .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

BASE_TESTS := tests/problems tests/test_config.py tests/test_io.py tests/test_plain_text.py tests/test_recipes.py

.PHONY: demo docs test test-base test-all chromium lint lint-page format lock bench clean

# The tour starts with the problems, which need no torch, while torch is being installed.
demo: $(VENV)/.base
	@$(BIN)/python docs/tour.py problems
	@$(MAKE) --no-print-directory $(VENV)/.all
	@$(BIN)/python docs/tour.py models

docs: $(VENV)/.docs
	@$(BIN)/python docs/build.py site

# Two worker processes: the suite is measured on two cores. Each starts with half of the tests, so
# that neighboring files share their fixtures; one that is done takes tests of the other.
# Only slow tests use schemathesis, and its plugin takes a second to load in each process.
# Tests start hundreds of processes: where Python writes no bytecode, each would compile the package.
test: $(VENV)/.dev chromium
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal -p no:schemathesis

# What runs without torch, for instance on another Python: make test-base PYTHON=python3.13 VENV=.venv-3.13
test-base: $(VENV)/.base
	@$(PIP) pytest hypothesis
	$(BIN)/python -m pytest -q $(BASE_TESTS)

# Fuzzing is guided by coverage where atheris is available, and random elsewhere.
test-all: $(VENV)/.dev chromium
	@$(PIP) --editable '.[fuzz]' || echo "no atheris for this Python: random fuzzing"
	$(BIN)/python -m pytest -q -m ""

# The page is tested in a real browser. Nothing is installed on the system unless BROWSER=install asks for it.
chromium:
	@if command -v chromium >/dev/null; then :; \
	elif test "$(BROWSER)" = install; then \
	  { apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium; } >/dev/null 2>&1 \
	  || echo "chromium could not be installed: the tests that need a browser are skipped"; \
	else echo "chromium is not installed: skipping the tests that need a browser (on Debian, as root: make test BROWSER=install)"; fi

lint: $(VENV)/.dev lint-page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_words.py
	$(BIN)/lint-imports --no-logo

# Types, format and line length of the page's JavaScript and CSS. Only development needs npm: the page has no build.
lint-page:
	@if command -v npm >/dev/null; then \
	  $(MAKE) --silent --no-print-directory node_modules/.installed && npm run --silent lint; \
	else echo "npm is not installed: skipping the checks of the page's JavaScript and CSS"; fi

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if command -v npm >/dev/null; then \
	  $(MAKE) --silent --no-print-directory node_modules/.installed && npm run --silent format; \
	else echo "npm is not installed: not formatting the page's JavaScript and CSS"; fi

# Hashes of all packages, for pip install --require-hashes on Linux, x86-64, with CPython 3.11. torch is the build without
# CUDA: uv must find it, for instance with UV_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu. That index has old builds of other
# packages as well; as pip does, uv chooses among those of all indexes.
UV ?= uv
lock:
	@for name in base all dev release; do \
	  case $$name in base) extras= ;; dev) extras="--extra all --extra dev" ;; *) extras="--extra $$name" ;; esac; \
	  $(UV) pip compile --quiet --upgrade --generate-hashes --no-annotate --index-strategy unsafe-best-match --custom-compile-command "make lock" \
	    --python-version 3.11 --python-platform x86_64-manylinux_2_28 --constraint constraints.txt \
	    pyproject.toml $$extras --output-file locks/$$name.txt || exit 1; \
	done

bench: $(VENV)/.dev
	$(BIN)/python bench/attention.py
	$(BIN)/python bench/multihead.py
	$(BIN)/python bench/classify.py
	$(BIN)/python bench/threads.py
	$(BIN)/python bench/check.py
	$(BIN)/python bench/saving.py
	$(BIN)/python bench/distributed.py

# The base install is what a learner gets: numpy alone. The stamp is written last, so that an
# interrupted install starts again.
$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "workings needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "python3 cannot make a virtual environment: apt install python3-venv" >&2; exit 1; }
	$(PIP) --editable .
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.all: $(VENV)/.base
	@echo 'installing torch and the other packages of the models: once, a few minutes'
	$(PIP) --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.all
	$(PIP) --editable '.[all,dev]'
	@touch $@

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache site
