# `make help` lists the targets. Each installs what it needs and does not find; as root it uses apt for that.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

export PATH := $(HOME)/.cargo/bin:$(PATH)

# The programs that the end-to-end tests start, built once.
TARGET_DIR = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
export E2E_BIN_DIR = $(TARGET_DIR)/debug

# One choice for all that is built to be tested, so that it is built once. `make cross` looks at the code without them.
FEATURES = --all-features

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## One sandboxed command: what it may do, what it may not, its receipt
	@scripts/setup.sh build
	@cargo build --quiet --bins --package agent-client
	@scripts/demo.sh "$(TARGET_DIR)/debug/agent-client"

.PHONY: test
test: lint test-rust bench-smoke test-unprivileged attack-quick fuzz-quick keep-working cross helm e2e ## What must hold before a change lands; with attack, everything

.PHONY: lint
lint: ## Format, clippy, dependencies
	@scripts/setup.sh build lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FEATURES) --locked -- --deny warnings
	cargo deny --locked check bans licenses sources
	@scripts/advisories.sh

.PHONY: test-rust
test-rust: ## All tests, the stock CLI's among them
	@scripts/setup.sh build tools stock-cli mcp-suites
	cargo build --workspace --bins $(FEATURES) --locked
	if cargo nextest --version >/dev/null 2>&1; then \
	    cargo nextest run --workspace $(FEATURES) --locked --no-fail-fast; \
	    cargo test --workspace $(FEATURES) --doc --locked; \
	else \
	    cargo test --workspace $(FEATURES) --locked --no-fail-fast; \
	fi

.PHONY: test-unprivileged
test-unprivileged: ## The sandbox, server and client tests as uid 65532 without capabilities (needs root)
	@scripts/setup.sh build tools
	@scripts/test-unprivileged.sh

.PHONY: attack
attack: ## Hostile commands against the built server: on the host, as older kernels would have it, in containers
	@scripts/setup.sh build
	cargo build --workspace $(FEATURES) --locked --bins --example hostile
	@ATTACK_BIN="$(TARGET_DIR)/debug" scripts/attack.sh

.PHONY: attack-quick
attack-quick: ## The same without the older kernels
	@scripts/setup.sh build
	cargo build --workspace $(FEATURES) --locked --bins --example hostile
	@ATTACK_BIN="$(TARGET_DIR)/debug" scripts/attack.sh host containers

.PHONY: keep-working
keep-working: ## Which tools work under the sandbox: on this machine and in containers (all of it needs root)
	@scripts/setup.sh build
	@cargo build --workspace $(FEATURES) --quiet --bins --locked
	@scripts/keep-working.sh "$(TARGET_DIR)/debug/sandbox-sidecar"

.PHONY: cross
cross: ## Type-check for the other platforms
	@scripts/setup.sh build cross
	cargo check --workspace --all-targets --locked --target aarch64-unknown-linux-gnu
	cargo check --package sidecar-protocol --package agent-client --locked --target aarch64-apple-darwin

.PHONY: helm
helm: ## The charts and plain manifests: rendered, validated, their alerts fired
	@scripts/setup.sh deploy
	cd tests/deploy && ../../target/deploy/venv/bin/python -m pytest -q -p no:cacheprovider

.PHONY: chart-docs
chart-docs: ## Write the charts' README files anew from values.yaml
	@scripts/setup.sh deploy
	target/deploy/venv/bin/python scripts/chart-docs.py

.PHONY: k8s
k8s: ## Write deploy/k8s anew from the charts
	@scripts/setup.sh deploy
	PATH="$(CURDIR)/target/deploy/bin:$$PATH" target/deploy/venv/bin/python scripts/kustomize-sync.py

.PHONY: images
images: ## Build the images: REGISTRY=… BASE_DEBIAN=…@sha256:… PLATFORM=linux/arm64 TARGETS=static
	@scripts/images.sh release

.PHONY: sbom
sbom: ## CycloneDX files of the sources and of IMAGES="…"
	@scripts/setup.sh deploy
	@scripts/sbom.sh $(IMAGES)

