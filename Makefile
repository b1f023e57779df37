# Every target works from a clean clone with only make and Python 3.11 or newer: it creates .venv,
# installs the packages that it needs in the versions of constraints.txt, and runs.
#
#   make PYTHON=python3.12 test     use another Python, for a .venv that does not exist yet
#   make PIP_FLAGS= test            show the output of pip

PYTHON ?= python3
PIP_FLAGS ?= -qq
WORKERS ?= auto
ARGS ?=

VENV := .venv
PEER := .venv-rlberry
SB3 := .venv-sb3
SBX := .venv-sbx
BIN := $(VENV)/bin
PIP_INSTALL = -m pip install --disable-pip-version-check --no-warn-conflicts $(PIP_FLAGS)
# Without stored bytecode every process of the tests, and they start many, compiles narl again. A
# worker gets tests that stand together, because they share what is compiled, and then takes others.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test check coverage format docs docs-check bench-tabular bench-deep faults clean distclean
.PHONY: format-check lint types test-fast test-slow

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## Fig. 1(a) at the paper's scale, NARL and MBPO with one seed, the report
	@echo "Fig. 1(a), every agent with 20 seeds: about a minute on two quiet cores."
	@echo "Then NARL and MBPO are trained on InvertedPendulum, one seed each: a few minutes."
	@echo "After Ctrl-C, make demo continues where it stopped."
	$(BIN)/narl reproduce fig1a --scale paper --results demo
	$(BIN)/narl reproduce fig3a --scale small --results demo
	$(BIN)/narl report --also demo --out demo/report.html
	@echo "The report is $(CURDIR)/demo/report.html"

# `make check test` runs the fast tests only once, because both targets depend on test-fast.
test: test-fast test-slow ## all tests

check: format-check lint types docs-check test-fast ## format, lint, types, generated pages, fast tests

coverage: $(VENV)/.dev ## all tests, with the branch coverage of src/narl
	$(PYTEST) -m "not slow" --cov=narl --cov-branch --cov-report= $(ARGS)
	$(PYTEST) -m slow --cov=narl --cov-branch --cov-append --cov-report=term:skip-covered $(ARGS)

format-check: $(VENV)/.dev
	$(BIN)/python -m ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/python -m ruff check .

types: $(VENV)/.dev
	$(BIN)/python -m mypy

docs-check: $(VENV)/.dev
	$(BIN)/python -m narl.paper --check docs/paper-map.md
	$(BIN)/python docs/make_options.py --check
	$(BIN)/python docs/make_claims.py --check
	$(BIN)/python docs/make_pictures.py --check

test-fast: $(VENV)/.dev
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow $(ARGS)

format: $(VENV)/.dev ## rewrite the files as `make check` wants them
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

docs: $(VENV)/.docs ## regenerate the generated pages and build the site into build/site
	$(BIN)/python -m narl.paper --write docs/paper-map.md
	$(BIN)/python docs/make_options.py --write
	$(BIN)/python docs/make_claims.py --write
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees -c docs . build/site
	@echo "The site is $(CURDIR)/build/site/index.html"

bench-tabular: $(VENV)/.runtime $(PEER)/.ready ## speed compared with rlberry, and growth of the time
	$(BIN)/python benchmarks/bench_tabular.py --peer-python $(PEER)/bin/python $(ARGS)

bench-deep: $(VENV)/.runtime $(SB3)/.ready $(SBX)/.ready ## speed of SAC compared with Stable-Baselines3 and SBX
	$(BIN)/python benchmarks/bench_deep.py --sb3-python $(SB3)/bin/python --sbx-python $(SBX)/bin/python $(ARGS)

faults: $(VENV)/.dev ## kill, damage and deceive narl in every way; prints what was survived (about 35 minutes)
	$(BIN)/python tests/faults/run_faults.py $(ARGS)

clean: ## remove caches and build outputs
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also remove the virtual environments
	rm -rf $(VENV) $(PEER) $(SB3) $(SBX)

# --- virtual environments -------------------------------------------------------------------
# A stamp file marks an environment as complete. It contains the folder in which the environment was
# created, because scripts and editable installs refer to that folder. The file .unfinished marks an
# environment that must be created again: it exists while pip runs, and it is added when the
# checkout was moved or the environment's Python is missing.

unless_sound = $(shell [ ! -e $(1) ] || \
	{ [ "`cat $(1)`" = "$(CURDIR)" ] && $(dir $(1))bin/python -c '' 2>/dev/null; } || \
	{ rm -f $(1) && touch $(dir $(1)).unfinished; })
STAMPS := $(VENV)/.runtime $(VENV)/.docs $(VENV)/.dev $(PEER)/.ready $(SB3)/.ready $(SBX)/.ready
$(foreach stamp,$(STAMPS),$(call unless_sound,$(stamp)))

define make_venv
@if [ -e $(1)/.unfinished ] || ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
	fail() { echo "error: $$1" >&2; exit 1; }; \
	command -v $(PYTHON) >/dev/null || \
		fail "$(PYTHON) not found; narl needs Python >= 3.11: make PYTHON=/path/to/python3"; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		fail "narl needs Python >= 3.11, $(PYTHON) is `$(PYTHON) -V 2>&1`; name a newer one: make PYTHON=python3.11"; \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		fail "$(PYTHON) cannot make virtual environments; install the package python3-venv (Debian, Ubuntu: apt-get install python3-venv)"; \
	rm -rf $(1) && mkdir $(1) && touch $(1)/.unfinished && $(PYTHON) -m venv $(1); fi
@touch $(1)/.unfinished && rm -f $(1)/.runtime $(1)/.docs $(1)/.dev $(1)/.ready
@echo "installing $(2) into $(1) …"
endef

define finish_venv
@rm $(1)/.unfinished
@for stamp in $(2); do printf '%s\n' "$(CURDIR)" > $(1)/$$stamp; done
endef

$(VENV)/.runtime: pyproject.toml constraints.txt
	$(call make_venv,$(VENV),narl)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e .
	$(call finish_venv,$(VENV),.runtime)

$(VENV)/.docs: pyproject.toml constraints.txt
	$(call make_venv,$(VENV),narl and the tools for its site)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[docs]"
	$(call finish_venv,$(VENV),.runtime .docs)

$(VENV)/.dev: pyproject.toml constraints.txt
	$(call make_venv,$(VENV),narl and the tools for its tests)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
# bsuite is needed by one test; its plotting packages are not, so they are not installed.
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt --no-deps bsuite
	$(call finish_venv,$(VENV),.runtime .docs .dev)

# rlberry depends on Atari, OpenGL and more; the file lists only the packages that its UCBVI imports.
$(PEER)/.ready: benchmarks/constraints-rlberry.txt
	$(call make_venv,$(PEER),rlberry)
	@$(PEER)/bin/python $(PIP_INSTALL) --no-deps -r benchmarks/constraints-rlberry.txt
	$(call finish_venv,$(PEER),.ready)

# The dependencies of PyTorch differ between its builds, so pip resolves them; all other packages are
# in the list.
$(SB3)/.ready $(SBX)/.ready: .venv-%/.ready: benchmarks/constraints-%.txt
	$(call make_venv,.venv-$*,the peer $*)
	@.venv-$*/bin/python $(PIP_INSTALL) -c $< torch
	@.venv-$*/bin/python $(PIP_INSTALL) --no-deps -r $<
	$(call finish_venv,.venv-$*,.ready)
