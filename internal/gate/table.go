package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// suites are the selections of steps that a make target runs.
var suites = map[string][]string{
	"quick": {"format", "lint-changed", "unit"},
	"test": {
		"sandbox-build", "format", "lint", "verify", "pure", "race", "sim", "image", "page", "sandbox-race", "sandbox", "sandbox-lint", "iam-script", "terraform",
	},
	"deep": {"soak", "planted", "image-deep", "iam-script", "interrupted", "terraform", "race-pure", "prop", "sim-deep", "fuzz", "bench", "sandbox-bench", "bars"},
}

// settings are what the caller may choose about steps.
type settings struct {
	root     string   // of the repository, as an absolute path
	packages []string // for unit and race; empty means all
	fresh    bool     // run tests although Go's cache has their results
	sources  string   // digest of the repository, see sourcesDigest
	seeds    uint64   // of sim-deep
	from     uint64   // the first of them
	checks   int      // of each property, in prop
	soak     int      // how often soak runs each flow
	fuzzTime time.Duration
	changed  []string // files that differ from the main branch, for lint-changed
}

const (
	simPackage         = "./internal/sim"
	determinismPackage = "./internal/determinism"
	lintTool           = "bin/tools/golangci-lint"
	imageModule        = "tools/image"
	browserModule      = "internal/console/browser"
	scriptPackage      = "./setup"     // in the sandbox
	terraformPackage   = "./terraform" // in the sandbox
)

// startsKubernetes says whether a package that imports this one runs control planes in its tests: in a process of its own
// or, where it is linked with Kubernetes, in that of the test. Kubernetes compiles for minutes, so it is compiled once, in
// the sandbox's module, with the flags of `make sandbox`, and never for the race detector.
func startsKubernetes(importPath string) bool {
	return strings.HasPrefix(importPath, "k8s.io/kubernetes/") || importPath == module+"/sandbox/controlplane"
}

// steps returns all there are. A lane runs them in this order: what takes seconds first, and what needs
// Kubernetes typed or compiled after sandbox-build, which alone compiles it.
//
// Lint runs every analyzer of go vet, over tests too, so that no step runs vet again; in the sandbox
// that would read all of Kubernetes once more.
func steps(all survey, o settings) catalogue {
	list := slices.Concat(checkSteps(all, o), rootSteps(all, o), sandboxSteps(all, o), deepSteps(all, o))
	if o.fresh {
		list.uncache()
	}
	return list
}

func checkSteps(all survey, o settings) catalogue {
	return catalogue{
		{
			name: "sandbox-build", about: "compile Kubernetes, its clients, the controller and the tests on them", lane: laneCluster, usually: 30 * time.Second,
			// All that the tests of the sandbox build while they run, so that they need not wait for a compiler.
			commands: []command{
				compile("the controller", "", "./cmd/dovetail"),
				compile("Kubernetes, ten minutes the first time", "sandbox", "-test", "./...", "k8s.io/kubernetes/cmd/kubectl"),
				compile("helm", "sandbox/clients/helm", "helm.sh/helm/v3/cmd/helm"),
			},
		},
		{
			name: "tools", about: "build golangci-lint and controller-gen into bin/tools", lane: laneCPU, usually: 2 * time.Second,
			commands: []command{{argv: []string{"make", lintTool, "bin/tools/controller-gen"}}},
		},
		{
			name: "format", about: "every Go file is formatted", mend: "make fmt", lane: laneCPU, needs: []string{"tools"}, usually: 3 * time.Second,
			commands: []command{{argv: []string{lintTool, "fmt", "--diff"}}},
		},
		{
			name: "lint", about: "golangci-lint, with all of go vet", lane: laneCPU, needs: []string{"tools"}, usually: 20 * time.Second,
			commands: []command{
				{argv: []string{lintTool, "run", "./..."}},
				{what: "the builder of the image", dir: imageModule, argv: []string{"../../" + lintTool, "run", "./..."}},
				{what: "the tests of the page", dir: browserModule, argv: []string{"../../../" + lintTool, "run", "./..."}},
			},
		},
		{
			name: "lint-changed", about: "golangci-lint on the packages of the root module that you changed", lane: laneCPU, needs: []string{"tools"}, usually: 10 * time.Second,
			commands: lintChanged(all.changed(o.changed)),
		},
		{
			name: "verify", about: "generated files and go.mod files are fresh", mend: "make generate tidy", lane: laneCPU, needs: []string{"tools"}, usually: 15 * time.Second,
			commands: []command{{argv: []string{"tools/verify.sh"}}},
		},
	}
}

