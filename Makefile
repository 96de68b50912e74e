# The way in. `make` alone lists what there is.

TARGET := $(or $(CARGO_TARGET_DIR),target)
TOMBOLO := $(TARGET)/release/tombolo
QUICK := $(TARGET)/quick/tombolo
# Kept outside of the target folder: it is large, and the same for every build.
OR_TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tombolo/placement-venv

.DEFAULT_GOAL := help
.PHONY: help up down serve quick build package test probes lint bench bench-placement fuzz mutants docs

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

up: quick ## build Tombolo and show it: three sites and an application on this machine
	@exec $(QUICK) up --demo

down: ## end what `make up` started, and remove all of it
	@$(QUICK) down

serve: quick ## build Tombolo and start a server of your own; it prints its address and what to try
	@exec $(QUICK) up

quick: ## the binary to try: little optimised, built in a few minutes
	cargo build --profile quick --locked --package tombolo-cli

build: ## the release binary: optimised whole, as it ships and as the benchmarks measure it
	cargo build --release --locked --package tombolo-cli

package: build ## a Debian package of it, under target/package
	@scripts/package.sh $(TOMBOLO) $(TARGET)/package

test: ## install what the tests need, run everything, list what was skipped
	@scripts/test.sh

probes: ## the raw requests of the API's tests, asked of a real kube-apiserver; it is built first (half an hour, once)
	@scripts/kube-apiserver.sh build
	@scripts/kube-apiserver.sh run cargo test --locked --package tombolo-apiserver --test probes -- --test-threads 1

lint: ## formatting, tidy and clippy
	cargo xtask lint

bench: build ## the benchmarks, one JSON line each
	@for name in store watch api controller overload descriptor deploy agent network; do $(TOMBOLO) bench $$name || exit 1; done
	@$(TOMBOLO) bench controller --nodes 5000 --apps 10000

bench-placement: build ## placement and packing, then CP-SAT (OR-tools, from PyPI) on the same problems
	@rm -rf $(TARGET)/placement-models $(TARGET)/packing-models
	@$(TOMBOLO) bench placement --models $(TARGET)/placement-models
	@$(TOMBOLO) bench packing --models $(TARGET)/packing-models
	@$(TOMBOLO) bench feasible
	@test -x $(OR_TOOLS)/bin/python || python3 -m venv $(OR_TOOLS)
	@$(OR_TOOLS)/bin/python -c 'import ortools' 2>/dev/null \
		|| $(OR_TOOLS)/bin/pip install --quiet ortools
	@$(OR_TOOLS)/bin/python scripts/bench-placement.py $(TARGET)/placement-models
	@$(OR_TOOLS)/bin/python scripts/bench-placement.py $(TARGET)/packing-models --seconds 10

fuzz: ## every parser that reads from outside, SECONDS_EACH (30)
	@scripts/fuzz.sh

mutants: ## small bugs in a sample of the code, and which of them no test finds
	@scripts/mutants.sh

docs: ## the documentation of the crates, under target/doc
	cargo doc --workspace --no-deps --locked