.PHONY: e2e
e2e: ## The images, the chart's pods in real containers with a real Prometheus, the pages of docs/agents (needs root)
ifneq ($(shell id -u),0)
	@echo 'e2e: not root, so no containers: the images and the pods are NOT tested' >&2
else
	@scripts/setup.sh build deploy containers stock-cli claude-code mcp-suites wheels
	cargo fetch --quiet --locked
	@scripts/images.sh e2e
	cd tests/kube && ../../target/deploy/venv/bin/python -m pytest -q -p no:cacheprovider --durations=10
endif

.PHONY: pictures
pictures: ## Draw the dashboards anew for the docs, from the series of a test run (after make e2e)
	@scripts/setup.sh deploy containers
	target/deploy/venv/bin/pip install --quiet matplotlib==3.10.7
	mkdir -p docs/pictures
	cd tests/kube && PICTURES=$(CURDIR)/docs/pictures ../../target/deploy/venv/bin/python -m pytest -q -p no:cacheprovider test_metrics.py -k pictures

.PHONY: bench
bench: ## The built server against its baselines; writes docs/performance.md (an idle machine, as root)
	@scripts/setup.sh build stock-cli
	cargo build --workspace --bins --release --locked
	ulimit -n 8192; E2E_BIN_DIR="$(TARGET_DIR)/release" "$(TARGET_DIR)/release/bench" --document docs/performance.md

.PHONY: bench-smoke
bench-smoke: ## A little of it: that each figure is produced, whatever it is
	@scripts/setup.sh build stock-cli
	cargo build --workspace $(FEATURES) --bins --locked
	"$(E2E_BIN_DIR)/bench" --smoke

.PHONY: bench-micro
bench-micro: ## The benchmarks beside the code: codec, path, ring, launch
	@scripts/setup.sh build
	cargo bench --workspace --locked --bench codec --bench path --bench ring --bench launch

.PHONY: fuzz
fuzz: ## Fuzz every target for 20 minutes, two at a time; FUZZ_SECONDS=…, TARGETS="…"
	@scripts/setup.sh build fuzz
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),1200) $(TARGETS)

.PHONY: fuzz-quick
fuzz-quick: ## The same for 20 seconds each, each time by the same chance
	@scripts/setup.sh build fuzz
	@FUZZ_SEED=1 scripts/fuzz.sh 20 $(TARGETS)

.PHONY: cases
cases: ## The cases from the field and the model of a session, N=20 times each
	@scripts/setup.sh build tools
	cargo build --workspace $(FEATURES) --bins --locked
	@scripts/cases.sh $(or $(N),20)

.PHONY: soak
soak: ## A server under mixed load for half an hour, and what is left of it; SOAK_SECONDS=…
	@scripts/setup.sh build
	cargo build --workspace --bins --locked --release
	@E2E_BIN_DIR=$(TARGET_DIR)/release $(TARGET_DIR)/release/soak $(or $(SOAK_SECONDS),1800)

.PHONY: crowd
crowd: ## What each of 2,000 idle connections and of 500 live processes costs
	@scripts/setup.sh build
	cargo build --workspace --bins --locked --release
	@ulimit -n 8192; E2E_BIN_DIR=$(TARGET_DIR)/release $(TARGET_DIR)/release/soak crowd

.PHONY: golden
golden: ## Write the golden frames anew; read the diff then
	UPDATE_GOLDEN=1 cargo test --package sidecar-protocol --test golden

.PHONY: clean-containers
clean-containers: ## Remove the images and containers that scripts/containers.sh made (needs root)
	@scripts/containers.sh clean

.PHONY: docs-tables
docs-tables: ## Write the tables of docs/sandbox.md, and docs/protocol.schema.json, anew from the code
	UPDATE_DOCS=1 cargo test --package sidecar-sandbox --lib tables
	UPDATE_DOCS=1 cargo test --package agent-client --test documents schema