// rootSteps test the root module: packages with goroutines under the race detector, the rest without.
func rootSteps(all survey, o settings) catalogue {
	notSim := func(p goPackage) bool { return p.pattern() != simPackage }
	unit := chosen(o, all.patternsWhere(".", notSim))
	// What is compared there are processes, which the race detector makes many times slower and says nothing of.
	plain := func(p goPackage) bool { return !p.concurrent || p.pattern() == determinismPackage }
	pure := all.patternsWhere(".", func(p goPackage) bool { return notSim(p) && plain(p) })
	raced := chosen(o, all.patternsWhere(".", func(p goPackage) bool { return notSim(p) && !plain(p) }))
	return catalogue{
		{
			name: "arch", about: "import directions, package documentation, names, size of go.mod", lane: laneCPU, usually: 5 * time.Second,
			commands: []command{goTestOf("", []string{"-vet=off"}, []string{"./internal/arch/..."}, nil)},
		},
		{
			name: "unit", about: "unit and property tests of the root module, without race detector and simulation", lane: laneCPU, usually: 30 * time.Second,
			commands: []command{goTestOf("", []string{"-vet=off"}, unit, nil)},
		},
		{
			name: "pure", about: "unit and property tests of the packages without goroutines, and the rules of the repository", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: 20 * time.Second,
			commands: []command{goTestOf("", []string{"-vet=off"}, pure, nil)},
		},
		{
			name: "race", about: "unit and property tests of the packages with goroutines, under the race detector", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: time.Minute,
			commands: []command{raced.race("")},
		},
		{
			name: "sim", about: "2,000 simulated clusters and days of churn", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: 2 * time.Minute,
			commands: []command{goTestOf("", []string{"-vet=off", "-timeout=30m"}, []string{simPackage}, nil)},
		},
		{
			name: "image", about: "the image for amd64, built twice, and what is in it", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: 20 * time.Second,
			commands: []command{goTestOf(imageModule, []string{"-vet=off", "-timeout=30m", o.keyed()}, []string{"./..."}, nil)},
		},
		{
			name: "page", about: "the web page, in headless Chromium", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: 30 * time.Second,
			commands: []command{goTestOf(browserModule, []string{"-vet=off", "-timeout=30m"}, []string{"./..."}, nil)},
		},
	}
}

