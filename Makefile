# Targets that use .venv first bring it up to date (quick when nothing changed). PYTEST_ARGS goes to pytest.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help venv demo up down test chaos fuzz check bench lock clean

bin := .venv/bin
engine := tests/engine/docker-engine
sources := $(wildcard shared/*/src services/*/src deploy/local/src)
empty :=
space := $(empty) $(empty)

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

venv:
	@sh deploy/bootstrap.sh

demo: | venv ## run the demo benchmark and show its leaderboard
	$(bin)/assay demo

up: | venv ## start the platform on this machine
	$(bin)/assay up

down: | venv ## stop the platform
	$(bin)/assay down

# Exit code 3 of the engine script means that this machine cannot have one; any other failure is ours.
define pytest_with_engine
	@code=0; host=$$($(engine) ensure && $(engine) image) || code=$$?; \
	if [ $$code -eq 0 ]; then \
		export DOCKER_HOST="$$host" TESTCONTAINERS_RYUK_DISABLED=true; \
		set -x; exec $(bin)/pytest $(1); \
	elif [ $$code -eq 3 ]; then \
		echo "make $@: no Docker engine and none may be started here: the Docker tests are left out"; \
		set -x; exec $(bin)/pytest -m "not docker" $(1); \
	else exit $$code; fi
endef

side_by_side := -n auto --maxprocesses 4

test: | venv ## run the tests; those that need Docker run where there is an engine
	$(call pytest_with_engine,$(side_by_side) $(PYTEST_ARGS))

chaos: export ASSAY_CHAOS_SEEDS ?= 20
chaos: | venv ## disturb long runs in every way, with many seeds; takes an hour
	$(call pytest_with_engine,tests/chaos -q $(PYTEST_ARGS))

check: | venv ## format, lint, types, import contracts and known faults of dependencies
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	MYPYPATH=$(subst $(space),:,$(strip $(sources))) $(bin)/mypy $(sources)
	$(bin)/lint-imports
	$(bin)/python deploy/audit.py

fuzz: export ASSAY_FUZZ_EXAMPLES ?= 100
fuzz: | venv ## ask the HTTP API ten thousand made-up questions; takes some minutes
	$(bin)/pytest services/gateway/tests/test_fuzz.py -q -s $(PYTEST_ARGS)

bench: | venv ## run the performance tests and print what they measured
	$(call pytest_with_engine,tests/performance -q -s --disable-warnings)

lock: ## resolve requirements.lock anew
	sh deploy/lock.sh

clean: ## remove .venv, caches and build output; nothing a user made
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build
	rm -rf shared/*/build shared/*/dist services/*/build services/*/dist deploy/local/build deploy/local/dist
	find shared services deploy tests \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
