# `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One switch for all of pip: nothing asks, nothing nags.
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help demo test test-lowest lint format proto proto-check lock bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# The interpreter is asked once, here, so that an old one is a sentence and not a traceback.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(BIN)/python pyproject.toml .ci/requirements/run.txt
	@$(PIP) install --require-hashes -r .ci/requirements/run.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp .ci/requirements/dev.txt
	@$(PIP) install --require-hashes -r .ci/requirements/dev.txt
	@touch $@

demo: $(VENV)/run.stamp ## real devices behind an embedded kubelet: no root, no cluster
	@$(BIN)/device-plugin demo

test: $(VENV)/dev.stamp ## unit and integration tests
	@$(BIN)/python -m pytest

test-lowest: $(BIN)/python ## the same tests on the oldest dependencies that pyproject.toml allows
	@$(MAKE) --no-print-directory test VENV=.venv-lowest LOWEST=1

lint: $(VENV)/dev.stamp ## ruff, mypy (strict), import-linter, generated code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory proto-check

format: $(VENV)/dev.stamp ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

PROTOS := $(shell cd api && find . -name '*.proto' | sed 's|^\./||' | sort)
API    ?= device_plugin/_api

proto: $(VENV)/dev.stamp ## generate device_plugin/_api from api/
	@mkdir -p $(API)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc \
		-Idevice_plugin/_api=api --python_out=$(API)/../.. --grpc_python_out=$(API)/../.. \
		--mypy_out=$(API)/../.. --mypy_grpc_out=$(API)/../.. \
		$(addprefix device_plugin/_api/,$(PROTOS))

proto-check: $(VENV)/dev.stamp
	@rm -rf $(VENV)/proto-check && $(MAKE) --no-print-directory proto API=$(VENV)/proto-check/device_plugin/_api
	@diff -r -x __init__.py -x __pycache__ device_plugin/_api $(VENV)/proto-check/device_plugin/_api \
		|| { echo "device_plugin/_api does not match api/: run make proto and commit the result"; exit 1; }

clean: ## remove what make has made
	rm -rf .venv .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
