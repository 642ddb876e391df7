package families

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// family is one kind of scenario, in the sizes worth running.
type family struct {
	name  string
	sizes []int
	build func(m *maker, size int)
}

// all lists the families in the order of the reports.
func all() []family {
	return []family{
		{"s1", []int{500, 5000, 50000}, (*maker).oneSize},
		{"s2", []int{500, 5000, 20000}, (*maker).sixKinds},
		{"s3", []int{2000, 10000}, (*maker).manySizes},
		{"s4", []int{10000}, (*maker).manyPools},
		{"s5", []int{2000}, (*maker).fullCluster},
		{"s6", []int{1000, 5000}, (*maker).threePools},
		{"s7", []int{1000, 4000}, (*maker).preferences},
		{"c1", []int{200, 1000, 2000}, (*maker).scaledDown},
		{"c2", []int{200, 1000, 2000}, (*maker).nothingToGain},
		{"c3", []int{50, 300}, (*maker).topology},
		{"c4", []int{3, 4, 5, 6, 8}, (*maker).fewNodes},
		{"c5", []int{20, 100}, (*maker).poolsAndLimits},
	}
}

// Names lists every scenario, such as "s2-500", small ones of a family first.
func Names() []string {
	var names []string
	for _, f := range all() {
		for _, size := range f.sizes {
			names = append(names, f.name+"-"+strconv.Itoa(size))
		}
	}
	return names
}

// Consolidates reports whether a scenario is about which nodes can be removed, not about where pods go.
func Consolidates(name string) bool { return strings.HasPrefix(name, "c") }

// Make returns the scenario of a name. Any size of a family can be made, not only those in Names.
func Make(name string, seed uint64) (*scenario.Scenario, error) {
	prefix, number, _ := strings.Cut(name, "-")
	size, err := strconv.Atoi(number)
	if err != nil || size < 1 {
		return nil, fmt.Errorf("no scenario %q; want a family and a size, such as %s", name, strings.Join(Names()[:2], " or "))
	}
	for i, f := range all() {
		if f.name != prefix {
			continue
		}
		table, err := readTable(packedTable)
		if err != nil {
			return nil, fmt.Errorf("table of instance types: %w", err)
		}
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), table: table, scenario: &scenario.Scenario{
			Name: name, InstanceTypes: instanceTypes(table),
			// Written as empty lists, not as null: every tool reads those.
			DaemonSets: []scenario.DaemonSet{}, Nodes: []scenario.Node{}, Pods: []scenario.PodGroup{},
		}}
		f.build(m, size)
		return m.scenario, m.err
	}
	return nil, fmt.Errorf("no family %q; there are s1 to s7 and c1 to c5", prefix)
}

// maker builds one scenario. Its random source is the only one.
type maker struct {
	*rand.Rand
	table    []row
	scenario *scenario.Scenario
	err      error
}

func (m *maker) describe(format string, args ...any) {
	m.scenario.Description = fmt.Sprintf(format, args...)
}

// fold gathers equal templates into groups, in the order in which they first appear.
func (m *maker) fold(pods []*corev1.PodTemplateSpec) []scenario.PodGroup {
	groups := []scenario.PodGroup{}
	at := map[string]int{}
	for _, p := range pods {
		text, err := json.Marshal(p)
		if err != nil {
			m.err = err
			return nil
		}
		g, found := at[string(text)]
		if !found {
			g = len(groups)
			at[string(text)] = g
			groups = append(groups, scenario.PodGroup{Count: new(0), Template: p})
		}
		*groups[g].Count++
	}
	return groups
}

// between is a number in [low, high).
func (m *maker) between(low, high float64) float64 { return low + m.Float64()*(high-low) }

func pick[T any](m *maker, from []T) T { return from[m.IntN(len(from))] }

// sample returns n different elements, in a random order.
func sample[T any](m *maker, n int, from []T) []T {
	chosen := make([]T, 0, n)
	for _, i := range m.Perm(len(from))[:n] {
		chosen = append(chosen, from[i])
	}
	return chosen
}
