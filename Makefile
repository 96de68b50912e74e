# The way in. `make` alone lists what there is.

TARGET := $(or $(CARGO_TARGET_DIR),target)
TOMBOLO := $(TARGET)/release/tombolo

.DEFAULT_GOAL := help
.PHONY: help up down serve build test lint bench bench-placement fuzz docs

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

up: build ## build Tombolo and show it: three sites and an application on this machine
	@exec $(TOMBOLO) up --demo

down: ## end what `make up` started, and remove all of it
	@$(TOMBOLO) down

serve: build ## build Tombolo and start a server of your own; it prints its address and what to try
	@exec $(TOMBOLO) up

build: ## the release binary
	cargo build --release --locked --package tombolo-cli

test: ## install what the tests need, run everything, list what was skipped
	@scripts/test.sh

lint: ## formatting, tidy and clippy
	cargo xtask lint

bench: build ## the benchmarks, one JSON line each
	@for name in store watch api descriptor; do $(TOMBOLO) bench $$name || exit 1; done

bench-placement: build ## placement, then CP-SAT (OR-tools, from PyPI) on the same problems
	@rm -rf $(TARGET)/placement-models
	@$(TOMBOLO) bench placement --models $(TARGET)/placement-models
	@test -x $(TARGET)/or-tools/bin/python || python3 -m venv $(TARGET)/or-tools
	@$(TARGET)/or-tools/bin/python -c 'import ortools' 2>/dev/null \
		|| $(TARGET)/or-tools/bin/pip install --quiet ortools
	@$(TARGET)/or-tools/bin/python scripts/bench-placement.py $(TARGET)/placement-models

fuzz: ## every parser that reads from outside, SECONDS_EACH (30)
	@scripts/fuzz.sh

docs: ## the documentation of the crates, under target/doc
	cargo doc --workspace --no-deps --locked
