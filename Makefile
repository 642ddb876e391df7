# Dovetail needs Go, make and a C compiler; everything else is built from pinned modules.
# `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
# Version control is read below, once, and only for the version. Without this flag every build would
# read it too, and fail in a checkout that git calls dubious.
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false
# The module says which Go it needs; a surrounding workspace would change what is built.
export GOWORK := off

MODULE  := github.com/dovetail-sh/dovetail
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  = -X $(MODULE)/internal/version.Version=$(VERSION) -X $(MODULE)/internal/version.Commit=$(COMMIT)

# kubectl says which version it is only when the linker tells it; the control plane tells itself.
kubernetes-version = $(shell $(GO) -C sandbox list -m -f '{{.Version}}' k8s.io/kubernetes | awk -F'[v.]' '{ \
	printf "-X k8s.io/component-base/version.gitVersion=%s -X k8s.io/component-base/version.gitMajor=%s -X k8s.io/component-base/version.gitMinor=%s", $$0, $$2, $$3 }')

CHECKS   ?= 10000
SEEDS    ?= 20000
FROM     ?= 1
FUZZTIME ?= 60s
BENCH    ?= .
COUNT    ?= 1
PKG      ?= ./...

# Scenarios are made anew for each run unless SCENARIO_DIR holds files to use. WORKERS=0 leaves each tool
# at its default: dovetail decides with one worker per CPU, the peer with one. Any other number holds for
# both. The peer takes minutes for the larger scenarios, so that bench-peer runs them only when named.
SCENARIOS    ?=
SCENARIO_DIR ?=
SEED         ?= 1
WORKERS      ?= 0
PEER_TIMEOUT ?= 1m
BARS         ?=
peer-scenarios = $(or $(SCENARIOS),s1-500 s2-500 s3-2000 s6-1000 s7-1000 c1-200)
run-scenarios  = $(GO) run ./internal/bench -workers $(WORKERS) \
	$(if $(SCENARIO_DIR),-existing -dir '$(SCENARIO_DIR)',-dir bin/scenarios -seed $(SEED))

TOOLS     := bin/tools
GOLANGCI  := $(TOOLS)/golangci-lint
GOTESTSUM := $(CURDIR)/$(TOOLS)/gotestsum --format pkgname-and-test-fails --hide-summary skipped
RESULTS   := $(CURDIR)/bin/test
# Searches the test files of the root module.
TESTS     := grep -r --include='*_test.go' --exclude-dir=sandbox --exclude-dir=tools --exclude-dir=bin

##@ General

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## bin/dovetail
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/dovetail ./cmd/dovetail

.PHONY: sandbox
sandbox: ## bin/sandbox: Kubernetes, an emulated AWS and nodes in one process (ten minutes the first time)
	cd sandbox && $(GO) build -ldflags '$(LDFLAGS)' -o ../bin/sandbox ./cmd/sandbox

.PHONY: clients
clients: ## bin/kubectl and bin/helm, to try the sandbox with
	$(GO) build -C sandbox -ldflags '$(call kubernetes-version)' -o ../bin/kubectl k8s.io/kubernetes/cmd/kubectl
	$(GO) build -C sandbox/clients/helm -o ../../../bin/helm helm.sh/helm/v3/cmd/helm

.PHONY: demo
demo: build sandbox ## the main job, on the embedded sandbox
	bin/sandbox demo

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

##@ Test

.PHONY: test
test: ## everything CI runs
	@tools/test.sh

.PHONY: unit
unit: $(TOOLS)/.built ## unit and property tests of the root module; PKG=./internal/reqs
	@mkdir -p $(RESULTS)
	$(GOTESTSUM) --jsonfile $(RESULTS)/unit.json -- $(PKG)

.PHONY: race
race: $(TOOLS)/.built ## the same under the race detector
	@mkdir -p $(RESULTS)
	CGO_ENABLED=1 $(GOTESTSUM) --jsonfile $(RESULTS)/race.json -- -race $(PKG)

# Not under the race detector, and with the flags of `make sandbox`: anything else would compile
# Kubernetes a second time. For the same reason vet runs here as the part of it that go test includes.
# Never from the cache: it does not see that a manifest outside the module changed. Two packages at a time:
# each brings up a control plane of its own, and waits for most of the time. A flow that misses its patience
# on a busy machine runs again alone; which did is printed, and is a defect to mend.
.PHONY: sandbox-test
sandbox-test: $(TOOLS)/.built ## tests against a real API server
	@mkdir -p $(RESULTS)
	cd sandbox && $(GOTESTSUM) --jsonfile $(RESULTS)/sandbox.json --rerun-fails=2 --rerun-fails-max-failures=6 \
		--rerun-fails-report $(RESULTS)/reruns.txt --packages ./... -- -count=1 -p 2 -timeout 60m
	@if [ -s $(RESULTS)/reruns.txt ]; then echo "failed once and were run again:"; cat $(RESULTS)/reruns.txt; fi

