# Every command of the project; `make` alone lists them. Steps that have nothing to do cost nothing:
# each leaves a file in build/ that make compares with its sources.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory --no-builtin-rules

# The venv first (node may live there), then rustup's cargo, which a distribution's older one must not hide.
export PATH := $(CURDIR)/.venv/bin:$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
export PYTHONPATH :=
export STEP_RETRY := make $(or $(MAKECMDGOALS),build)

# Nothing built in such a folder could be preloaded.
ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)
ifneq ($(words [$(CURDIR)])$(findstring :,$(CURDIR)),1)
$(error This folder's path holds a blank or a colon, which LD_PRELOAD takes for the end of a name: $(CURDIR). Move the clone, then: $(STEP_RETRY))
endif
endif

STAMP := build/stamp
STEP := scripts/step.sh
FRONTEND := webapp/frontend

# What scripts/system.sh looks for: what `make build` cannot do without, then what the goal likes to have.
NEEDS := build $(if $(filter demo field field-findings,$(MAKECMDGOALS)),demo) $(if $(filter test test-site bench,$(MAKECMDGOALS)),demo test) \
	$(if $(filter test test-site bench stack soak soak-site field field-findings,$(MAKECMDGOALS)),site) $(if $(filter test-site field field-findings,$(MAKECMDGOALS)),field) \
	$(if $(filter bench,$(MAKECMDGOALS)),bench)

rust_files = $(shell find $(1) -type f \( -name '*.rs' -o -name '*.toml' \) 2>/dev/null)
TRACEPACK_SOURCES := Cargo.toml Cargo.lock compression/Cargo.toml $(call rust_files,compression/src)
TRACEPACK_PYTHON := compression/pyproject.toml $(shell find compression/python -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.py*' \))
AGENT_SOURCES := $(TRACEPACK_SOURCES) $(call rust_files,collectors/agent)
PRELOAD_SOURCES := $(shell find collectors/preload -type f \( -name '*.[chS]' -o -name '*.map' -o -name Makefile \) 2>/dev/null)
FRONTEND_SOURCES := $(shell find $(FRONTEND) \( -name node_modules -o -name dist \) -prune -o -type f -print 2>/dev/null)

# Of `make fuzz`, in seconds.
TIME := 60
FUZZ_TARGETS := block frame line message ring samples spool

# Of `make soak`.
KILLS := 30

# Of `make soak-machine`.
SCALE := 0.1
HOURS := 24

.PHONY: help demo stack stack-down field field-down field-findings servers test test-site soak soak-site soak-machine fuzz build dist lint lock bench clean system anew

help:
	@echo 'make demo               build everything, run real programs under watch, serve the pages'
	@echo 'make stack              start a miniature site on this machine: Elasticsearch, Redis, MySQL, log servers, server'
	@echo 'make stack-down         end it'
	@echo 'make field              start a miniature machine of real parts: nodes, Slurm, GlusterFS, slow disks, agents, server; as root'
	@echo 'make field-down         end it'
	@echo 'make test [LAYER=unit]  run the tests (layers: unit, integration, e2e)'
	@echo 'make test-site          run the longer tests: a whole site, a real batch system, Ansible'
	@echo 'make build              build everything that demo and test need'
	@echo 'make dist               pack what a site installs on its machines (docs/site.md) into build/dist'
	@echo 'make lint               check style and common mistakes, Python, Rust, C and TypeScript'
	@echo 'make bench [ONLY=name]  measure; writes bench/*.json and the tables in docs/performance.md'
	@echo 'make soak [KILLS=30]    kill agent, server and programs at random moments; every sum must stay exact'
	@echo 'make soak-site [KILLS=60]  the same with each process of a whole site'
	@echo 'make field-findings  what is found in runs of a real program on real servers, one of them slow; wants a machine with little else to do'
	@echo 'make soak-machine [SCALE=0.1 HOURS=24]  a virtual machine by the true agents; of each job is told what was so'
	@echo 'make fuzz TARGET=name [TIME=60]  search for inputs that break a reader: $(FUZZ_TARGETS)'
	@echo 'make lock               resolve the Python requirements anew'
	@echo 'make clean              remove everything that was built or installed here'

demo: build
	@exec bellrock demo $(ARGS)

stack: build
	@bellrock stack up $(ARGS)

stack-down: $(STAMP)/python
	@bellrock stack down $(ARGS)

field: build
	@python -m tests.field up $(ARGS)

field-down: $(STAMP)/python
	@python -m tests.field down

# Fetched before the tests, which have no time for it; those that need what cannot be had say so.
servers: $(STAMP)/python
	@bellrock stack fetch || echo 'Going on without: what needs them will be left out.'

test: build $(STAMP)/python-dev $(if $(filter unit,$(LAYER)),,servers)
	@python scripts/run_tests.py $(if $(LAYER),--layer $(LAYER))

test-site: dist $(STAMP)/python-dev $(STAMP)/ansible servers
	@python scripts/run_tests.py --layer site

lint: build $(STAMP)/python-dev
	@scripts/lint.sh

bench: build $(STAMP)/python-dev
	@python -m tests.bench $(ONLY)

soak: build $(STAMP)/python-dev
	@BELLROCK_KILLS=$(KILLS) BELLROCK_LOG_MIB=10240 python -m pytest -q -s tests/e2e/test_kills.py tests/e2e/test_lwfs_kills.py $(ARGS)

soak-site: build $(STAMP)/python-dev servers
	@BELLROCK_KILLS=$(if $(filter file,$(origin KILLS)),60,$(KILLS)) python -m pytest -q -s tests/site/test_kills.py $(ARGS)

field-findings: build $(STAMP)/python-dev servers
	@BELLROCK_FIELD_FINDINGS=1 python -m pytest -q tests/field/test_findings.py $(ARGS)

soak-machine: build $(STAMP)/python-dev
	@BELLROCK_MACHINE_SCALE=$(SCALE) BELLROCK_MACHINE_HOURS=$(HOURS) python -m pytest -q -s tests/e2e/test_machine.py $(ARGS)

fuzz: $(STAMP)/rust
	@scripts/fuzz.sh '$(TARGET)' '$(TIME)' $(FUZZ_TARGETS)

lock: | system
	@scripts/lock.sh $(ARGS)

build: $(STAMP)/python $(STAMP)/tracepack build/bellrock-agent build/libbellrock.so build/patterns build/mpi_checkpoint $(STAMP)/frontend

dist: build
	@scripts/dist.sh

clean:
	rm -rf build target fuzz/target .venv $(FRONTEND)/dist $(FRONTEND)/node_modules .pytest_cache .ruff_cache .hypothesis *.egg-info

system:
	@scripts/system.sh $(NEEDS)

# Python

# A stamp knows nothing of a .venv that was deleted, or that came along when the clone was moved or copied.
venv_is_here := $(shell head -n 2 .venv/bin/bellrock 2>/dev/null | grep -F '$(CURDIR)/.venv/bin/')

$(STAMP)/python: requirements.lock pyproject.toml scripts/python.sh $(if $(venv_is_here),,anew) | system
	@scripts/python.sh requirements.lock
	@mkdir -p $(@D) && touch $@

$(STAMP)/tracepack: $(TRACEPACK_PYTHON) $(TRACEPACK_SOURCES) $(STAMP)/rust $(STAMP)/python
	@$(STEP) tracepack-python 'Building tracepack for Python' \
		python -m pip install --no-deps --no-build-isolation --force-reinstall ./compression
	@touch $@

$(STAMP)/python-dev: requirements-dev.lock $(STAMP)/python
	@$(STEP) python-dev 'Installing the tools for tests and lint' \
		python -m pip install --require-hashes -r requirements-dev.lock
	@touch $@

# A venv of its own: what checks ansible/ is heavy.
$(STAMP)/ansible: requirements-ansible.lock $(STAMP)/python
	@rm -rf build/ansible
	@$(STEP) ansible 'Installing Ansible and its lint into build/ansible' \
		bash -c 'python -m venv build/ansible && build/ansible/bin/pip install --require-hashes -r requirements-ansible.lock'
	@touch $@

# Rust and C

# The oldest that will do is named in Cargo.toml.
$(STAMP)/rust: scripts/rust.sh Cargo.toml | system
	@scripts/rust.sh
	@mkdir -p $(@D) && touch $@

build/bellrock-agent: $(AGENT_SOURCES) $(STAMP)/rust
	@$(STEP) agent 'Building the agent' cargo build --release --locked -p bellrock-agent
	@install -m 755 target/release/bellrock-agent $@

# The C wrappers are linked with the first pass; how is told in their own Makefile.
build/libbellrock.so: $(TRACEPACK_SOURCES) $(PRELOAD_SOURCES) $(STAMP)/rust
	@$(STEP) tracepack 'Building the first pass' \
		cargo rustc --release --locked -p tracepack --features ffi --crate-type staticlib
	@$(STEP) preload 'Building the preload library' $(MAKE) -C collectors/preload BUILD=$(CURDIR)/build
	@touch $@

build/patterns: bellrock/demo/patterns.c | system
	@mkdir -p build
	@$(STEP) patterns 'Building the demo program' cc -O2 -Wall -pthread -o $@ $<

# Without Open MPI the demo does without its MPI program, so this target may stay unmade.
build/mpi_checkpoint: bellrock/demo/mpi_checkpoint.c | system
	@mkdir -p build
	@if command -v mpicc >/dev/null; then \
		$(STEP) mpi_checkpoint 'Building the MPI demo program' mpicc -O2 -Wall -o $@ $<; fi

# Pages

$(STAMP)/node: scripts/node.sh requirements-node.lock $(STAMP)/python
	@scripts/node.sh
	@touch $@

$(STAMP)/node_modules: $(FRONTEND)/package.json $(FRONTEND)/package-lock.json $(STAMP)/node
	@$(STEP) npm 'Installing what the pages are built with' npm --prefix $(FRONTEND) ci --no-audit --no-fund
	@touch $@

$(STAMP)/frontend: $(FRONTEND_SOURCES) $(STAMP)/node_modules
	@$(STEP) frontend 'Building the pages' npm --prefix $(FRONTEND) run build
	@rm -rf build/frontend && cp -r $(FRONTEND)/dist build/frontend
	@touch $@