// sandboxSteps test the sandbox. What is not linked with Kubernetes runs under the race detector; the
// rest runs on control planes; keyed adds its other inputs to the key of the cache. Two are about few files,
// take long, and have steps of their own that name these.
func sandboxSteps(all survey, o settings) catalogue {
	linked := all.reaching(startsKubernetes)
	ownStep := func(p goPackage) bool { return p.pattern() == scriptPackage || p.pattern() == terraformPackage }
	raced := all.patternsWhere("sandbox", func(p goPackage) bool { return !linked[p.dir] && !ownStep(p) })
	onPlane := all.patternsWhere("sandbox", func(p goPackage) bool { return linked[p.dir] && !ownStep(p) })
	return catalogue{
		{
			name: "sandbox-race", about: "emulated AWS, provider, kubelets and metrics, under the race detector", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: time.Minute,
			commands: []command{raced.race("sandbox")},
		},
		{
			name: "sandbox", about: "tests on real control planes", lane: laneCluster,
			needs: []string{"sandbox-build"}, usually: 10 * time.Minute,
			commands: []command{onPlanes([]string{"-vet=off", "-p=3", "-timeout=30m", o.keyed()}, onPlane)},
		},
		{
			name: "sandbox-lint", about: "golangci-lint on the sandbox; needs 4 GB of memory", lane: laneCPU,
			needs: []string{"tools"}, after: []string{"sandbox-build"}, usually: time.Minute,
			commands: []command{
				{dir: "sandbox", env: []string{"GOWORK=" + filepath.Join(o.root, "sandbox", "lint.work")}, argv: []string{"../" + lintTool, "run", "./..."}},
			},
		},
		{
			name: "iam-script", about: "the script that prepares an AWS account, with the real aws", lane: laneCPU,
			after: []string{"sandbox-build"}, usually: 3 * time.Minute,
			inputs:   []string{"hack", "iam", "sandbox/awscli", "sandbox/awsemu", "sandbox/setup"},
			commands: []command{goTestOf("sandbox", []string{"-vet=off", "-count=1", "-timeout=30m"}, []string{scriptPackage}, nil)},
		},
		{
			name: "terraform", about: "the Terraform module with OpenTofu, from init to destroy", lane: laneCluster,
			needs: []string{"sandbox-build", "tools"}, usually: 5 * time.Minute,
			inputs: []string{"charts", "docs/how-to/install-terraform.md", "iam", "sandbox/awsemu", "sandbox/go.mod", "sandbox/terraform", "terraform"},
			commands: []command{
				{what: "lint of the providers", dir: "sandbox/terraform/providers", argv: []string{"../../../" + lintTool, "run", "./..."}},
				compile("OpenTofu, five minutes the first time", "sandbox/terraform/tofu", "github.com/opentofu/opentofu/cmd/tofu"),
				compile("its provider of Kubernetes objects", "sandbox/terraform/kubectl", "github.com/gavinbunney/terraform-provider-kubectl"),
				compile("its other providers", "sandbox/terraform/providers", "./...", "github.com/hashicorp/terraform-provider-time"),
				onPlanes([]string{"-vet=off", "-count=1", "-timeout=30m"}, []string{terraformPackage}),
			},
		},
	}
}

// deepSteps look further than the gate does; each says how long it takes on two cores. What measures runs
// alone.
func deepSteps(all survey, o settings) catalogue {
	pure := all.patternsWhere(".", func(p goPackage) bool { return !p.concurrent })
	return catalogue{
		{
			// In the other lane: the steps beside it keep the cores busy, and no flow may mind.
			name: "soak", about: fmt.Sprintf("every flow on real control planes %d times (SOAK), beside the other steps", o.soak), lane: laneCluster,
			needs: []string{"sandbox-build"}, usually: time.Duration(max(1, o.soak)) * 6 * time.Minute,
			commands: []command{onPlanes([]string{"-vet=off", fmt.Sprintf("-count=%d", o.soak), "-timeout=0"}, []string{"./flow"})},
		},
		{
			name: "planted", about: "the determinism test finds every bug that is planted for it", lane: laneCPU, usually: time.Minute,
			commands: []command{{env: []string{"DOVETAIL_DEEP=1"}, test: &goTest{flags: []string{"-vet=off", "-count=1"}, packages: []string{determinismPackage}}}},
		},
		{
			name: "image-deep", about: "the image for both architectures, compiled twice", lane: laneCPU, usually: 15 * time.Minute,
			commands: []command{{dir: imageModule, env: []string{"DOVETAIL_DEEP=1"}, test: &goTest{flags: []string{"-vet=off", "-count=1", "-timeout=0"}, packages: []string{"./..."}}}},
		},
		{
			name: "interrupted", about: "the script that prepares an AWS account, killed after each call that writes", lane: laneCPU, usually: 3 * time.Minute,
			commands: []command{{dir: "sandbox", env: []string{"DOVETAIL_DEEP=1"}, test: &goTest{flags: []string{"-vet=off", "-count=1", "-timeout=0", "-run=Interrupted"}, packages: []string{"./setup"}}}},
		},
		{
			name: "race-pure", about: "the packages without goroutines under the race detector too", lane: laneCPU, usually: 10 * time.Minute,
			commands: []command{pure.race("")},
		},
		{
			name: "prop", about: fmt.Sprintf("property tests, %d checks each (CHECKS)", o.checks), lane: laneCPU, usually: 30 * time.Minute,
			commands: []command{propertiesOf(all, fmt.Sprintf("-rapid.checks=%d", o.checks))},
		},
		{
			name: "sim-deep", about: fmt.Sprintf("%d simulated clusters (SEEDS) from seed %d on (FROM)", o.seeds, o.from), lane: laneCPU, usually: 30 * time.Minute,
			commands: []command{goTestOf("", []string{"-vet=off", "-timeout=0"}, []string{simPackage}, []string{fmt.Sprintf("-seeds=%d", o.seeds), fmt.Sprintf("-from=%d", o.from)})},
		},
		{
			name: "fuzz", about: fmt.Sprintf("every fuzz target for %s (FUZZTIME)", o.fuzzTime), lane: laneCPU, usually: time.Duration(len(fuzzCommands(all, o.fuzzTime))) * (o.fuzzTime + 5*time.Second),
			commands: fuzzCommands(all, o.fuzzTime),
		},
		{
			name: "bench", about: "every scenario is planned for: time, memory, cost, lower bound, gap", lane: laneCPU, after: []string{"soak"}, usually: 5 * time.Minute,
			commands: []command{{argv: []string{"make", "bench"}}},
		},
		{
			name: "sandbox-bench", about: "1,000 nodes and 10,000 pods in the sandbox", lane: laneCPU, after: []string{"soak"}, usually: 4 * time.Minute,
			commands: []command{{argv: []string{"make", "sandbox-bench"}}},
		},
		{
			name: "bars", about: "the controller against its bars: memory, CPU, time, requests", lane: laneCPU, after: []string{"soak"}, usually: 20 * time.Minute,
			commands: []command{{argv: []string{"make", "bench-controller"}}},
		},
	}
}

