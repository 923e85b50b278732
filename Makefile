# make run    sets up and opens the default experiment in the cockpit
# make test   sets up and passes the tests
# make test-all   runs what make test leaves out: terminals, disks, Slurm
# make check  ruff, mypy --strict, import contracts

# The first one that runs and is new enough; a name on PATH may be an empty shim.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEEDS ?= 2000
RACES ?= 1000
SETS ?= 5000
FUZZ ?= 1000
# More than cores: half of the time of a run is tests that wait for what they started.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); \
	echo $$((cores + (cores < 8 ? cores : 4))))
PYTEST_ARGS ?= -n $(WORKERS) --dist loadgroup
LEFT_OUT := slurm or pty or slow

.PHONY: run test test-all thorough check bench man simulate compare races fuzz test-agents screenshots clean help setup

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "make thorough     run all tests, 300 examples a property"
	@echo "make test-agents  call the codex of PATH, or CODEX=..., against a local server"
	@echo "make bench        measure, side by side with the references"
	@echo "make simulate     run the fault simulator (SEEDS=$(SEEDS))"
	@echo "make compare      compose sets of overrides both ways (SETS=$(SETS))"
	@echo "make races        race real processes for a session (RACES=$(RACES))"
	@echo "make fuzz         plan sweeps made at random (FUZZ=$(FUZZ))"
	@echo "make man          write manual pages and completions into build/shell"
	@echo "make screenshots  picture real runs into screenshots/"
	@echo "make clean        remove .venv and caches"

setup: $(READY)

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No CPython 3.11 or newer found. Install one, or: make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V 2>&1); CPython 3.11 or newer is needed. Try: make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) lacks venv. On Debian or Ubuntu: apt-get install python3-venv; then run make again."; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) -V) (once; about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || { \
	  echo "Installing the dependencies failed; the lines above say why. Nothing else was changed. Run make again."; exit 5; }
	@touch $(READY)

run: $(READY)
	@$(BIN)/autoexp-tui --config-ref exp

test: $(READY)
	@echo "Running the tests ..."
	@$(BIN)/python -m pytest -m "not ($(LEFT_OUT))" $(PYTEST_ARGS)

test-all: $(READY)
	@echo "Running the tests that make test leaves out ..."
	@$(BIN)/python -m pytest -m "$(LEFT_OUT)" $(PYTEST_ARGS)

test-agents: $(READY)
	@$(BIN)/python -m tests.agents.real_codex

thorough: $(READY)
	@$(BIN)/python -m pytest --hypothesis-profile=thorough $(PYTEST_ARGS)

check: $(READY)
	@echo "ruff" && $(BIN)/ruff format --check --quiet src tests screenshots && $(BIN)/ruff check --quiet src tests screenshots
	@echo "mypy --strict" && $(BIN)/mypy
	@echo "import contracts" && $(BIN)/lint-imports

bench: $(READY)
	@for bench in tests/bench/bench_*.py; do echo "== $$bench"; \
	  $(BIN)/python -m "tests.bench.$$(basename $$bench .py)" || exit 1; done

simulate: $(READY)
	@$(BIN)/python -m tests.support.simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.support.simulation --seeds $(SEEDS) --kind tree
	@$(BIN)/python -m tests.support.simulation --seeds $(SEEDS) --kind research

compare: $(READY)
	@$(BIN)/python -m tests.config.compose_sets --sets $(SETS)

races: $(READY)
	@RACES=$(RACES) $(BIN)/python -m pytest -q -m slow -o timeout=0 tests/storage/test_lease.py \
		tests/cli/test_tree_races.py

fuzz: $(READY)
	@AUTOEXP_FUZZ=$(FUZZ) $(BIN)/python -m pytest -q tests/sweep/test_sweeps_at_random.py

man: $(READY)
	@mkdir -p build/shell/man1 build/shell/bash build/shell/zsh
	@for command in $(BIN)/autoexp-*; do name=$$(basename $$command); \
	  $$command --print-completion man > build/shell/man1/$$name.1 && \
	  $$command --print-completion bash > build/shell/bash/$$name && \
	  $$command --print-completion zsh > build/shell/zsh/_$$name || exit 1; done
	@echo "build/shell holds the manual pages and completions"

screenshots: $(READY)
	@$(BIN)/python screenshots/make.py

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
