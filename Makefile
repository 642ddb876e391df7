# Dovetail needs Go, make and a C compiler; everything else is built from pinned modules.
# `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
export GO
# Version control is read below, once, and only for the version: with -buildvcs every build would read it too, and fail in
# a checkout that git calls dubious. With trimmed paths a second clone finds compiled what the first one compiled, and
# without cgo the image consists of the same packages as everything else. internal/gate sets the same three.
export GOFLAGS := $(filter-out -buildvcs=% -trimpath,$(GOFLAGS)) -buildvcs=false -trimpath
export CGO_ENABLED := 0
# The module says which Go it needs; a surrounding workspace would change what is built.
export GOWORK := off

MODULE  := github.com/dovetail-sh/dovetail
# The program, the tag of the image and the packaged charts have one version.
VERSION ?= $(shell tools/version.sh)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# When the commit was made, so that two builds of it are equal.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
LDFLAGS  = -X $(MODULE)/internal/version.Version=$(VERSION) -X $(MODULE)/internal/version.Commit=$(COMMIT)

# kubectl and helm know the version of Kubernetes only when the linker tells them; the control plane tells itself.
# The flags are those of sandbox/harness, so that nothing is linked twice.
kubernetes-version = $(shell $(GO) -C sandbox list -m -f '{{.Version}}' k8s.io/kubernetes | awk -F'[v.]' '{ printf "$(1)", $(2) }')
kubectl-flags = $(call kubernetes-version,-X k8s.io/component-base/version.gitVersion=%s -X k8s.io/component-base/version.gitMajor=%s -X k8s.io/component-base/version.gitMinor=%s,$$0$(comma) $$2$(comma) $$3)
helm-flags = $(call kubernetes-version,-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=%s -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=%s,$$2$(comma) $$3)
comma := ,
build-helm = $(GO) build -C sandbox/clients/helm -ldflags '$(helm-flags)' -o ../../../bin/helm helm.sh/helm/v3/cmd/helm

CHECKS   ?= 10000
SEEDS    ?= 20000
FROM     ?= 1
FUZZTIME ?= 60s
SOAK     ?= 20
EXPLORE  ?= 10m
PLATFORMS ?= linux/amd64,linux/arm64
BENCH    ?= .
COUNT    ?= 1
PKG      ?=
RULE     ?=

# Scenarios are made anew for each run unless SCENARIO_DIR holds files to use. WORKERS=0 leaves each tool
# at its default: dovetail decides with one worker per CPU, the peer with one. Any other number holds for
# both. The peer takes minutes for the larger scenarios, so that bench-peer runs them only when named.
SCENARIOS    ?=
SCENARIO_DIR ?=
SEED         ?= 1
WORKERS      ?= 0
PEER_TIMEOUT ?= 1m
BARS         ?=
peer-scenarios = $(or $(SCENARIOS),s1-500 s2-500 s3-2000 s6-1000 s7-1000 c1-200 c3-50 c4-4 c4-8 c5-20)
run-scenarios  = $(GO) run ./internal/bench -workers $(WORKERS) \
	$(if $(SCENARIO_DIR),-existing -dir '$(SCENARIO_DIR)',-dir bin/scenarios -seed $(SEED))

TOOLS    := bin/tools
GOLANGCI := $(TOOLS)/golangci-lint

# Runs steps of the gate. STEP=lint,race runs these; V=1 prints every package; LANES=1 runs one step at a
# time; KEEP_GOING=1 goes on after a failure; FRESH=1 runs tests although Go's cache has their results.
STEP       ?=
V          ?=
LANES      ?= 2
KEEP_GOING ?=
FRESH      ?=
gate = $(GO) build -o bin/gate ./internal/gate && exec bin/gate -lanes $(LANES) $(if $(V),-v) $(if $(KEEP_GOING),-keep-going) $(if $(FRESH),-fresh) \
	$(if $(STEP),-step '$(STEP)')

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
clients: ## bin/kubectl, bin/helm and bin/tofu, to try the sandbox with (some minutes the first time)
	$(GO) build -C sandbox -ldflags '$(kubectl-flags)' -o ../bin/kubectl k8s.io/kubernetes/cmd/kubectl
	$(build-helm)
	$(GO) build -C sandbox/terraform/tofu -o ../../../bin/tofu github.com/opentofu/opentofu/cmd/tofu

.PHONY: demo
demo: build sandbox ## the main job, on the embedded sandbox; OPEN=1 leaves it running, with the web page
	bin/sandbox demo $(if $(OPEN),--open)

.PHONY: image
image: ## dist/image: an OCI layout for PLATFORMS, and dist/sbom; nothing is pulled or pushed
	$(GO) run -C tools/image . -root '$(CURDIR)' -o '$(CURDIR)/dist/image' -sbom '$(CURDIR)/dist/sbom' -platforms '$(PLATFORMS)' \
		-version '$(VERSION)' -commit '$(COMMIT)' -created '$(SOURCE_DATE_EPOCH)' -ldflags '$(LDFLAGS)'

