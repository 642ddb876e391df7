package arch_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A layer says what its packages may import. Patterns: "a/b" is that package, "a/..." is a and
// everything below it, "std" is the standard library, "any" is everything outside this module.
// Our own packages are named from the root of the module.
type layer struct {
	packages []string
	may      []string
	never    []string // wins over may
}

// The allowed imports, bottom up; an import may only point down. Groups of package names come first.
var (
	values = []string{"std", "k8s.io/api/...", "k8s.io/apimachinery/..."}
	words  = []string{"internal/reqs", "internal/resources", "internal/reason", "internal/condition", "internal/duration", "internal/catalog", "internal/event", "internal/lp", "internal/near"}
	api    = []string{"api/..."}
	images = []string{"internal/aws/ami"} // for the API of AWS and what is built upon it
	view   = []string{"internal/cluster"}
	// These decide alone, as does budget, which may also use cron; disrupt composes them.
	single = join(alone, []string{"internal/drain", "internal/solve"})
	alone  = []string{"internal/drift"}
	// The parts of solve, bottom up: each may import those before it. No other package may import any.
	tools  = []string{"internal/solve/bitset", "internal/solve/parallel"}
	model  = join(tools, []string{"internal/solve/model"})
	exact  = join(model, []string{"internal/solve/exact"})
	shared = join(exact, []string{"internal/solve/explain", "internal/solve/pack", "internal/solve/spread"})
	rooms  = join(shared, []string{"internal/solve/bound", "internal/solve/consolidate"})
	life   = []string{"internal/lifecycle"}
	joint  = []string{"internal/disrupt", "internal/interruption", "internal/pool", "internal/reboot"}
	steps  = []string{"internal/disrupt/command"} // how decisions are carried out, as values
	port   = []string{"internal/cloud"}
	yaml   = []string{"sigs.k8s.io/yaml/...", "sigs.k8s.io/json/...", "go.yaml.in/yaml/..."}
	sdk    = []string{"github.com/aws/..."}

	// Packages with effects may not be imported by words, view and decisions.
	effects = join(sdk, []string{
		"k8s.io/client-go/...", "k8s.io/klog/...", "sigs.k8s.io/controller-runtime/...",
		"github.com/prometheus/...", "github.com/go-logr/...",
		"log", "log/slog", "math/rand", "net", "net/http", "os", "os/...", "syscall", "testing",
	})
)

