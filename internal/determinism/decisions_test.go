package determinism_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cli"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// decision is something that is decided from equal input each time, as text.
type decision struct {
	name   string
	rounds int // how often a process makes it
	make   func() string
}

// decisions lists all of them. Their seeds are fixed.
func decisions() []decision {
	return slices.Concat(scenarios(), problems(), conversions(), simulations(), objects(), clouds())
}

// dump writes a value so that its parts are on lines of their own; maps are sorted.
func dump(values ...any) string {
	var out strings.Builder
	for _, v := range values {
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			panic(err)
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return out.String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func never() bool { return false }

// call runs a command of the program.
func call(stdin string, args ...string) string {
	var out, errs bytes.Buffer
	code := cli.Run(args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return fmt.Sprintf("exit code %d\n%s\n%s", code, out.String(), errs.String())
}

// scenarios are plans for small scenarios of every family, with what is said about them.
func scenarios() []decision {
	var list []decision
	for _, name := range []string{"s1-60", "s2-60", "s3-60", "s4-60", "s5-60", "s6-60", "s7-60", "c1-12", "c2-12"} {
		args := []string{"plan", "--scenario", "-", "--format", "json", "--explain"}
		if families.Consolidates(name) {
			args = append(args, "--mode", "consolidate")
		}
		list = append(list, decision{"plan: " + name, 2, func() string {
			scenario := string(must(json.Marshal(must(families.Make(name, 1)))))
			return unmeasured(call(scenario, args...))
		}})
	}
	return append(list, decision{"plan: a file with many faults", 20, func() string {
		return call(`{"name": 1, "podz": [], "a": 1, "nodePools": [{"metadata": {"name": "x", "labels": 1}, "spec": {"limits": {"cpu": "x", "memory": "y"}, "b": 1, "a": 2}}],
			"pods": [{"count": -1, "template": {"spec": {"nodeSelector": {"-": "-", "+": "+"}, "containers": []}}}], "daemonSets": [{}], "instanceTypes": [{"name": "", "labels": {"-": "-"}}]}`,
			"plan", "--scenario", "-")
	}})
}

// unmeasured leaves out what a report has measured: times and memory.
func unmeasured(report string) string {
	var lines []string
	for line := range strings.Lines(report) {
		var tree any
		if json.Unmarshal([]byte(line), &tree) == nil {
			line = dump(withoutMeasures(tree))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

func withoutMeasures(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(key string, _ any) bool {
			return strings.HasSuffix(key, "Ms") || strings.HasSuffix(key, "MiB") || key == "allocs" || key == "podsPerSec"
		})
		for key, inner := range tree {
			tree[key] = withoutMeasures(inner)
		}
	case []any:
		for i, inner := range tree {
			tree[i] = withoutMeasures(inner)
		}
	}
	return tree
}

// problems are plans for made-up clusters, and what is wrong with a plan that places nothing.
func problems() []decision {
	var list []decision
	for seed := range uint64(40) {
		list = append(list, decision{fmt.Sprintf("solve: problem %d", seed), 8, func() string {
			p := random.Problem(rand.New(rand.NewPCG(seed, 1)), random.Options{})
			return dump(solve.Solve(p, never), check.Plan(p, solve.Plan{}))
		}})
	}
	for seed := range uint64(15) {
		list = append(list, decision{fmt.Sprintf("consolidate: question %d", seed), 8, func() string {
			return dump(solve.Consolidate(random.Question(rand.New(rand.NewPCG(seed, 2)), random.Options{}), never))
		}})
	}
	for seed := range uint64(20) {
		list = append(list, decision{fmt.Sprintf("solve: wild problem %d", seed), 8, func() string {
			return dump(solve.Solve(random.Wild(rand.New(rand.NewPCG(seed, 3)), random.Options{}), never))
		}})
	}
	return list
}

// conversions rewrite the manifests of the examples, and refuse some with many faults.
func conversions() []decision {
	files := must(filepath.Glob(filepath.Join("..", "..", "examples", "seeds", "*.yaml")))
	if len(files) == 0 {
		panic("there are no examples")
	}
	list := []decision{{"convert: all examples", 1, func() string { return call("", "convert", "-f", filepath.Dir(files[0])) }}}
	for _, file := range files {
		list = append(list, decision{"convert: " + filepath.Base(file), 5, func() string { return converted(must(os.ReadFile(file))) }})
	}
	for _, c := range [][2]string{
		{"fields that do not exist", `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {a: 1, b: 2, c: 3, disruption: {d: 4, e: 5}, template: {spec: {f: 6, g: 7}}}}`},
		{"fields of a wrong shape", `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {weight: 500, replicas: -1,
			disruption: {consolidateAfter: soon, consolidationPolicy: Maybe, budgets: [{nodes: many, schedule: "@daily"}]}, template: {spec: {expireAfter: later, terminationGracePeriod: never}}}}`},
		{"a pool that contradicts itself", `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {metadata: {labels: {a: "1", b: "2", c: "3", d: "4"}},
			spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: c, operator: In, values: [x]}, {key: b, operator: In, values: [x]}, {key: a, operator: In, values: [x]}]}}}}`},
		{"a Provisioner with much in it", `{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: p, annotations: {b: "1", a: "2"}, labels: {d: "3", c: "4"}}, spec: {weight: 3, limits: {resources: {cpu: 100, memory: 1Ti, nvidia.com/gpu: 4}},
			labels: {i: "1", h: "2", g: "3"}, kubeletConfiguration: {evictionHard: {nodefs.available: 5%, memory.available: 5%, imagefs.available: 5%}, kubeReserved: {memory: 1Gi, cpu: 100m}},
			provider: {subnetSelector: {b: "1", a: "2"}, instanceProfile: x, tags: {d: "3", c: "4"}}, unknown: 1, also: 2}}`},
		{"a node class with many faults", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: c}, spec: {role: "", tags: {karpenter.sh/nodepool: a, karpenter.sh/nodeclaim: b, kubernetes.io/cluster/x: c, "": d},
			kubelet: {evictionHard: {a: x, b: x}, evictionSoft: {c: x, memory.available: 1%}, kubeReserved: {q: "1", r: "2"}}, amiSelectorTerms: [{alias: x}, {id: x}], subnetSelectorTerms: [{tags: {"": "", b: ""}}], securityGroupSelectorTerms: [{}]}}`},
	} {
		list = append(list, decision{"convert: " + c[0], 20, func() string { return converted([]byte(c[1])) }})
	}
	return list
}

// judge is the API server; to make one takes longer than to query it.
var judge = sync.OnceValues(admission.New)

// converted is what the command convert writes and says.
func converted(manifest []byte) string {
	server := must(judge())
	result := convert.Convert([]convert.Source{{Name: "manifest", Text: manifest}}, convert.Options{Judge: func(object map[string]any) []convert.Refusal {
		var refusals []convert.Refusal
		for _, e := range server.Refusals(context.Background(), object) {
			refusals = append(refusals, convert.Refusal{Field: e.Field, Text: e.ErrorBody()})
		}
		return refusals
	}})
	text := dump(result.Warnings, result.Errors)
	for _, d := range result.Documents {
		text += "---\n" + string(must(d.YAML()))
	}
	return text
}

// simulations are clusters in virtual time with everything that happens to them: memory, plans, disruption, life
// cycle, drains and reboots.
func simulations() []decision {
	var list []decision
	for seed := range uint64(8) {
		list = append(list, decision{fmt.Sprintf("simulate: seed %d", seed+1), 2, func() string {
			var lines []string
			c := sim.Generate(seed + 1)
			c.Log = func(line string) { lines = append(lines, line) }
			return dump(sim.Run(c)) + strings.Join(lines, "\n")
		}})
	}
	return list
}
