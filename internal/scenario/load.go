package scenario

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Load reads a scenario file. What it returns holds together: names are there and unique, references
// lead somewhere, NodePools are in their effective form and valid. NodePools may use the well-known labels of cloud, whether
// an instance type here has them or not. The error is a Faults.
func Load(data []byte, cloud reqs.Vocabulary) (*Scenario, error) {
	s := &Scenario{}
	if faults := decode(data, s); len(faults) > 0 {
		return nil, faults
	}
	c := checker{scenario: s, cloud: cloud}
	c.check()
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	for i := range s.Pods {
		s.resolve(&s.Pods[i])
	}
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			s.resolve(&s.Nodes[i].Pods[j])
		}
	}
	return s, nil
}

// Is reports whether data is meant as a scenario: it is an object with a field that scenarios have. Load says whether it is one.
func Is(data []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return false
	}
	for field := range reflect.TypeFor[Scenario]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, has := fields[name]; has {
			return true
		}
	}
	return false
}

// resolve puts a named template in its place, so that callers need not look it up.
func (s *Scenario) resolve(g *PodGroup) {
	if g.Template == nil {
		g.Template = s.Templates[g.TemplateRef]
	}
}

// maxCount bounds the copies of a group. Each becomes an object: a typing error should cost a message,
// not the memory of the machine.
const maxCount = 1_000_000

// checker finds what a schema cannot.
type checker struct {
	scenario *Scenario
	cloud    reqs.Vocabulary
	types    map[string]bool
	pools    map[string]bool
	faults   Faults
}

func (c *checker) check() {
	s := c.scenario
	c.named("$.name", s.Name)
	c.types = c.unique("$.instanceTypes", len(s.InstanceTypes), ".name", func(i int) string { return s.InstanceTypes[i].Name })
	for i := range s.InstanceTypes {
		c.instanceType(index("$.instanceTypes", i), &s.InstanceTypes[i])
	}
	c.nodePools()
	c.unique("$.daemonSets", len(s.DaemonSets), ".name", func(i int) string { return s.DaemonSets[i].Name })
	for i := range s.DaemonSets {
		c.template(index("$.daemonSets", i)+".template", s.DaemonSets[i].Template)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Templates)) {
		c.template("$.templates"+key(name), s.Templates[name])
	}
	c.unique("$.nodes", len(s.Nodes), ".name", func(i int) string { return s.Nodes[i].Name })
	for i := range s.Nodes {
		c.node(index("$.nodes", i), &s.Nodes[i])
	}
	for i := range s.Pods {
		c.group(index("$.pods", i), &s.Pods[i])
	}
}

func (c *checker) named(path, name string) bool {
	if name == "" {
		c.faults.add(path, "is missing; give it a name")
	}
	return name != ""
}

// unique checks the names of a list and returns them.
func (c *checker) unique(path string, n int, field string, name func(int) string) map[string]bool {
	seen := make(map[string]bool, n)
	for i := range n {
		at := index(path, i) + field
		if c.named(at, name(i)) && seen[name(i)] {
			c.faults.add(at, "%q appears twice; names are unique", name(i))
		}
		seen[name(i)] = true
	}
	return seen
}

func (c *checker) instanceType(path string, t *InstanceType) {
	c.named(path+".arch", t.Arch)
	if len(t.OS) == 0 {
		c.faults.add(path+".os", `is missing; want a list such as ["linux"]`)
	}
	if len(t.Capacity) == 0 {
		c.faults.add(path+".capacity", "is missing; want at least cpu, memory and pods")
	}
	c.quantities(path+".capacity", t.Capacity)
	c.quantities(path+".overhead", t.Overhead)
	for i := range t.Offerings {
		at, o := index(path+".offerings", i), &t.Offerings[i]
		c.named(at+".zone", o.Zone)
		if c.named(at+".capacityType", o.CapacityType) {
			c.oneOf(at+".capacityType", o.CapacityType, capacityTypes)
		}
		if o.Price < 0 {
			c.faults.add(at+".price", "%v is below zero", o.Price)
		}
	}
}

func (c *checker) quantities(path string, list corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		switch q := list[name]; {
		case outOfRange(q):
			c.faults.add(path+key(string(name)), "is larger or more exact than any quantity needs to be")
		case q.Sign() < 0:
			c.faults.add(path+key(string(name)), "%s is below zero", q.String())
		}
	}
}

// outOfRange finds exponents such as that of 1e99999999: arithmetic with one takes hours.
func outOfRange(q resource.Quantity) bool {
	const digits = 30
	if !q.IsZero() { // a zero with an exponent would be multiplied, step by step
		if _, small := q.AsInt64(); small {
			return false
		}
	}
	scale := q.AsDec().Scale()
	return scale < -digits || scale > digits
}