var layers = map[string]layer{
	"0 words":     {packages: words, may: join(values, words), never: effects},
	"0 families":  {packages: images, may: []string{"std"}, never: effects},
	"0 api":       {packages: api, may: join(values, words, api), never: effects},
	"0 api, AWS":  {packages: []string{"api/aws/..."}, may: join(values, words, api, images), never: effects},
	"1 view":      {packages: view, may: join(values, words, api), never: effects},
	"2 overlay":   {packages: []string{"internal/overlay"}, may: join(values, words, api), never: effects},
	"2 decisions": {packages: alone, may: join(values, words, api, view), never: effects},
	"2 risk":      {packages: []string{"internal/risk"}, may: []string{"std"}, never: effects},
	"2 drain":     {packages: []string{"internal/drain"}, may: join(values, words, api, view, port), never: effects},
	"2 budget":    {packages: []string{"internal/budget"}, may: join(values, words, api, view, []string{"github.com/robfig/cron/v3"}), never: effects},
	"2 joint":     {packages: joint, may: join(values, words, api, view, single, port, []string{"internal/budget", "internal/lifecycle"}), never: effects},
	"2 buffer":    {packages: []string{"internal/buffer"}, may: join(values, words, api, view, []string{"internal/solve"}), never: effects},
	"2 steps":     {packages: steps, may: join(values, words, api, view, single, life, joint, []string{"internal/check"}), never: effects},
	"2 inspect":   {packages: []string{"internal/inspect"}, may: join(values, words, api, view, single, joint, []string{"internal/budget", "internal/check", "internal/provision"}), never: effects},
	"2 ledger":    {packages: []string{"internal/ledger"}, may: join(values, words, view, []string{"internal/inspect"}), never: effects},
	"2 provision": {packages: []string{"internal/provision"}, may: join(values, words, api, view, port, []string{"internal/check", "internal/solve"}), never: effects},
	"2 lifecycle": {packages: life, may: join(values, words, api, view, port), never: effects},
	"2 scripts":   {packages: []string{"internal/script"}, may: join(values, words, api, view, single, []string{"internal/check"}), never: effects},
	"2 convert":   {packages: []string{"internal/convert"}, may: join(values, words, api, images, yaml, []string{"internal/budget"}), never: effects},
	"2 scenario":  {packages: []string{"internal/scenario"}, may: join(values, words, api, view, single, yaml), never: effects},
	"2 check":     {packages: []string{"internal/check"}, may: join(values, words, api, view, []string{"internal/solve"}), never: effects},

	// What is known of devices. The allocator is kube-scheduler's, and as pure as we are: its context is ours.
	"2 devices": {packages: []string{"internal/devices"}, may: join(values, words, view, []string{"k8s.io/dynamic-resource-allocation/cel", "k8s.io/dynamic-resource-allocation/structured"}), never: effects},

	"2 solve":             {packages: []string{"internal/solve"}, may: join(values, words, api, view, rooms), never: effects},
	"2 solve tools":       {packages: tools, may: []string{"std"}, never: effects},
	"2 solve model":       {packages: []string{"internal/solve/model"}, may: join(values, words, api, view, tools, []string{"internal/devices"}), never: effects},
	"2 solve exact":       {packages: []string{"internal/solve/exact"}, may: join(values, words, api, view, model, []string{"internal/devices"}), never: effects},
	"2 solve bound":       {packages: []string{"internal/solve/bound"}, may: join(values, words, api, view, model), never: effects},
	"2 solve pack":        {packages: []string{"internal/solve/pack"}, may: join(values, words, api, view, exact), never: effects},
	"2 solve explain":     {packages: []string{"internal/solve/explain"}, may: join(values, words, api, view, exact), never: effects},
	"2 solve spread":      {packages: []string{"internal/solve/spread"}, may: join(values, words, api, view, exact), never: effects},
	"2 solve consolidate": {packages: []string{"internal/solve/consolidate"}, may: join(values, words, api, view, shared), never: effects},

	"3 port": {packages: port, may: join(values, words, api), never: effects},
	// The simulator runs the store of the controller, which is fed by informers, and
	// the code that creates claims; it has no effects outside of a run.
	"3 simulator": {
		packages: []string{"internal/sim"},
		may: join(values, words, api, view, single, joint, steps, life, port, []string{
			"internal/budget", "internal/buffer", "internal/check", "internal/devices", "internal/execute", "internal/overlay", "internal/provision", "internal/risk", "internal/store", "k8s.io/dynamic-resource-allocation/cel", "k8s.io/dynamic-resource-allocation/structured", "sigs.k8s.io/controller-runtime/...", "k8s.io/client-go/tools/cache",
		}),
		never: sdk,
	},

	// The store is fed by informers and builds views. Decisions about a view are made by its callers.
	"4 store": {
		packages: []string{"internal/store"},
		may:      join(values, words, api, view, []string{"k8s.io/client-go/tools/cache", "sigs.k8s.io/controller-runtime/pkg/cache", "sigs.k8s.io/controller-runtime/pkg/client"}),
	},
	"4 effects": {
		packages: []string{"internal/execute", "internal/report", "internal/journal", "internal/metric", "internal/snapshot", "internal/inspect/api", "internal/ledger/keep", "internal/replay"},
		may:      []string{"any", "api/...", "internal/..."},
		never:    join(sdk, shells, []string{"internal/aws/..."}),
	},
	// What all clouds share, and what the wiring takes from one. It knows no cloud by name.
	"4 clouds": {
		packages: []string{"internal/cloud/..."},
		may:      []string{"any", "api/v1", "internal/..."},
		never:    join(sdk, shells, []string{"internal/aws/..."}),
	},
	"4 aws": {
		packages: []string{"internal/aws/..."},
		may:      []string{"any", "api/...", "internal/..."},
		never:    shells,
	},
	"4 settings": {packages: []string{"internal/aws/settings"}, may: []string{"std", "internal/config"}, never: effects},
	"4 classes":  {packages: []string{"internal/aws/classhash"}, may: join(values, words, api, []string{"internal/drift"}), never: effects},
	"4 kubelet":  {packages: []string{"internal/aws/kubelet"}, may: join(values, words, api, images, yaml, []string{"k8s.io/kubelet/...", "github.com/google/cel-go/..."}), never: effects},
	"4 userdata": {packages: []string{"internal/aws/userdata"}, may: join(values, words, images, yaml, []string{"internal/aws/kubelet", "github.com/BurntSushi/toml"}), never: effects},

	"5 scripts": {packages: []string{"hack"}, may: []string{"std"}, never: effects},
	"5 iam":     {packages: []string{"iam"}, may: []string{"std"}, never: effects},
	"5 rights":  {packages: []string{"internal/rights"}, may: []string{"std"}, never: effects},
	"5 config":  {packages: []string{"internal/config"}, may: join(values, yaml, []string{"github.com/spf13/pflag", "internal/near"}), never: effects},
	"5 page":    {packages: []string{"internal/console"}, may: []string{"std"}},
	"5 columns": {packages: []string{"internal/columns"}, may: []string{"std"}, never: effects},
	"5 top":     {packages: []string{"internal/top"}, may: []string{"std", "charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi", "internal/columns", "internal/inspect", "k8s.io/apimachinery/pkg/util/duration"}},
	// The one place that knows which clouds there are. Commands and generators take a driver from it.
	"5 drivers": {packages: []string{"internal/drivers"}, may: []string{"internal/aws", "internal/cloud/driver"}},
	"5 version": {packages: []string{"internal/version"}, may: []string{"std"}},
	// A controller is a shell: what several of them need is below it, and none of them imports another.
	"5 loops":       {packages: []string{"internal/controller/loop", "internal/controller/lookup"}, may: []string{"any", "api/...", "internal/..."}, never: join(notForControllers, []string{"internal/controller/..."})},
	"5 writes":      {packages: []string{"internal/controller/write"}, may: []string{"any", "api/...", "internal/..."}, never: join(notForControllers, concerns, []string{"internal/controller/loop"})},
	"5 controllers": {packages: concerns, may: []string{"any", "api/...", "internal/..."}, never: join(notForControllers, concerns)},
	"5 uninstall":   {packages: []string{"internal/uninstall"}, may: join(values, api, []string{"internal/cloud/driver", "internal/condition", "internal/lifecycle", "k8s.io/client-go/util/retry", "k8s.io/klog/...", "sigs.k8s.io/controller-runtime/..."})},
	"5 wiring":      {packages: []string{"internal/app"}, may: []string{"any", "api/v1", "internal/..."}, never: join(sdk, offline, []string{"internal/admission", "internal/aws/...", "internal/drivers", "internal/cli", "internal/scenario"})},
	"6 commands":    {packages: []string{"cmd/...", "internal/cli"}, may: []string{"any", "api/...", "internal/..."}, never: join(sdk, offline, []string{"api/aws/...", "internal/aws/..."})},

	// Validates manifests with the API server's libraries: for commands and tests, never for the controller.
	"judge":       {packages: []string{"internal/admission"}, may: join(values, api, yaml, []string{"k8s.io/apiextensions-apiserver/...", "k8s.io/apiserver/..."})},
	"judge cases": {packages: []string{"internal/admission/cases"}, may: join(values, yaml)},

	"controller tests": {packages: []string{"internal/controller/controllertest"}, may: []string{"any", "api/...", "internal/..."}, never: join(sdk, concerns, []string{"internal/app", "internal/cli"})},
	"cluster files":    {packages: []string{"internal/snapshot/snapshottest"}, may: []string{"any", "api/...", "internal/..."}, never: join(sdk, concerns, []string{"internal/app", "internal/cli"})},
	"random problems":  {packages: []string{"internal/check/random"}, may: join(values, words, api, view, []string{"internal/solve"}), never: effects},
	"cloud tests":      {packages: []string{"internal/cloud/cloudtest"}, may: join(values, words, api, []string{"github.com/go-logr/logr", "github.com/prometheus/client_golang/prometheus", "k8s.io/client-go/rest", "sigs.k8s.io/controller-runtime/..."})},
	"same clouds":      {packages: []string{"internal/cloud/conformance"}, may: []string{"any", "api/v1", "internal/..."}, never: join(sdk, concerns, []string{"internal/app", "internal/aws/...", "internal/cli", "internal/sim"})},
	"changed classes":  {packages: []string{"internal/check/classes"}, may: join(values, api, yaml), never: effects},
	"benchmarks":       {packages: []string{"internal/bench"}, may: []string{"std", "internal/scenario/...", "internal/columns"}},
	"scenarios":        {packages: []string{"internal/scenario/families"}, may: join(values, api, []string{"internal/scenario"})},
	"dashboards":       {packages: []string{"internal/dashboard"}, may: []string{"std"}},
	"gate":             {packages: []string{"internal/gate"}, may: []string{"std", "internal/columns", "internal/near"}},
	"property seeds":   {packages: []string{"internal/seed"}, may: []string{"std", "pgregory.net/rapid"}},
	"equal decisions":  {packages: []string{"internal/determinism"}, may: []string{"std"}},
	"generators":       {packages: []string{"internal/gen"}, may: []string{"any", "api/...", "iam", "internal/...", "cmd/..."}},
	"repository rules": {packages: []string{"internal/arch/..."}, may: []string{"std"}},
}

