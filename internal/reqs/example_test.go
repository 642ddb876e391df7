package reqs_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// A pod requests a zone under its old name and for more than two CPUs; the pool offers two zones.
func ExampleSet() {
	words := reqs.CoreVocabulary()
	pod, _ := reqs.FromNodeSelectorTerm(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "failure-domain.beta.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b", "c"}},
		{Key: "cpus", Operator: corev1.NodeSelectorOpGt, Values: []string{"2"}},
	}}, words)
	pool, _ := reqs.FromEntries([]reqs.Entry{
		{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}},
	}, words)

	why, ok := reqs.Compatible(pod, pool, reqs.Options{AllowUndefined: words.WellKnownKeys})
	fmt.Println(ok, why.Key, "wants", why.Want)

	pool.Add("cpus", reqs.Req{Not: true}) // Exists: now the pool knows the label
	_, ok = reqs.Compatible(pod, pool, reqs.Options{AllowUndefined: words.WellKnownKeys})
	fmt.Println(ok, pool.Intersect(pod))
	// Output:
	// false cpus wants >= 3
	// true cpus >= 3; topology.kubernetes.io/zone In [b]
}

// The solver compiles sets once and combines them without allocating.
func ExampleRow() {
	pool := reqs.Set{"zone": {Values: []string{"a", "b"}}}
	pod := reqs.Set{"zone": {Not: true, Values: []string{"a"}}}
	b := reqs.NewBuilder(reqs.CoreVocabulary())
	b.AddSet(pool)
	b.AddSet(pod)
	table := b.Build()
	poolRow, err := table.Compile(pool)
	if err != nil {
		fmt.Println(err)
	}
	podRow, err := table.Compile(pod)
	if err != nil {
		fmt.Println(err)
	}

	planned := table.NewRow()
	if table.Compatible(podRow, poolRow, true) {
		table.Intersect(planned, poolRow, podRow)
	}
	fmt.Println(planned.Set())
	// Output: zone In [b]
}