.PHONY: charts
charts: ## dist/charts: both charts, packaged for the version of the build
	$(build-helm)
	rm -rf dist/charts
	for chart in karpenter karpenter-crd; do bin/helm package charts/$$chart --version '$(VERSION)' --app-version '$(VERSION)' --destination dist/charts; done

.PHONY: release-dry
release-dry: image charts ## dist/release: what a release consists of, with checksums; nothing is tagged or pushed
	VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' tools/release.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

##@ Test

.PHONY: quick
quick: ## while you work, under a minute: format, lint, unit tests; STEP=name[,name]
	@$(gate) -suite quick

.PHONY: test
test: ## everything CI runs; STEP=name[,name] runs a part (make steps lists them)
	@$(gate)

.PHONY: test-deep
test-deep: ## two to three hours: more seeds, checks and races, fuzzing, soak, benchmarks; SEEDS= CHECKS= FUZZTIME= SOAK= STEP=
	@$(gate) -suite deep -seeds $(SEEDS) -from $(FROM) -checks $(CHECKS) -fuzztime $(FUZZTIME) -soak $(SOAK)

.PHONY: explore
explore: ## random seeds for as long as you like; EXPLORE=10m
	@$(gate) -explore $(EXPLORE)

.PHONY: steps
steps: ## the steps that STEP= takes, and how long they took
	@$(gate) -step list

.PHONY: unit
unit: ## unit and property tests of the root module; PKG=./internal/reqs
	@$(gate) -step unit -pkg '$(PKG)'

.PHONY: race
race: ## those of packages with goroutines under the race detector; PKG=./internal/reqs for any
	@$(gate) -step race -pkg '$(PKG)'

.PHONY: sandbox-test
sandbox-test: ## tests against a real API server
	@$(gate) -step sandbox

.PHONY: sandbox-race
sandbox-race: ## the emulated AWS, the provider against it, the kubelets and their metrics under the race detector
	@$(gate) -step sandbox-race

.PHONY: arch
arch: ## import directions, package docs, names, go.mod budget
	@$(gate) -step arch

.PHONY: prop
prop: ## property tests, deeper; CHECKS=100000
	@$(gate) -step prop -checks $(CHECKS)

.PHONY: sim
sim: ## simulated clusters in virtual time, with faults; SEEDS=20000 FROM=1
	@$(gate) -step sim-deep -seeds $(SEEDS) -from $(FROM)

.PHONY: fuzz
fuzz: ## every fuzz target in turn; FUZZTIME=60s
	@$(gate) -step fuzz -fuzztime $(FUZZTIME)

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
bench-go: $(TOOLS)/benchstat ## Go benchmarks with allocation counts; BENCH=Intersect COUNT=10, then bin/tools/benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(or $(PKG),./...)

.PHONY: sandbox-bench
sandbox-bench: sandbox ## 1,000 nodes and 10,000 pods in the sandbox: time, CPU and memory by part (3 minutes)
	bin/sandbox bench

.PHONY: bench-controller
bench-controller: build sandbox ## the controller against its bars: memory, CPU, time, requests; BARS='small burst'
	bin/sandbox bench controller $(BARS)

.PHONY: rules
rules: ## which tests hold which rules of docs/spec, and which rules have none; RULE=SC-04 for one
	@$(GO) run ./internal/arch/rules $(RULE)

##@ Check

.PHONY: lint
lint: ## golangci-lint, with all of go vet
	@$(gate) -step lint

.PHONY: sandbox-lint
sandbox-lint: ## golangci-lint on the sandbox
	@$(gate) -step sandbox-lint

.PHONY: fmt
fmt: $(GOLANGCI) ## format every Go file, nested modules included
	$(GOLANGCI) fmt

.PHONY: fmt-check
fmt-check: ## fail when fmt would change a file
	@$(gate) -step format

.PHONY: verify
verify: ## generated files and go.mod files are fresh
	@$(gate) -step verify

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## known vulnerabilities (asks the Go vulnerability database)
	$(TOOLS)/govulncheck ./...

##@ Generate

.PHONY: generate
generate: $(TOOLS)/controller-gen ## deepcopy functions, CRDs, reference documentation
	$(TOOLS)/controller-gen object paths=./api/...
	$(GO) run ./internal/gen -controller-gen $(TOOLS)/controller-gen

.PHONY: docs
docs: generate ## the same; the reference pages are generated with the CRDs

.PHONY: tidy
tidy: ## go mod tidy in every module
	for dir in . tools tools/image sandbox sandbox/clients/helm sandbox/terraform/tofu sandbox/terraform/kubectl sandbox/terraform/providers sandbox/awsemu/catalogue/generate internal/console/browser; do (cd $$dir && $(GO) mod tidy); done
	cd bench/peer && GOTOOLCHAIN=auto $(GO) mod tidy

##@ Set up

.PHONY: tools
tools: $(GOLANGCI) $(TOOLS)/controller-gen ## build the pinned tools of the gate into bin/tools

# One at a time, when a target first needs it.
$(TOOLS)/%: tools/go.mod tools/go.sum
	$(GO) build -C tools -o ../$@ $$($(GO) -C tools list tool | grep '/$*$$')
	@touch $@

.PHONY: hooks
hooks: ## check formatting before each commit
	git config core.hooksPath .githooks