# These parts of the sandbox do not import Kubernetes.
.PHONY: sandbox-race
sandbox-race: $(TOOLS)/.built ## the emulated AWS, the provider against it, the kubelets and their metrics under the race detector
	@mkdir -p $(RESULTS)
	cd sandbox && CGO_ENABLED=1 $(GOTESTSUM) --jsonfile $(RESULTS)/sandbox-race.json -- -race ./awsemu/... ./fakenode ./metricsapi ./provider

.PHONY: arch
arch: ## import directions, package docs, names, go.mod budget
	$(GO) test ./internal/arch/...

.PHONY: prop
prop: ## property tests, deeper; CHECKS=100000
	$(GO) test $$($(TESTS) -l '"pgregory.net/rapid"' . | xargs -n1 dirname | sort -u) \
		-timeout 0 -rapid.checks=$(CHECKS)

.PHONY: sim
sim: ## simulated clusters in virtual time, with faults; SEEDS=20000 FROM=1
	$(GO) test ./internal/sim -count=1 -timeout 0 -seeds=$(SEEDS) -from=$(FROM)

.PHONY: fuzz
fuzz: ## every fuzz target in turn; FUZZTIME=60s
	@$(TESTS) -Eo '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do \
		echo "==> $$(dirname $$file) $${func#func } for $(FUZZTIME)"; \
		$(GO) test $$(dirname $$file) -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) </dev/null; \
	done

.PHONY: bench
bench: build ## scenarios: time, memory, cost, bound, gap; SCENARIOS='s1-500 s2-500' SCENARIO_DIR=dir
	$(run-scenarios) $(SCENARIOS)

.PHONY: peer
peer: ## bin/peer: Karpenter over the same scenarios (needs a newer Go, which the go command fetches)
	cd bench/peer && GOTOOLCHAIN=auto $(GO) build -o ../../bin/peer .

.PHONY: bench-peer
bench-peer: build peer ## the same beside Karpenter, small scenarios; large ones: SCENARIOS='s2-20000 c1-2000' PEER_TIMEOUT=30m
	$(run-scenarios) -peer bin/peer -peer-timeout $(PEER_TIMEOUT) $(peer-scenarios)

.PHONY: bench-go
bench-go: ## Go benchmarks with allocation counts; BENCH=Intersect COUNT=10, then bin/tools/benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

.PHONY: sandbox-bench
sandbox-bench: sandbox ## 1,000 nodes and 10,000 pods in the sandbox: time, CPU and memory by part (3 minutes)
	bin/sandbox bench

.PHONY: bench-controller
bench-controller: build sandbox ## the controller against its bars: memory, CPU, time, requests; BARS='small burst'
	bin/sandbox bench controller $(BARS)

.PHONY: rules
rules: ## which rules of the specification are cited by which tests, and which by none
	@$(GO) run ./internal/arch/rules -missing compat/rules.txt

##@ Check

.PHONY: lint
lint: $(TOOLS)/.built ## golangci-lint
	$(GOLANGCI) run ./...

# Type checking needs Kubernetes compiled, with the flags of `make sandbox`, and 4 GB of memory.
.PHONY: sandbox-lint
sandbox-lint: $(TOOLS)/.built ## golangci-lint on the sandbox
	cd sandbox && $(CURDIR)/$(GOLANGCI) run ./...

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: fmt
fmt: $(TOOLS)/.built ## format every Go file, nested modules included
	$(GOLANGCI) fmt

.PHONY: fmt-check
fmt-check: $(TOOLS)/.built ## fail when fmt would change a file
	@$(GOLANGCI) fmt --diff || { echo "run make fmt" >&2; exit 1; }

.PHONY: verify
verify: $(TOOLS)/.built ## generated files and go.mod files are fresh
	@GO="$(GO)" tools/verify.sh

.PHONY: vuln
vuln: $(TOOLS)/.built ## known vulnerabilities (asks the Go vulnerability database)
	$(TOOLS)/govulncheck ./...

##@ Generate

.PHONY: generate
generate: $(TOOLS)/.built ## deepcopy functions, CRDs, reference documentation
	$(TOOLS)/controller-gen object paths=./api/...
	$(GO) run ./internal/gen -controller-gen $(TOOLS)/controller-gen

.PHONY: docs
docs: generate ## the same; the reference pages are generated with the CRDs

.PHONY: tidy
tidy: ## go mod tidy in every module
	for dir in . tools sandbox sandbox/clients/helm sandbox/awsemu/catalogue/generate; do (cd $$dir && $(GO) mod tidy); done
	cd bench/peer && GOTOOLCHAIN=auto $(GO) mod tidy

##@ Set up

.PHONY: tools
tools: $(TOOLS)/.built ## build the pinned developer tools into bin/tools

$(TOOLS)/.built: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	$(GO) build -C tools -o ../$(TOOLS)/ tool
	@touch $@

.PHONY: hooks
hooks: ## check formatting before each commit
	git config core.hooksPath .githooks
