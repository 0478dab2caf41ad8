# Every command of walrow. Needs make, a C compiler, Python 3.11 or later with venv, Rust 1.95
# or later and Java 17 or later (for Spark); the rest is installed here, in .venv and target.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Relative, as make takes a space in a target's path for its end.
BIN := .venv/bin
MATURIN := 1.16.0
# The first Python that is new enough; `make PYTHON=...` to choose.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
FUZZ_SECONDS ?= 600

# A caller's PYTHONPATH or active environment is not ours.
unexport PYTHONPATH PYTHONHOME CONDA_PREFIX
export VIRTUAL_ENV := $(CURDIR)/.venv
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := Cargo.toml Cargo.lock \
	$(shell find crates -name '*.rs' -path '*/src/*') $(wildcard crates/*/Cargo.toml)

# Stage and budget in minutes, on two cores and with nothing built before.
MINUTES := 30
STAGES := setup:4 lint:3 rust:11 python:3 postgres:3 spark:4 examples:2

.PHONY: help demo test test-all lint deny bench fuzz golden types build clean \
	stage-setup stage-lint stage-rust stage-python stage-postgres stage-spark stage-examples

help: ## shows this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## a live server, its stream decoded, folded and compared: under a minute
	@$(BIN)/python examples/demo.py

test: ## all checks of a change, in stages; 30 minutes at most
	@$(call run,$(STAGES))

test-all: export WALROW_SLOW := 1
test-all: ## as test, and the slow tests
	@$(call run,$(STAGES))

lint: stage-lint ## formatting, clippy, ruff, mypy and stubs

deny: ## licences, advisories and sources of all crates; needs cargo-deny
	@cargo deny --version >/dev/null 2>&1 || \
		{ echo 'no cargo-deny: cargo install --locked cargo-deny'; exit 1; }
	cargo deny --all-features --locked check

build: .venv/.built ## .venv with the development tools, and walrow in it

bench: build ## captures from a real server, then how fast they are read, beside a floor
	@$(BIN)/python benches/captures.py target/bench-data
	cargo bench -p walrow-benches
	@for script in benches/*.py; do \
		case $$script in benches/captures.py|benches/memory.py) ;; *) \
			echo "== $$script"; $(BIN)/python $$script target/bench-data ;; esac; done
	@echo "== benches/memory.py"; $(BIN)/python benches/memory.py

fuzz: target/tools/bin/cargo-fuzz ## each fuzz target for FUZZ_SECONDS (600)
	@echo "== operations, on stable and with another seed, for $(FUZZ_SECONDS) s"; \
	WALROW_FUZZ_SECONDS=$(FUZZ_SECONDS) WALROW_FUZZ_SEED=$${WALROW_FUZZ_SEED:-$$(date +%s)} \
		cargo test -p walrow-testkit --test operations --locked -- --nocapture
	@for target in $$(target/tools/bin/cargo-fuzz list); do \
		echo "== $$target for $(FUZZ_SECONDS) s"; \
		mkdir -p fuzz/corpus/$$target; \
		seeds=; test -d fuzz/seeds/$$target && seeds=fuzz/seeds/$$target; \
		target/tools/bin/cargo-fuzz run -s none $$target fuzz/corpus/$$target $$seeds -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4096 -print_final_stats=1; \
	done

golden: build ## makes tests/data again, from real servers
	@$(BIN)/python tests/data/make.py

types: build ## the table of built-in types again, from servers 14 to 18, and docs/types.md
	@$(BIN)/python tests/servers/built_in.py
	@$(BIN)/python tests/python/types_page.py

clean: ## removes what was built and installed here
	rm -rf .venv target fuzz/target demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests examples benches -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/walrow/*.so

# Runs stages one after another, stops at the first that fails, says how long each took, and
# which took longer than is theirs. Slow tests have no budget.
define run
mkdir -p target; : > target/stages; all=$$(date +%s); failed=; late=; \
for entry in $(1); do \
	stage=$${entry%%:*}; budget=$${entry##*:}; began=$$(date +%s); \
	printf '\n=== %s (up to %s min)\n' "$$stage" "$$budget"; \
	if $(MAKE) --no-print-directory stage-$$stage; then result=ok; else result=FAILED; fi; \
	seconds=$$(( $$(date +%s) - began )); \
	if [ -z '$(WALROW_SLOW)' ] && [ $$seconds -gt $$(( budget * 60 )) ]; then \
		result="$$result, OVER BUDGET"; late="$$late $$stage"; fi; \
	printf '%-10s %4d:%02d of %2d:00  %s\n' "$$stage" $$((seconds / 60)) $$((seconds % 60)) \
		"$$budget" "$$result" >> target/stages; \
	case "$$result" in FAILED*) failed=$$stage; break;; esac; \
done; \
seconds=$$(( $$(date +%s) - all )); \
if [ -z '$(WALROW_SLOW)' ] && [ $$seconds -gt $$(( $(MINUTES) * 60 )) ]; then late="$$late all"; fi; \
printf '%-10s %4d:%02d of %2d:00\n' all $$((seconds / 60)) $$((seconds % 60)) $(MINUTES) \
	>> target/stages; \
printf '\n=== summary\n'; cat target/stages; \
if [ -n "$$late" ]; then printf '\n!!! took longer than the budget:%s\n' "$$late" >&2; fi; \
if [ -n "$$failed" ]; then echo "stage $$failed failed"; exit 1; fi
endef

stage-setup: build

stage-lint: build
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	ruff check .
	ruff format --check .
	mypy
	python -m mypy.stubtest walrow._core

stage-rust: build
	cargo test --workspace --locked $(if $(WALROW_SLOW),-- --include-ignored)
	RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --workspace --document-private-items --locked
	cargo bench --workspace --benches --profile test --locked -- --test
	cargo check --manifest-path fuzz/Cargo.toml --locked

# The second run has no pyarrow: walrow itself must not need it.
stage-python: build
	pytest tests/python tests/cli tests/reference $(MARKS)
	pytest --doctest-modules python/walrow
	$(BIN)/python -c $(WITHOUT_PYARROW) tests/python $(MARKS)

stage-postgres: build
	pytest tests/servers $(wildcard tests/postgres) $(MARKS)

stage-spark: build
	@command -v java >/dev/null || test -n "$${JAVA_HOME:-}" || { echo 'Spark needs Java 17 or later'; exit 1; }
	pytest tests/spark $(MARKS)

stage-examples: build
	pytest tests/examples $(MARKS)

MARKS := $(if $(WALROW_SLOW),,-m 'not slow')
WITHOUT_PYARROW := "import sys; sys.modules['pyarrow'] = None; \
import pytest; sys.exit(pytest.main(sys.argv[1:]))"

# A stamp says what an installation was made from, so that a second run does nothing.
.venv/.created:
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or later: make PYTHON=...'; exit 1; }
	@command -v cargo >/dev/null || { echo 'no cargo: install Rust 1.95 or later'; exit 1; }
	@echo "making .venv with $$("$(PYTHON)" --version)"
	@env -u VIRTUAL_ENV "$(PYTHON)" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet maturin==$(MATURIN)
	@touch $@

# PySpark's source distribution says nothing for minutes otherwise.
.venv/.installed: .venv/.created pyproject.toml
	@echo 'installing the development tools (once, about 1.5 GB)'
	@$(BIN)/python -m pip install --quiet $$($(BIN)/python -c "import tomllib; \
print(*(r.replace(' ', '') for r in tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['dev']))")
	@touch $@

.venv/.built: .venv/.installed $(RUST_SOURCES)
	@echo 'building walrow'
	@mkdir -p target; maturin develop --release --locked > target/build.log 2>&1 || \
		{ cat target/build.log; exit 1; }
	@touch $@

target/tools/bin/cargo-fuzz:
	cargo install cargo-fuzz --version 0.13.2 --locked --root target/tools
