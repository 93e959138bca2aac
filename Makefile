# Two commands do everything: `make demo` and `make test`. Each installs what it needs and works when run again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each has a control plane of its own; tests wait, too, so three more than there are cores use all of these.
TEST_PROCESSES ?= $(shell expr $$(nproc) + 3)
INSTALLED := $(VENV)/.installed
# SEED repeats the random choices of a run, which prints its seed; PYTEST_ARGS are more of pytest's arguments.
PYTEST = $(BIN)/pytest -rs --numprocesses $(TEST_PROCESSES) --dist loadfile $(if $(SEED),--seed=$(SEED)) $(PYTEST_ARGS)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Hundreds of processes are started here: without cached bytecode each compiles what it imports, for half a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-programs test-fast test-all test-node test-managers check lint prose types layers collected generated binaries bench test-charts mutants fuzz audit generate image docs release requirements clean

help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(INSTALLED) ## bring up a workload cluster, upgrade its addons, delete it; about a minute once binaries are cached
	$(BIN)/capi-functions demo

test: $(INSTALLED) test-programs check binaries ## all checks and all tests, functions killed at a sample of their writes: what a change must pass
	$(PYTEST)

test-fast: $(INSTALLED) check ## all checks, the unit tests, one journey on a real API server: about a minute
	$(BIN)/python -m infra.local_control_plane.binaries etcd kube-apiserver
	$(PYTEST) tests/e2e/test_journey.py tests/unit

test-all: $(INSTALLED) test-programs check binaries ## all checks and all tests, functions killed at each of their writes, more chaos: about an hour
	$(PYTEST) --exhaustive
	$(BIN)/python -m tests.abuse.fuzz --seconds 20

test-programs: ## install the programs of Debian that tests run, as root; name those that are missing elsewhere
	@sh infra/test_programs.sh

test-node: $(INSTALLED) binaries ## the image and the manifests in pods of a real node; needs root on Debian, skipped with a reason elsewhere
	$(BIN)/python -m infra.node --prepare --knative
	$(BIN)/pytest -rP $(PYTEST_ARGS) tests/node

test-managers: $(INSTALLED) binaries ## managers of other projects, built from their Go modules: 20 minutes of CPU time, once
	$(BIN)/pytest -rP $(PYTEST_ARGS) tests/managers

check: $(INSTALLED) ## lint, sentences, types, layers, generated files, tests that can be imported
	@$(MAKE) --no-print-directory --jobs $$(nproc) --output-sync types collected lint prose layers generated

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

prose: $(INSTALLED)
	$(BIN)/python -m tests.support.prose

types: $(INSTALLED)
	$(BIN)/mypy

layers: $(INSTALLED)
	$(BIN)/lint-imports --no-cache

# Also spares the worker processes: each would compile all the test files of a fresh clone itself.
collected: $(INSTALLED)
	@echo "$(BIN)/pytest --collect-only"
	@$(BIN)/pytest --collect-only -qq >$(VENV)/collected || { sed '/^tests.*: [0-9]*$$/d' $(VENV)/collected; exit 1; }

generated: $(INSTALLED)
	$(BIN)/python -m infra.generate --check
	$(BIN)/python -m infra.demo.build --check
	$(BIN)/python -m tests.support.messages --check

binaries: $(INSTALLED) ## get the executables that tests run, once; pytest alone would do it without a word
	$(BIN)/python -m infra.local_control_plane.binaries

bench: $(INSTALLED) ## print the figures of tests/bench
	$(BIN)/python -m tests.bench

test-charts: $(INSTALLED) ## install, upgrade, roll back and remove the charts of a folder beside the helm program; CHARTS=
	$(BIN)/python -m tests.support.published_charts $(CHARTS)

mutants: $(INSTALLED) ## change rules at random, print which changes no unit test notices; SEED= N= MODULES=
	$(BIN)/python -m tests.support.mutants $(if $(SEED),--seed=$(SEED)) $(if $(N),--number=$(N)) $(MODULES)

fuzz: $(INSTALLED) ## run the parsers of outside input under a coverage-guided fuzzer; SECONDS_EACH= PARSERS=
	$(BIN)/python -m tests.abuse.fuzz $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(PARSERS)

audit: $(INSTALLED) ## known vulnerabilities, licences and changes of what the image consists of; SINCE=
	$(BIN)/python -m infra.audit $(if $(SINCE),--since $(SINCE))

generate: $(INSTALLED) ## write CRDs, Knative manifests, docs tables and demo releases anew
	$(BIN)/python -m infra.generate
	$(BIN)/python -m infra.demo.build

image: $(INSTALLED) ## write the image of all functions to out/capi-functions.tar, without docker or podman
	$(BIN)/python -m infra.image build

docs: $(INSTALLED) ## build the documentation site to out/site/html
	$(BIN)/uv pip install --quiet --requirement infra/site/requirements.txt
	$(BIN)/python -m infra.site

release: $(INSTALLED) ## write all that a version publishes to out/release; IMAGE= names the image's repository
	$(BIN)/python -m infra.publishing $(if $(IMAGE),--image $(IMAGE))

COMPILE = $(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --generate-hashes --python-version 3.11

requirements: $(INSTALLED) ## pin the newest versions that fit pyproject.toml, and the newest packages of the image
	$(COMPILE) --upgrade --extra dev --output-file infra/requirements.txt pyproject.toml
	$(COMPILE) --extra tracing --constraint infra/requirements.txt --output-file infra/image/requirements.txt pyproject.toml
	cd infra/site && $(CURDIR)/$(COMPILE) --constraint ../requirements.txt --output-file requirements.txt requirements.in
	$(BIN)/python -m infra.image lock

clean: ## remove the environment and local runs; caches of built binaries stay
	-$(BIN)/capi-functions down
	rm -rf $(VENV) .capi-functions *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(INSTALLED): pyproject.toml infra/requirements.txt infra/bootstrap.sh
	PYTHON=$(PYTHON) sh infra/bootstrap.sh $(VENV)
	@touch $@
