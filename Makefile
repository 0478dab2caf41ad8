# Every command of walrow. Needs make, a C compiler, Python 3.11 or later with venv, Rust 1.95
# or later and Java 17 or later (for Spark); the rest is installed here, in .venv and target.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Relative, as make takes a space in a target's path for its end.
BIN := .venv/bin
# The pip that comes with Python may know no dependency groups: from 25.1 on it does.
PIP := 25.3
# The first Python that is new enough; `make PYTHON=...` to choose.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
FUZZ_SECONDS ?= 600
# In make test-all: the oldest and the newest version of Spark. They have no Delta and Iceberg.
OTHER_SPARKS := $(if $(WALROW_SLOW),4.0.5 4.3.0)
SPARK_CHOSEN_4.0.5 := $(addprefix tests/spark/test_,data_source.py streaming.py micro_batches.py \
	changes.py log.py)

# A caller's PYTHONPATH or active environment is not ours.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE CONDA_PREFIX
export VIRTUAL_ENV := $(CURDIR)/.venv
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := Cargo.toml Cargo.lock \
	$(shell find crates -name '*.rs' -path '*/src/*') $(wildcard crates/*/Cargo.toml)

# One thing at a time, cheap checks first, under -j too: cargo takes all cores by itself.
.NOTPARALLEL:

.PHONY: help demo check test test-all lint test-rust test-python test-postgres test-spark \
	test-python-postgres test-examples simulate deny bench bench-peers curves fuzz golden types build \
	clean

help: ## shows this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## a live server followed into Delta tables with a kill -9, and compared: a minute
	$(TIMED) $(BIN)/python examples/demo.py

check: ## what changed since the main branch, in a minute or two, without a server and Java
	@test -x $(BIN)/python || { echo 'nothing is installed: make build'; exit 1; }
	$(TIMED) $(BIN)/python tests/check.py

# Cargo compiles what it checks while pip downloads, and while the linker optimises walrow on one core.
# The log is for nobody: the stages run the same commands again, and say what is wrong.
test: .venv/.created ## all checks of a change
	@mkdir -p target; set -m; \
	( $(CLIPPY); $(RUST_TESTS) --no-run ) > target/compiling.log 2>&1 & beside=$$!; \
	trap 'kill -- -$$beside 2>/dev/null || :' EXIT; \
	$(MAKE) --no-print-directory lint test-rust test-python-postgres test-spark test-examples

test-all: ## as test, and the slow tests
	@$(MAKE) --no-print-directory test WALROW_SLOW=1

lint: build ## formatting, ruff, mypy, stubs and clippy
	$(TIMED) ( set -x; \
	cargo fmt --all --check; \
	cargo fmt --manifest-path fuzz/Cargo.toml --check; \
	ruff check .; \
	ruff format --check .; \
	mypy; \
	python -m mypy.stubtest walrow._core; \
	$(CLIPPY) )

# One test counts the bytes of its whole process, on one core: the others run beside it. The fuzz crate
# has its own lock file, which a new dependency must reach.
test-rust: build ## tests of all crates; make test-all checks the fuzz targets, too
	$(TIMED) ( set -x; mkdir -p target; \
	$(RUST_TESTS) --no-run; \
	$(RUST_TESTS) --test memory > target/memory.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null || :' EXIT; \
	$(RUST_TESTS) -- --skip memory_does_not_grow \
		$(if $(WALROW_SLOW),--include-ignored); \
	wait $$beside || { cat target/memory.log; exit 1; }; \
	cargo metadata --manifest-path fuzz/Cargo.toml --format-version 1 --locked > /dev/null; \
	$(if $(WALROW_SLOW),cargo check --manifest-path fuzz/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target} --locked;) \
	$(if $(WALROW_SLOW),cargo test -p walrow --no-default-features --tests --locked;) \
	$(if $(WALROW_SLOW),RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --workspace --document-private-items --locked;) \
	$(if $(WALROW_SLOW),cargo bench --workspace --features walrow-benches/csv --benches --profile test --locked -- --test;) )

# The last run has no pyarrow: walrow itself must not need it.
test-python: build ## the package, the command line and the reference decoder
	$(TIMED) ( set -x; \
	$(PYTEST) --dist worksteal $(TESTS) -m 'not live$(NOT_SLOW)'; \
	pytest --doctest-modules python/walrow; \
	$(RUN_WITHOUT_PYARROW) )

# Many of these tests wait for a server or a time: more processes than cores.
test-postgres: build ## against PostgreSQL servers, which the tests start
	$(TIMED) ( set -x; \
	$(WAITING) $(TESTS) -m 'live$(NOT_SLOW)' )

# Both of them side by side: what computes runs while what is for PostgreSQL waits. The run without
# pyarrow is one process, and says something when it fails.
test-python-postgres: build
	$(TIMED) ( set -x; mkdir -p target; \
	$(RUN_WITHOUT_PYARROW) > target/without-pyarrow.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null || :' EXIT; \
	$(WAITING) $(TESTS) $(MARKS); \
	pytest --doctest-modules python/walrow; \
	wait $$beside || { cat target/without-pyarrow.log; exit 1; } )

# What depends on the version with the oldest one.
test-spark: build $(OTHER_SPARKS:%=.venv-spark-%/.installed) ## in Spark; needs Java
	@command -v java >/dev/null || test -n "$${JAVA_HOME:-}" || \
		{ echo 'Spark needs Java 17 or later'; exit 1; }
	$(TIMED) ( set -x; \
	$(PYTEST) --dist loadfile tests/spark $(MARKS); \
	$(foreach version,$(OTHER_SPARKS),PYTHONPATH=$(CURDIR)/python .venv-spark-$(version)/bin/python -m \
		pytest $(or $(SPARK_CHOSEN_$(version)),tests/spark) $(MARKS);) )

test-examples: build ## the examples and the code in README.md
	$(TIMED) ( set -x; \
	$(PYTEST) --dist loadfile tests/examples $(MARKS) )

deny: ## licences, advisories and sources of all crates; needs cargo-deny
	@cargo deny --version >/dev/null 2>&1 || \
		{ echo 'no cargo-deny: cargo install --locked cargo-deny'; exit 1; }
	cargo deny --all-features --locked check

build: .venv/.built target/ivy/.fetched ## .venv with the development tools, and walrow in it

bench: build ## captures from a real server, then how fast they are read, beside a floor
	@PYTHONPATH=tests $(BIN)/python benches/captures.py target/bench-data
	cargo bench -p walrow-benches
	@for script in benches/*.py; do \
		case $$script in benches/captures.py|benches/workloads.py|benches/instructions.py|benches/memory.py) ;; *) \
			echo "== $$script"; $(BIN)/python $$script target/bench-data ;; esac; done
	@echo "== benches/memory.py"; $(BIN)/python benches/memory.py

curves: build ## what walrow costs as its input grows: docs/speed/curves.md; 20 minutes
	$(BIN)/python -m pip install --quiet --group bench
	$(TIMED) ( $(BIN)/python benches/curves measure; $(BIN)/python benches/curves page )

# Other languages' tools are needed here alone. A parser that cannot be built is named and skipped.
bench-peers: build ## other parsers beside walrow, and other ways to a Delta table: docs/speed/peers.md, end-to-end.md
	@PYTHONPATH=tests $(BIN)/python benches/captures.py target/bench-data
	$(BIN)/python -m pip install --quiet --group bench
	PYTHONPATH=tests:examples $(BIN)/python benches/peers/run.py $(if $(PEERS_CAPTURES),$(PEERS_CAPTURES) --all,target/bench-data)
	$(BIN)/python benches/peers/peer_page.py
	$(BIN)/python benches/end_to_end/run.py
	$(BIN)/python benches/end_to_end/page.py

fuzz: target/tools/bin/cargo-fuzz ## each fuzz target for FUZZ_SECONDS (600)
	@echo "== operations, on stable and with another seed, for $(FUZZ_SECONDS) s"; \
	WALROW_FUZZ_SECONDS=$(FUZZ_SECONDS) WALROW_FUZZ_SEED=$${WALROW_FUZZ_SEED:-$$(date +%s)} \
		cargo test -p walrow-testkit --test it --locked operations -- --nocapture
	@for target in $$(target/tools/bin/cargo-fuzz list); do \
		echo "== $$target for $(FUZZ_SECONDS) s"; \
		mkdir -p fuzz/corpus/$$target; \
		seeds=; test -d fuzz/seeds/$$target && seeds=fuzz/seeds/$$target; \
		target/tools/bin/cargo-fuzz run -s none $$target fuzz/corpus/$$target $$seeds -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4096 -print_final_stats=1; \
	done

# Context switches are cheaper when pinned to one core.
simulate: build ## worlds of a log, then receivers, for SIMULATE_SECONDS (60) from SIMULATE_SEED (now) on
	$(SIMULATE) --no-run
	@pin=; if command -v taskset >/dev/null; then pin='taskset -c 0'; fi; \
	export SIMULATE_SECONDS=$${SIMULATE_SECONDS:-60} SIMULATE_SEED=$${SIMULATE_SEED:-$$(date +%s)000}; \
	$$pin $(SIMULATE) worlds_lose_nothing -- --nocapture; \
	WALROW_SIMULATE_SECONDS=$$SIMULATE_SECONDS WALROW_SIMULATE_SEED=$$SIMULATE_SEED \
		$$pin pytest -q -s tests/simulation/test_receiver_simulation.py -k test_worlds

golden: build ## makes tests/data again, from real servers
	@PYTHONPATH=tests $(BIN)/python tests/data/make.py

types: build ## the table of built-in types again, from servers 14 to 19, and docs/types.md
	@PYTHONPATH=tests $(BIN)/python tests/servers/built_in.py
	@PYTHONPATH=tests $(BIN)/python tests/types_page.py
	@PYTHONPATH=tests $(BIN)/python tests/options_page.py

clean: ## removes what was built and installed here
	rm -rf .venv .venv-spark-* target fuzz/target demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests examples benches -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/walrow/*.so

# Names a target, and says how long it took even when it failed.
TIMED = @echo '== $@'; TIMEFORMAT='== $@: %0lR'; time
CLIPPY := cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
RUST_TESTS := cargo test --workspace --locked
SIMULATE := cargo test --profile simulate -p walrow-log --test it --locked
# A process for each core. Files that share a server or a session stay whole: loadfile.
PYTEST = pytest -n auto
MARKS = $(if $(WALROW_SLOW),,-m 'not slow')
NOT_SLOW = $(if $(WALROW_SLOW),, and not slow)
# All tests but those of the pages and of Spark. Marks say which need a server.
TESTS := tests --ignore tests/spark --ignore tests/examples
# Tests with a server come first: they are few and long, so that no process waits for one of them at
# the end.
WAITING := pytest -n 5 --dist loadfile --no-loadscope-reorder
# The tests of what needs no pyarrow.
PACKAGE_TESTS := tests/apply tests/backup tests/log tests/package tests/postgres tests/read tests/receive tests/run tests/simulation tests/sources
# They are long, and both runs would test the same.
NOTHING_OF_PYARROW := hostile recognition instructions receiver_simulation log_faults architecture
RUN_WITHOUT_PYARROW = python -c $(WITHOUT_PYARROW) $(PACKAGE_TESTS) \
	$(NOTHING_OF_PYARROW:%=--ignore-glob '*/test_%.py') -m 'not live$(NOT_SLOW)'
WITHOUT_PYARROW := "import sys; sys.modules['pyarrow'] = None; \
import pytest; sys.exit(pytest.main(sys.argv[1:]))"

# A stamp says what an installation was made from, so that a second run does nothing.
.venv/.created:
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or later: make PYTHON=...'; exit 1; }
	@command -v cargo >/dev/null || { echo 'no cargo: install Rust 1.95 or later'; exit 1; }
	@echo "making .venv with $$("$(PYTHON)" --version)"
	@env -u VIRTUAL_ENV "$(PYTHON)" -m venv --clear .venv
	@touch $@

# PySpark's source distribution says nothing for minutes otherwise.
.venv/.installed: .venv/.created pyproject.toml
	@echo 'installing the development tools (once, about 1.5 GB)'
	@$(BIN)/python -m pip install --quiet pip==$(PIP)
	@TIMEFORMAT='installed in %0lR'; time $(BIN)/python -m pip install --quiet --group dev
	@touch $@

.venv-spark-%/.installed: .venv/.created pyproject.toml
	@echo 'installing Spark $* (once, about 0.9 GB)'
	@env -u VIRTUAL_ENV "$(PYTHON)" -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet pip==$(PIP)
	@TIMEFORMAT='installed in %0lR'; \
	time $(@D)/bin/python -m pip install --quiet --group spark-other \
		'pyspark[connect]==$*'
	@touch $@

.venv/.built: .venv/.installed $(RUST_SOURCES)
	@echo 'building walrow'
	@mkdir -p target; TIMEFORMAT='built in %0lR'; \
	time maturin develop --release --locked > target/build.log 2>&1 || \
		{ cat target/build.log; exit 1; }
	@touch $@

# So that no demo and no test waits for them. Without Java or a network, Spark fetches them later. A
# Maven repository at home may have a description without its jar, which Ivy takes for an error.
target/ivy/.fetched: tests/table_formats.py examples/stream_to_delta.py | .venv/.built
	@echo 'fetching the jars of Delta and Iceberg for Spark (once, 134 MB)'
	@mkdir -p target/ivy; : > target/ivy/nothing.py; \
	rm -rf target/ivy/jars target/ivy/cache $@; \
	packages=$$(PYTHONPATH=tests:examples python -c 'import table_formats as it; print(it.PACKAGES)'); \
	if SPARK_SUBMIT_OPTS="-Duser.home=$(CURDIR)/target/ivy" spark-submit --packages "$$packages" --conf spark.jars.ivy="$(CURDIR)/target/ivy" \
		target/ivy/nothing.py > target/ivy/fetch.log 2>&1; \
	then touch $@; else echo 'not fetched: see target/ivy/fetch.log'; fi

target/tools/bin/cargo-fuzz:
	cargo install cargo-fuzz --version 0.13.2 --locked --root target/tools
