# `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
LOWEST := .venv-lowest
BIN    := $(VENV)/bin
# One switch for all of pip: nothing asks, nothing nags.
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
CLUSTER := PYTHONPATH=tests/e2e $(BIN)/python -m cluster
IMAGE   ?= build/device-plugin-image.tar
.PHONY: help demo test search test-lowest manifests-check e2e e2e-up e2e-down kind-demo image lint format proto proto-check reference lock bench clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

# The interpreter is asked once, here, so that an old one is a sentence and not a traceback.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "no virtual environment: on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }

$(VENV)/run.stamp: $(BIN)/python pyproject.toml .ci/requirements/run.txt
	@$(PIP) install --require-hashes -r .ci/requirements/run.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp .ci/requirements/dev.txt
	@$(PIP) install --require-hashes -r .ci/requirements/dev.txt
	@touch $@

demo: $(VENV)/run.stamp ## real devices behind an embedded kubelet: no root, no cluster
	@$(BIN)/device-plugin demo

# Tests share the cores: many wait for something, so one more than the two of a small machine.
test: $(VENV)/dev.stamp ## unit and integration tests
	@$(BIN)/python -m pytest tests/unit --numprocesses=3 --dist=worksteal
	@$(BIN)/python -m pytest tests/integration --numprocesses=3 --dist=worksteal

search: $(VENV)/dev.stamp ## the property tests with random input, and ten times as much of it
	@$(BIN)/python -m pytest tests/unit -m hypothesis --hypothesis-profile=search --timeout=1200 \
		--numprocesses=auto --dist=worksteal

test-lowest: ## the same tests on the oldest dependencies that pyproject.toml allows
	@$(MAKE) --no-print-directory $(LOWEST)/dev.stamp VENV=$(LOWEST)
	@$(LOWEST)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --require-hashes -r .ci/requirements/lowest.txt
	@$(LOWEST)/bin/python -m pytest tests/unit --numprocesses=3 --dist=worksteal
	@$(LOWEST)/bin/python -m pytest tests/integration --numprocesses=3 --dist=worksteal

manifests-check: $(VENV)/dev.stamp ## kustomizations, chart, alerts, image recipe, by their own tools; Go 1.26
	@$(BIN)/python -m pytest tests/manifests

e2e: $(VENV)/dev.stamp ## tests on a real one-node cluster, built and started here: root and Go 1.26
	@$(BIN)/python -m pytest tests/e2e --durations=0

e2e-up: $(VENV)/run.stamp ## build and start that cluster, as `make e2e` does first
	@$(CLUSTER) up

e2e-down: $(VENV)/run.stamp ## stop that cluster; nothing is left but the cache of its programs
	@$(CLUSTER) down

# By itself the demo says what is missing before anything is installed.
kind-demo: $(if $(filter e2e,$(ON)),$(VENV)/run.stamp) ## devices by number and by claim, on kind; ON=e2e: on the cluster of `make e2e`
	@$(if $(filter e2e,$(ON)),$(BIN)/python tests/e2e/without_docker.py,MAKEFLAGS=--no-print-directory examples/kind/demo.sh)

image: $(VENV)/run.stamp ## the container image, as an OCI archive; BASE_IMAGE=... for another base
	@$(CLUSTER) image $(IMAGE)

lint: $(VENV)/dev.stamp ## ruff, mypy (strict), import-linter, generated code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@cd tests/e2e && MYPYPATH=../manifests:../.. $(abspath $(BIN))/mypy --strict --explicit-package-bases *.py cluster
	@cd tests/manifests && MYPYPATH=../.. $(abspath $(BIN))/mypy --strict --allow-untyped-defs \
		--allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators \
		--explicit-package-bases *.py
	@$(BIN)/mypy --strict examples/acme/acme.py
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

reference: $(VENV)/run.stamp ## write the config's keys into docs/config.md, and the schema for `exec`
	@$(BIN)/python -m device_plugin.config.reference docs/config.md
	@$(BIN)/python -c 'import json; from device_plugin.discovery.printed import schema; \
		print(json.dumps(schema(), indent=2))' > docs/exec.schema.json

lock: $(VENV)/dev.stamp ## pin the newest dependencies, with hashes
	@$(PIP) install pip-tools
	@cd .ci/requirements && for set in run image dev lowest; do \
		case $$set in run|image) source=../../pyproject.toml;; *) source=$$set.in;; esac; \
		../../$(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
			--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate \
			$$([ $$set = image ] && echo --extra kubernetes) --output-file $$set.txt $$source; done

proto-check: $(VENV)/dev.stamp
	@rm -rf $(VENV)/proto-check && $(MAKE) --no-print-directory proto API=$(VENV)/proto-check/device_plugin/_api
	@diff -r -x __init__.py -x __pycache__ device_plugin/_api $(VENV)/proto-check/device_plugin/_api \
		|| { echo "device_plugin/_api does not match api/: run make proto and commit the result"; exit 1; }

clean: ## remove what make has made
	rm -rf .venv .venv-lowest .venv-bench build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info

bench: ## the design's aims, beside a bare grpcio plugin
	@$(MAKE) --no-print-directory .venv-bench/run.stamp VENV=.venv-bench
	@rm -rf build
	@.venv-bench/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --force-reinstall .
	@.venv-bench/bin/python tests/bench/bench.py
