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

// Who may import whom, bottom up; an import may only point down. The groups of names first.
var (
	values = []string{"std", "k8s.io/api/...", "k8s.io/apimachinery/..."}
	words  = []string{"internal/reqs", "internal/resources", "internal/reason", "internal/duration", "internal/catalog", "internal/event", "internal/lp", "internal/near"}
	api    = []string{"api/..."}
	images = []string{"internal/aws/ami"} // for the API of AWS and what is built upon it
	view   = []string{"internal/cluster"}
	// These decide alone, as does budget, which may also use cron; disrupt composes them.
	single = []string{"internal/condition", "internal/solve", "internal/drift", "internal/drain"}
	life   = []string{"internal/lifecycle"}
	joint  = []string{"internal/disrupt", "internal/pool", "internal/reboot"}
	steps  = []string{"internal/disrupt/command"} // how decisions are carried out, as values
	port   = []string{"internal/cloud"}
	yaml   = []string{"sigs.k8s.io/yaml/...", "sigs.k8s.io/json/...", "go.yaml.in/yaml/..."}
	sdk    = []string{"github.com/aws/..."}

	// Effects have no place in words, view and decisions, whatever library brings them.
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
	"2 decisions": {packages: single, may: join(values, words, api, view), never: effects},
	"2 budget":    {packages: []string{"internal/budget"}, may: join(values, words, api, view, []string{"github.com/robfig/cron/v3"}), never: effects},
	"2 joint":     {packages: joint, may: join(values, words, api, view, single, port, []string{"internal/budget", "internal/lifecycle"}), never: effects},
	"2 steps":     {packages: steps, may: join(values, words, api, view, single, life, joint, []string{"internal/check"}), never: effects},
	"2 provision": {packages: []string{"internal/provision"}, may: join(values, words, api, view, port, []string{"internal/check", "internal/solve"}), never: effects},
	"2 lifecycle": {packages: life, may: join(values, words, api, view, port, []string{"internal/condition"}), never: effects},
	"2 scripts":   {packages: []string{"internal/script"}, may: join(values, words, api, view, single, []string{"internal/check"}), never: effects},
	"2 convert":   {packages: []string{"internal/convert"}, may: join(values, words, api, images, yaml, []string{"internal/budget"}), never: effects},
	"2 scenario":  {packages: []string{"internal/scenario"}, may: join(values, words, api, view, single, yaml), never: effects},
	"2 check":     {packages: []string{"internal/check"}, may: join(values, words, api, view, []string{"internal/solve"}), never: effects},
	"3 port":      {packages: port, may: join(values, words, api), never: effects},
	// It is built around the memory of the controller as it is, which takes in what informers tell, and
	// around what writes claims; nothing of it has effects on anything but the run.
	"3 simulator": {
		packages: []string{"internal/sim"},
		may: join(values, words, api, view, single, joint, steps, life, port, []string{
			"internal/budget", "internal/check", "internal/execute", "internal/provision", "internal/store", "sigs.k8s.io/controller-runtime/...", "k8s.io/client-go/tools/cache",
		}),
		never: sdk,
	},

	"4 effects": {
		packages: []string{"internal/store", "internal/execute", "internal/report", "internal/journal", "internal/metric"},
		may:      []string{"any", "api/...", "internal/..."},
		never:    join(sdk, shells, []string{"internal/aws/..."}),
	},
	// What every cloud shares and what the wiring takes from one: it knows no cloud by name.
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
	"4 classes":  {packages: []string{"internal/aws/classhash"}, may: join(values, words, api, []string{"internal/drift"}), never: effects},
	"4 kubelet":  {packages: []string{"internal/aws/kubelet"}, may: join(values, words, api, images, yaml, []string{"k8s.io/kubelet/...", "github.com/google/cel-go/..."}), never: effects},
	"4 userdata": {packages: []string{"internal/aws/userdata"}, may: join(values, words, images, yaml, []string{"internal/aws/kubelet", "github.com/BurntSushi/toml"}), never: effects},

	"5 scripts":     {packages: []string{"hack"}, may: []string{"std"}, never: effects},
	"5 iam":         {packages: []string{"iam"}, may: []string{"std"}, never: effects},
	"5 rights":      {packages: []string{"internal/rights"}, may: []string{"std"}, never: effects},
	"5 config":      {packages: []string{"internal/config"}, may: join(values, yaml, []string{"github.com/spf13/pflag", "internal/near"}), never: effects},
	"5 columns":     {packages: []string{"internal/columns"}, may: []string{"std"}, never: effects},
	"5 version":     {packages: []string{"internal/version"}, may: []string{"std"}},
	"5 controllers": {packages: []string{"internal/controller"}, may: []string{"any", "api/...", "internal/..."}, never: join(sdk, []string{"internal/admission", "internal/app", "internal/cli", "internal/aws/...", "internal/scenario"}, offline)},
	"5 uninstall":   {packages: []string{"internal/uninstall"}, may: join(values, api, []string{"internal/cloud/driver", "internal/condition", "internal/lifecycle", "k8s.io/client-go/util/retry", "k8s.io/klog/...", "sigs.k8s.io/controller-runtime/..."})},
	"5 wiring":      {packages: []string{"internal/app"}, may: []string{"any", "api/v1", "internal/..."}, never: join(sdk, offline, []string{"internal/admission", "internal/aws/...", "internal/cli", "internal/scenario"})},
	"6 commands":    {packages: []string{"cmd/...", "internal/cli"}, may: []string{"any", "api/...", "internal/..."}, never: offline},

	// Judges manifests with the API server's libraries: for commands and tests, never for the controller.
	"judge":       {packages: []string{"internal/admission"}, may: join(values, api, yaml, []string{"k8s.io/apiextensions-apiserver/...", "k8s.io/apiserver/..."})},
	"judge cases": {packages: []string{"internal/admission/cases"}, may: join(values, yaml)},

	"random problems":  {packages: []string{"internal/check/random"}, may: join(values, words, api, view, []string{"internal/solve"}), never: effects},
	"same clouds":      {packages: []string{"internal/cloud/conformance"}, may: join(values, words, api, port, []string{"github.com/google/go-cmp/cmp"})},
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
	offline = []string{"internal/admission/cases", "internal/cloud/conformance", "internal/script", "internal/check/random", "internal/check/classes", "internal/bench", "internal/scenario/families", "internal/dashboard", "internal/gate", "internal/gen", "internal/determinism", "internal/seed", "internal/arch/..."} // never part of a binary
	shells  = join(offline, []string{"internal/admission", "internal/controller", "internal/app", "internal/cli", "internal/sim"})
)

// Nobody may import these, tests included: sandbox holds k8s.io/kubernetes, bench the tools we measure
// ourselves against.
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
		{"internal/check/random", "math/rand/v2", true},
		{"internal/execute", "internal/check/random", false},
		{"internal/budget", "github.com/robfig/cron/v3", true},
		{"internal/drift", "github.com/robfig/cron/v3", false},
		{"internal/aws/userdata", "github.com/aws/aws-sdk-go-v2/aws", false},
		{"internal/aws/launch", "github.com/aws/aws-sdk-go-v2/aws", true},
		{"internal/controller", "internal/aws", false},
		{"internal/app", "internal/aws", false},
		{"internal/app", "api/aws/v1", false},
		{"internal/cloud", "sigs.k8s.io/controller-runtime/pkg/client", false},
		{"internal/cloud/driver", "sigs.k8s.io/controller-runtime/pkg/client", true},
		{"internal/cloud/adopt", "api/aws/v1", false},
		{"internal/store", "internal/controller", false},
		{"internal/config", "k8s.io/client-go/kubernetes", false},
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
