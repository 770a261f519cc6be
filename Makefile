# SPDX-License-Identifier: GPL-3.0-or-later
# `make help` lists what there is. Every target works from a fresh clone: it sets up what it needs first.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
VENV216 := .venv-core216
BIN := $(VENV)/bin
STAGES := $(BIN)/python tools/stages
INSTALLED := $(VENV)/.installed
INSTALLED216 := $(VENV216)/.installed
# A stage's own arguments, for one stage at a time: make test-unit ARGS='-k network -x'
ARGS ?=
SHARD ?= 1/1

.PHONY: help
help: ## this list
	@echo 'railwright: make TARGET'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(INSTALLED) ## the development environment in .venv (system packages too, when root)

# The collection as Python and Ansible look for it (dev-mode-dirs in pyproject.toml): a link, so that edits count.
LINK := .dev/ansible_collections/railwright/rdma
$(LINK):
	@mkdir -p $(@D)
	@ln -sfn ../../.. $@

$(INSTALLED): pyproject.toml constraints/dev.txt tools/venv tools/need | $(LINK)
	@tools/need python
	@tools/venv $(VENV) constraints/dev.txt test,dev
	@touch $@

$(INSTALLED216): pyproject.toml constraints/core216.txt tools/venv tools/need | $(LINK)
	@tools/need python
	@tools/venv $(VENV216) constraints/core216.txt compat
	@touch $@

.PHONY: demo
demo: $(INSTALLED) ## two bare virtual machines become a proven RDMA cluster
	@tools/need demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" tools/demo

.PHONY: test
test: $(INSTALLED) $(INSTALLED216) ## everything: sanity, lint, core216, newest, unit, faults, contract, integration, hostile, containers, fabric
	@tools/need browser containers demo kubectl manual network ssh unit
	@$(STAGES) sanity images lint core216 newest unit faults contract integration hostile containers fabric

.PHONY: lint
lint: $(INSTALLED) ## ruff, mypy, yamllint, ansible-lint, vermin
	@$(STAGES) lint

.PHONY: sanity
sanity: $(INSTALLED) ## ansible-test sanity on a copy of the collection
	@$(STAGES) sanity

.PHONY: test-unit
test-unit: $(INSTALLED) ## quick tests of functions on captured nodes
	@tools/need unit
	@$(STAGES) unit -- $(ARGS)

.PHONY: test-faults
test-faults: $(INSTALLED) ## single faults of healthy nodes, and inputs that cannot be read: what check, validate and drift say
	@tools/need unit
	@$(STAGES) faults -- $(ARGS)

.PHONY: test-contract
test-contract: $(INSTALLED) ## the rules of docs/architecture.md and the wheel
	@tools/need manual
	@$(STAGES) contract -- $(ARGS)

.PHONY: test-integration
test-integration: $(INSTALLED) ## the command line over real ansible-playbook runs on this machine
	@tools/need browser compiler kubectl network ssh
	@$(STAGES) integration -- $(ARGS)

.PHONY: test-hostile
test-hostile: $(INSTALLED) ## ten times the lies of make test, and a minute of fuzzing for each parser; SHARD=2/6 runs the second of six parts
	@RAILWRIGHT_LIES=10 RAILWRIGHT_FUZZ_SECONDS=60 $(STAGES) hostile-long -- --shard $(SHARD) $(ARGS)

.PHONY: test-core216
test-core216: $(INSTALLED) $(INSTALLED216) ## plugins and playbooks against ansible-core 2.16
	@$(STAGES) core216 -- $(ARGS)

.PHONY: test-newest
test-newest: $(INSTALLED) ## the same against the newest ansible-core; in a container of Debian 13 if Python is older than 3.12
	@tools/need containers
	@$(STAGES) newest -- $(ARGS)

.PHONY: test-containers
test-containers: $(INSTALLED) ## the quick scenarios: roles in systemd containers
	@tools/need containers
	@$(STAGES) containers -- $(ARGS)

.PHONY: test-fabric
test-fabric: $(INSTALLED) ## the product on Soft-RoCE virtual machines
	@tools/need demo
	@$(STAGES) fabric

.PHONY: test-scenarios
test-scenarios: $(INSTALLED) ## the long container scenarios; SHARD=2/4 runs the second of four parts
	@tools/need containers ssh
	@$(STAGES) scenarios -- --shard $(SHARD) $(ARGS)