// nodePools puts every pool in its effective form and checks it as the controller would.
func (c *checker) nodePools() {
	s := c.scenario
	words := s.vocabulary().With(reqs.Vocabulary{WellKnownKeys: c.cloud.WellKnownKeys})
	c.pools = c.unique("$.nodePools", len(s.NodePools), ".metadata.name", func(i int) string {
		if s.NodePools[i] == nil {
			return ""
		}
		return s.NodePools[i].Name
	})
	for i, pool := range s.NodePools {
		if pool == nil {
			continue // named has said so
		}
		c.poolValues(index("$.nodePools", i), pool)
		effective, _ := pool.Effective(false)
		problems, _ := effective.Validate(words)
		for _, p := range problems {
			at := index("$.nodePools", i) + "." + p.Subject
			p.Subject = ""
			hint := ""
			if word, err := strconv.Unquote(p.Have); err == nil && strings.HasSuffix(at, ".effect") {
				hint = near.Hint(word, taintEffects)
			}
			c.faults.add(at, "%s%s", p.Text(), hint)
		}
		c.quantities(index("$.nodePools", i)+".spec.limits", effective.Spec.Limits)
		s.NodePools[i] = effective
	}
}

func (c *checker) template(path string, t *corev1.PodTemplateSpec) {
	switch {
	case t == nil:
		c.faults.add(path, "is missing; want a pod template")
		return
	case len(t.Spec.Containers) == 0:
		c.faults.add(path+".spec.containers", "is missing; a pod has at least one container")
	}
	c.containers(path+".spec.containers", t.Spec.Containers)
	c.containers(path+".spec.initContainers", t.Spec.InitContainers)
	c.quantities(path+".spec.overhead", t.Spec.Overhead)
	c.scheduling(path+".spec", &t.Spec)
	if level := t.Spec.Resources; level != nil {
		c.quantities(path+".spec.resources.requests", level.Requests)
		c.quantities(path+".spec.resources.limits", level.Limits)
	}
}

func (c *checker) containers(path string, list []corev1.Container) {
	for i := range list {
		c.quantities(index(path, i)+".resources.requests", list[i].Resources.Requests)
		c.quantities(index(path, i)+".resources.limits", list[i].Resources.Limits)
		c.ports(index(path, i)+".ports", list[i].Ports)
	}
}

func (c *checker) node(path string, n *Node) {
	if n.NodePool != "" && !c.pools[n.NodePool] {
		c.faults.add(path+".nodePool", "no NodePool %q%s", n.NodePool, near.Hint(n.NodePool, slices.Sorted(maps.Keys(c.pools))))
	}
	switch {
	case n.InstanceType != "" && !c.types[n.InstanceType]:
		c.faults.add(path+".instanceType", "no instance type %q%s", n.InstanceType, near.Hint(n.InstanceType, slices.Sorted(maps.Keys(c.types))))
	case n.InstanceType == "" && len(n.Allocatable) == 0:
		c.faults.add(path+".allocatable", "is missing; a node without an instanceType says what it has")
	}
	c.optional(path+".capacityType", n.CapacityType, capacityTypes)
	c.taints(path+".taints", n.Taints)
	c.quantities(path+".capacity", n.Capacity)
	c.quantities(path+".allocatable", n.Allocatable)
	for i := range n.Pods {
		c.group(index(path+".pods", i), &n.Pods[i])
	}
}

func (c *checker) group(path string, g *PodGroup) {
	switch {
	case g.Count == nil:
		c.faults.add(path+".count", "is missing; say how many copies there are")
	case *g.Count < 0:
		c.faults.add(path+".count", "%d is below zero", *g.Count)
	case *g.Count > maxCount:
		c.faults.add(path+".count", "%d is more than %d, the most that is planned for", *g.Count, maxCount)
	}
	switch {
	case g.Template != nil && g.TemplateRef != "":
		c.faults.add(path, "has both template and templateRef; keep one of them")
	case g.Template != nil:
		c.template(path+".template", g.Template)
	case g.TemplateRef == "":
		c.faults.add(path, "has neither template nor templateRef")
	case c.scenario.Templates[g.TemplateRef] == nil:
		c.faults.add(path+".templateRef", "no template %q%s", g.TemplateRef, near.Hint(g.TemplateRef, slices.Sorted(maps.Keys(c.scenario.Templates))))
	}
}

// vocabulary knows the labels that any instance type has.
func (s *Scenario) vocabulary() reqs.Vocabulary {
	known := map[string]bool{}
	for i := range s.InstanceTypes {
		for label := range s.InstanceTypes[i].Labels {
			known[label] = true
		}
	}
	return reqs.CoreVocabulary().With(reqs.Vocabulary{WellKnownKeys: known})
}