var (
	offline = []string{"internal/admission/cases", "internal/cloud/cloudtest", "internal/cloud/conformance", "internal/controller/controllertest", "internal/snapshot/snapshottest", "internal/script", "internal/check/random", "internal/check/classes", "internal/bench", "internal/scenario/families", "internal/dashboard", "internal/gate", "internal/gen", "internal/determinism", "internal/seed", "internal/arch/..."} // never part of a binary
	shells  = join(offline, []string{"internal/admission", "internal/controller/...", "internal/app", "internal/cli", "internal/sim"})
)

// concerns are the controllers, one package each. The directory above them only describes them.
var concerns = []string{
	"internal/controller", "internal/controller/buffers", "internal/controller/claims", "internal/controller/disruption", "internal/controller/nodes", "internal/controller/observe", "internal/controller/overlays",
	"internal/controller/pools", "internal/controller/provisioning",
}

// notForControllers is what the controllers may not import: their wiring, the commands, the cloud they run on.
var notForControllers = join(sdk, offline, []string{"internal/admission", "internal/app", "internal/cli", "internal/aws/...", "internal/scenario"})

// No package may import these, tests included: sandbox depends on k8s.io/kubernetes, bench on the tools that Dovetail is
// compared with.
var closed = []string{module + "/sandbox/...", module + "/bench/...", module + "/tools/...", "k8s.io/kubernetes/..."}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if file.nested {
			continue
		}
		name, rule := layerOf(file.dir())
		if name == "" {
			t.Errorf("%s: package %s is in no layer; add it to the table in internal/arch/layers_test.go", file.path, file.dir())
			continue
		}
		for _, spec := range file.syntax.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if matches(closed, target) {
				t.Errorf("%s imports %s: the root module may not", file.path, target)
			}
			if file.test() {
				continue
			}
			if ours, found := strings.CutPrefix(target, module+"/"); found {
				target = ours
			}
			if !allowed(rule, target) {
				t.Errorf("%s imports %s: layer %q may not", file.path, target, name)
			}
		}
	}
}