.PHONY: test-lab
test-lab: $(INSTALLED) ## the long lab tests; SHARD=2/4 runs the second of four parts
	@tools/need containers demo lab
	@$(STAGES) lab -- --shard $(SHARD) $(ARGS)

.PHONY: rotate
rotate: ## mark the long test that ran longest ago for the next landing; ARGS=--left-out if the marked one did not run
	@tools/rotate $(ARGS)

.PHONY: test-editor
test-editor: $(INSTALLED) ## yaml-language-server and pre-commit on an inventory; needs the package indexes of Python and npm
	@tools/need editor
	@$(STAGES) editor -- $(ARGS)

.PHONY: wheel
wheel: $(INSTALLED) ## dist/*.whl, which carries the collection, and dist/railwright-check.pyz, which a node runs by itself
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	@$(BIN)/python -m railwright check --emit dist/railwright-check.pyz

.PHONY: release
release: $(INSTALLED) ## all of a release into dist/: wheel, collection, offline archive, SBOM, checksums; the same bytes every time
	@$(BIN)/python tools/release $(ARGS)

.PHONY: docs generate
docs: generate
generate: $(INSTALLED) ## write generated files anew (reference pages, argument specs, defaults)
	@$(BIN)/python tools/generate

.PHONY: site
site: $(INSTALLED) ## the documentation as a site, build/site/index.html, with its links checked
	@$(BIN)/python tools/site $(ARGS)

.PHONY: bench
bench: $(INSTALLED) ## what a node, a megabyte in each parser and a drift of 100 loopback nodes cost: build/bench/node.json, drift.json
	@tools/need bench
	@$(BIN)/python -m benchmarks.facts; facts=$$?; $(BIN)/python -m benchmarks.node; node=$$?; \
		$(BIN)/python -m benchmarks.parsers; parsers=$$?; \
		$(BIN)/python -m tests.bench.drift $(ARGS) && [ $$facts = 0 ] && [ $$node = 0 ] && exit $$parsers

.PHONY: bench-scale
bench-scale: $(INSTALLED) ## what a drift of 1,000 loopback nodes costs the controller: build/bench/scale.json
	@tools/need bench
	@$(BIN)/python -m tests.bench.scale $(ARGS)

.PHONY: bench-top
bench-top: $(INSTALLED) ## what `top` with 200 nodes that are not there costs the controller a second: build/bench/top.json
	@$(BIN)/python -m tests.bench.top $(ARGS)

.PHONY: bench-page
bench-page: $(INSTALLED) ## how long a report of 2,000 nodes takes to open in Chromium: build/bench/page.json
	@tools/need browser
	@$(BIN)/python -m tests.bench.page $(ARGS)

.PHONY: bench-agent
bench-agent: $(INSTALLED) ## what the agent costs a node with eight GPUs in an hour: build/bench/agent.json
	@$(BIN)/python -m tests.bench.agent $(ARGS)

.PHONY: bench-isolate
bench-isolate: $(INSTALLED) ## how many rounds the search for slow parts takes in 2,000 drawn clusters: build/bench/isolate.json
	@$(BIN)/python -m tests.bench.isolate $(ARGS)

.PHONY: constraints
constraints: $(LINK) ## raise every pinned version (needs the package index), then run make test
	@tools/need python
	@rm -rf $(VENV) $(VENV216)
	@tools/venv $(VENV) /dev/null test,dev
	@tools/venv $(VENV216) constraints/floor.txt compat
	@for pair in dev:$(VENV) core216:$(VENV216); do \
		file=constraints/$${pair%%:*}.txt; grep '^#' $$file >$$file.new; \
		$${pair#*:}/bin/pip freeze --exclude-editable >>$$file.new; mv $$file.new $$file; \
	done
	@grep '^#' constraints/newest.txt >constraints/newest.txt.new
	@$(VENV)/bin/python tests/containers/newest.py --pins >>constraints/newest.txt.new && mv constraints/newest.txt.new constraints/newest.txt
	@$(VENV)/bin/python tools/freshness --compared constraints/core216.txt constraints/dev.txt constraints/newest.txt
	@touch $(INSTALLED) $(INSTALLED216)

.PHONY: freshness
freshness: $(INSTALLED) ## how old each table is, and what the package indexes have that is newer than tables and pins; ARGS=--no-download
	@$(BIN)/python tools/freshness $(ARGS)

.PHONY: clean
clean: ## remove what was built (environments too)
	rm -rf build dist .dev $(VENV) $(VENV216) .mypy_cache .ruff_cache .pytest_cache .ansible
	find plugins src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
