# Commands of daily work.  `make` alone lists them.

VENV := .venv
PYTHON := $(VENV)/bin/python
BASE_PYTHON ?= $(shell tools/base_python.sh)
STAMP := $(VENV)/made-from-pyproject
JAVA_MISSING := Java 17 or newer is missing. Install it, on Debian with `apt-get install openjdk-17-jre-headless`.

.DEFAULT_GOAL := list
.PHONY: list demo test check unit integration fault simulate conformance bench soak docs wheel clean install java

list:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: java install  ## send all flights of 2013 through a broker, a group, Spark and pipelines; BROKERS=3 kills leaders meanwhile
	@$(PYTHON) -m examples.demo --brokers $(or $(BROKERS),1)

test: java install  ## run the whole suite, and report the time of each stage
	@$(PYTHON) tools/run_tests.py

check: install  ## check style, types, layers and the other house rules
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy && $(PYTHON) -m pytest tests/tidy

unit: install  ## run the quick tests: cores, codecs, everything that needs no real machine
	@$(PYTHON) -m pytest tests/unit tests/tidy

integration: java install  ## test real brokers with real clients, real disks and Spark
	@$(PYTHON) -m pytest tests/integration

fault: install  ## test what must survive kill -9 and other faults
	@$(PYTHON) -m pytest tests/fault

simulate: install  ## simulate crash points of the disk, and replicas and whole brokers under faults
	@$(PYTHON) -m pytest tests/simulation

conformance: install  ## run the client contract in Java and Go, Kafka's own commands, and the Spark connector with Apache Kafka
	@$(PYTHON) -m pytest conformance

bench: install  ## measure against Apache Kafka (needs Java and Maven), saved as JSON; OLD=REVISION compares revisions
	@$(PYTHON) -m benchmarks
	@$(PYTHON) -m benchmarks.replicated
	@$(PYTHON) -m benchmarks.idle_shards
	@$(PYTHON) -m benchmarks.heartbeats
	@$(PYTHON) -m benchmarks.restart
	@$(PYTHON) -m benchmarks.planner
	@$(PYTHON) -m benchmarks.lost_broker
	@$(PYTHON) -m benchmarks.share_groups
	@$(PYTHON) -m benchmarks.http_produce
	@$(PYTHON) -m benchmarks.http_queue
	@$(PYTHON) -m benchmarks.timers
	@$(PYTHON) -m benchmarks.spark_read
	@$(PYTHON) -m benchmarks.spark_write
	@$(PYTHON) -m benchmarks.spark_stream
	@$(PYTHON) -m benchmarks.arrow_read
	@test -z "$(OLD)" || $(PYTHON) -m benchmarks.checkouts "$(OLD)"

soak: java install  ## 200 kills, every fault many times, every torn page at every crash point, 20,000 runs of replicas, 1,000 of brokers, 5,000 each of share groups, timers, moving shards and clusters that heal
	@TIDEMILL_KILLS=200 TIDEMILL_FAULTS=all $(PYTHON) -m pytest tests/fault --timeout=7200
	@TIDEMILL_FAULTS=all $(PYTHON) -m pytest tests/integration/spark --timeout=7200
	@TIDEMILL_EVERY_TEAR=1 $(PYTHON) -m pytest tests/simulation/store --timeout=7200
	@TIDEMILL_RAFT_SEEDS=20000 $(PYTHON) -m pytest tests/simulation/raft --timeout=14400
	@TIDEMILL_CLUSTER_SEEDS=1000 TIDEMILL_SHARE_SEEDS=5000 TIDEMILL_TIMER_SEEDS=5000 TIDEMILL_MOVING_SEEDS=5000 TIDEMILL_HEALING_SEEDS=5000 $(PYTHON) -m pytest tests/simulation/cluster --numprocesses=auto --timeout=28800

docs: install  ## build the site of the documentation into build/site; `make check` checks what the pages name
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict
	@echo "The site is at build/site/index.html"

wheel: install  ## build the source distribution and the wheel into dist
	@rm -rf dist
	@$(PYTHON) -m build

clean:  ## remove what make has built, caches and .venv; keep data, settings, Spark tables and other files
	@rm -rf build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@rm -f src/tidemill/*/_*.so src/tidemill/batches/scan.c
	@rm -rf $(VENV)

install: $(STAMP)
	@$(PYTHON) tools/build_extension.py >/dev/null
	@$(PYTHON) -m compileall -q src  # as pip does; otherwise every process compiles 200 files if Python may not write bytecode

$(STAMP): pyproject.toml
	@echo "Making $(VENV) from pyproject.toml (once)…"
	@test -n "$(BASE_PYTHON)" || { echo "Python 3.11 or newer is missing."; exit 1; }
	@date +%s.%N > .install-started
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required; this is " + sys.version)'
	@# Keep an environment that works, such as the one of README.md: `venv` would mix a second Python into it.
	@$(PYTHON) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(BASE_PYTHON) -m venv --clear $(VENV)
	@# uv takes a third of pip's time.  It does not read pip's configuration, so pip is the second choice.
	@{ $(PYTHON) -m pip install --quiet --disable-pip-version-check uv && \
	$(PYTHON) -m uv pip install --quiet --python $(PYTHON) --compile-bytecode -e '.[dev]'; } || \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@echo "$$(date +%s.%N) $$(cat .install-started)" | awk '{printf "%.1f\n", $$1 - $$2}' > $(STAMP)
	@rm -f .install-started

java:
	@found=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${found:-0}" -ge 17 ] || { echo '$(JAVA_MISSING)' >&2; exit 1; }