// The parts of solve are internal to it, also for the layers that may import anything inside.
func TestRoomsOfSolveAreItsOwn(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if file.within("internal/solve") {
			continue
		}
		for _, spec := range file.syntax.Imports {
			if target, err := strconv.Unquote(spec.Path.Value); err == nil && matches(rooms, strings.TrimPrefix(target, module+"/")) {
				t.Errorf("%s imports %s: what is for others is in internal/solve", file.path, target)
			}
		}
	}
}

// The table itself: a package belongs to one layer, and what a layer may import exists in the table.
func TestLayerTableIsSound(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for name, rule := range layers {
		for _, pattern := range rule.packages {
			if other, taken := owner[pattern]; taken {
				t.Errorf("%s is in layers %q and %q", pattern, name, other)
			}
			owner[pattern] = name
		}
	}
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"internal/reqs", "strings", true},
		{"internal/reqs", "internal/reason", true},
		{"internal/reqs", "os", false},
		{"internal/reqs", "internal/solve", false},
		{"internal/reason", "api/v1", false},
		{"api/aws/v1", "k8s.io/api/core/v1", true},
		{"api/aws/v1", "internal/aws/ami", true},
		{"api/v1", "internal/aws/ami", false},
		{"internal/aws/ami", "k8s.io/api/core/v1", false},
		{"api/v1", "sigs.k8s.io/controller-runtime/pkg/scheme", false},
		{"internal/solve", "k8s.io/client-go/kubernetes", false},
		{"internal/solve", "internal/disrupt", false},
		{"internal/disrupt", "internal/solve", true},
		{"internal/check", "internal/solve", true},
		{"internal/solve", "internal/check", false},
		{"internal/solve", "internal/solve/consolidate", true},
		{"internal/solve/consolidate", "internal/solve/pack", true},
		{"internal/solve/consolidate", "internal/solve", false},
		{"internal/solve/consolidate", "internal/solve/bound", false},
		{"internal/solve/explain", "internal/solve/pack", false},
		{"internal/solve/pack", "internal/solve/exact", true},
		{"internal/solve/exact", "internal/solve/pack", false},
		{"internal/solve/exact", "internal/disrupt", false},
		{"internal/solve/model", "internal/solve/exact", false},
		{"internal/solve/model", "os", false},
		{"internal/disrupt", "internal/solve/model", false},
		{"internal/check/random", "math/rand/v2", true},
		{"internal/execute", "internal/check/random", false},
		{"internal/budget", "github.com/robfig/cron/v3", true},
		{"internal/drift", "github.com/robfig/cron/v3", false},
		{"internal/aws/userdata", "github.com/aws/aws-sdk-go-v2/aws", false},
		{"internal/aws/launch", "github.com/aws/aws-sdk-go-v2/aws", true},
		{"internal/controller/claims", "internal/aws", false},
		{"internal/controller/claims", "internal/controller/write", true},
		{"internal/controller/claims", "internal/controller/nodes", false},
		{"internal/controller/claims", "internal/controller/controllertest", false},
		{"internal/controller/write", "internal/controller/lookup", true},
		{"internal/controller/write", "internal/controller/claims", false},
		{"internal/controller/lookup", "internal/controller/write", false},
		{"internal/store", "internal/cluster", true},
		{"internal/store", "k8s.io/client-go/tools/cache", true},
		{"internal/store", "internal/disrupt", false},
		{"internal/store", "internal/solve", false},
		{"internal/store", "internal/budget", false},
		{"internal/store", "internal/lifecycle", false},
		{"internal/store", "internal/execute", false},
		{"internal/store", "internal/controller/lookup", false},
		{"internal/cluster", "internal/condition", true},
		{"internal/cluster", "internal/budget", false},
		{"internal/config", "k8s.io/client-go/kubernetes", false},
		{"internal/config", "internal/aws/settings", false},
		{"internal/aws/settings", "internal/aws/eks", false},
		{"internal/cli", "internal/drivers", true},
		{"internal/cli", "internal/aws", false},
		{"internal/cli", "api/aws/v1", false},
		{"internal/app", "internal/drivers", false},
		{"cmd/dovetail", "internal/app", true},
	} {
		name, rule := layerOf(tc.from)
		if got := allowed(rule, tc.to); name == "" || got != tc.want {
			t.Errorf("%s (layer %q) importing %s: allowed = %v, want %v", tc.from, name, tc.to, got, tc.want)
		}
	}
	if name, _ := layerOf("internal/unheard"); name != "" {
		t.Errorf("an unknown package is in layer %q", name)
	}
}

// layerOf returns the layer whose pattern names the package most exactly: by itself, else by the nearest
// directory above it.
func layerOf(dir string) (string, layer) {
	best, name := 0, ""
	for candidate, rule := range layers {
		for _, pattern := range rule.packages {
			if !matches([]string{pattern}, dir) {
				continue
			}
			exactness := len(strings.TrimSuffix(pattern, "/..."))
			if pattern == dir {
				exactness++
			}
			if exactness > best {
				best, name = exactness, candidate
			}
		}
	}
	return name, layers[name]
}

func allowed(rule layer, target string) bool {
	return matches(rule.may, target) && !matches(rule.never, target)
}

func matches(patterns []string, target string) bool {
	first, _, _ := strings.Cut(target, "/")
	outside := first != "api" && first != "internal" && first != "cmd"
	std := outside && !strings.Contains(first, ".")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if below, found := strings.CutSuffix(pattern, "/..."); found {
			return target == below || strings.HasPrefix(target, below+"/")
		}
		return pattern == target || pattern == "std" && std || pattern == "any" && outside
	})
}

func join(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}
