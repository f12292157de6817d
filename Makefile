# Works from a bare checkout with Python 3.11 (pip included) and make: every target makes the environment it needs.
PYTHON   ?= $(or $(shell command -v python3.11),python3)
BIN      := .venv/bin
COMPILE  := $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-emit-index-url \
            --no-emit-find-links --no-emit-trusted-host --no-annotate pyproject.toml
LOCKS    := requirements.lock docker/airflow.lock docker/trainer.lock

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all lint lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

setup: ## make .venv from the lock; instant when nothing changed
	@.ci/setup $(PYTHON)

run: setup ## bring up Airflow and retrain a model; ONCE=1 stops everything afterwards; HOME_DIR=..., PORT=...
	$(if $(HOME_DIR),PHALANX_HOME=$(abspath $(HOME_DIR))) $(BIN)/phalanx up --run nightly_retraining $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

lint: setup ## lint, format check, types, layers
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

test: lint ## lint and every test that is not slow
	$(BIN)/python -m pytest -m "not slow" --durations=15

test-all: lint ## lint and every test
	$(BIN)/python -m pytest --durations=15

lock: setup ## resolve pyproject.toml again, keeping versions that still fit; UPGRADE=1 takes the newest
	$(COMPILE) $(if $(UPGRADE),--upgrade) --all-extras -o requirements.lock
	$(COMPILE) --extra airflow --extra spark -c requirements.lock -o docker/airflow.lock
	$(COMPILE) --extra training -c requirements.lock -o docker/trainer.lock
	sed -i -E -e 's/^(torch==[0-9.]+)\+[a-z0-9.]+/\1/' -e '/^# The following|^$$/d' -e '1i # Exact versions of everything that is installed; made by `make lock`.' $(LOCKS)

clean: ## remove .venv and what tools leave; data and models stay (`phalanx down --purge` removes those)
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