// lintChanged is no command where nothing changed.
func lintChanged(packages patterns) []command {
	if len(packages) == 0 {
		return nil
	}
	return []command{{argv: slices.Concat([]string{lintTool, "run"}, packages)}}
}

// patterns are packages as the go command takes them.
type patterns []string

func (p patterns) race(dir string) command {
	c := goTestOf(dir, []string{"-vet=off", "-race"}, p, nil)
	c.env = []string{"CGO_ENABLED=1"}
	return c
}

// chosen are the packages that the caller named, or all that a step has.
func chosen(o settings, all patterns) patterns {
	if len(o.packages) > 0 {
		return o.packages
	}
	return all
}

// compile compiles packages and all they import, as go build and go test do, and links nothing.
func compile(what, dir string, args ...string) command {
	return command{what: what, dir: dir, compiles: true, argv: append([]string{"go", "list", "-deps", "-export", "-f", "{{with .Error}}{{.}}{{end}}"}, args...)}
}

func goTestOf(dir string, flags, packages, args []string) command {
	return command{dir: dir, test: &goTest{flags: flags, packages: packages, args: args}}
}

func onPlanes(flags, packages []string) command {
	return command{dir: "sandbox", test: &goTest{flags: flags, packages: packages, onPlane: true}}
}

// propertiesOf runs the property tests of the root module, and none beside them.
func propertiesOf(all survey, args ...string) command {
	var tests []string
	for _, p := range all {
		if p.module == "." {
			tests = append(tests, p.properties...)
		}
	}
	packages := all.patternsWhere(".", func(p goPackage) bool { return len(p.properties) > 0 })
	return goTestOf("", []string{"-vet=off", "-timeout=0", "-run=" + runAny(tests)}, packages, args)
}

// fuzzCommands run one fuzz target each: go test takes no more at once.
func fuzzCommands(all survey, d time.Duration) []command {
	var list []command
	for _, p := range all {
		dir := p.module
		if dir == "." {
			dir = ""
		}
		for _, target := range p.fuzz {
			// Making a large input smaller takes a minute by default, in which nothing new is tried.
			flags := []string{"-vet=off", "-run=^$", "-fuzz=^" + target + "$", "-fuzztime=" + d.String(), "-fuzzminimizetime=10x"}
			list = append(list, goTestOf(dir, flags, []string{p.pattern()}, nil))
		}
	}
	return list
}
