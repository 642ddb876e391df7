package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// G10 in any interleaving: a caller reserves before it creates a claim; claims are written, fail, launch and go in any
// order; commands end well or are given up as a whole. The pool never has more than its limits, not
// counting replacements of nodes that are still there.
func TestPropertyG10_LimitsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &market{Store: limitedStore(40, 6), writing: map[string]*writing{}, commands: map[string]*writing{}}
		t.Repeat(map[string]func(*rapid.T){
			"order": m.order, "replace": m.replace, "written": m.written, "launched": m.launched, "ended": m.ended, "deleted": m.deleted, "": m.holds,
		})
	})
}

// market is a pool and those who order from it.
type market struct {
	*Store
	n        int
	writing  map[string]*writing
	commands map[string]*writing // that wait for their replacements, by id
}

// writing is a batch that is being written.
type writing struct {
	id      string
	nodes   []solve.NewNode
	marks   map[string]string
	replace []string
	claims  []string
	give    func(int)
}

func (m *market) batch(t *rapid.T, replace ...string) {
	m.n++
	w := &writing{id: fmt.Sprint("b", m.n), replace: replace}
	for range rapid.IntRange(1, 3).Draw(t, "nodes") {
		w.nodes = append(w.nodes, wanted(rapid.SampledFrom([]string{"small", "large"}).Draw(t, "type")))
	}
	if len(replace) > 0 {
		w.marks = marksFor(w.id, replace...)
		for _, name := range replace {
			m.SetCommanded(name, true)
		}
	}
	var refused map[int]error
	refused, w.give = m.Reserve(w.nodes, w.marks, 0)
	for i := len(w.nodes) - 1; i >= 0; i-- {
		if refused[i] != nil && len(replace) == 0 {
			w.nodes[i].Pool = "" // is not written
		}
	}
	if len(replace) > 0 && len(refused) > 0 {
		if len(refused) != len(w.nodes) {
			t.Fatalf("a command gets %d of %d", len(w.nodes)-len(refused), len(w.nodes))
		}
		m.release(replace)
		return
	}
	m.writing[w.id] = w
}

func (m *market) release(names []string) {
	for _, name := range names {
		m.SetRemoving(name, false)
		m.SetCommanded(name, false)
	}
}

func (m *market) order(t *rapid.T) { m.batch(t) }

func (m *market) replace(t *rapid.T) {
	var idle []string
	for name, c := range m.claims {
		if p := m.places[claimKey(name)]; c.DeletionTimestamp == nil && !p.commanded && c.Annotations[karpv1.AnnotationReplaces] == "" {
			idle = append(idle, name)
		}
	}
	if len(idle) == 0 {
		t.Skip("nothing to replace")
	}
	slices.Sort(idle)
	m.batch(t, rapid.SliceOfNDistinct(rapid.SampledFrom(idle), 1, min(2, len(idle)), rapid.ID).Draw(t, "replaced")...)
}

// written ends the writing of a batch: claims are stored, or some fail, and with one of them a command.
func (m *market) written(t *rapid.T) {
	w := pick(t, m.writing)
	delete(m.writing, w.id)
	fails := len(w.replace) > 0 && rapid.IntRange(0, 3).Draw(t, "fails") == 0
	for i, n := range w.nodes {
		if n.Pool != "" && !fails {
			name := fmt.Sprintf("general-%s-%d", w.id, i)
			m.RecordCreatedClaim(ordered(name, w.marks, n.Types...), nil)
			w.claims = append(w.claims, name)
		}
		w.give(i)
		m.holds(t)
	}
	switch {
	case fails:
		m.release(w.replace)
	case len(w.replace) > 0:
		for _, name := range w.replace {
			m.SetRemoving(name, true)
		}
		m.commands[w.id] = w
	}
}

// ended ends a command: its nodes are requested to terminate, or its replacements are gone and the nodes stay.
func (m *market) ended(t *rapid.T) {
	w := pick(t, m.commands)
	delete(m.commands, w.id)
	gone := w.replace
	if rapid.Bool().Draw(t, "given up") {
		gone = w.claims
		m.release(w.replace)
	}
	for _, name := range gone {
		m.removes(name)
	}
	for _, name := range w.claims { // ordinary from here on
		if c := m.claims[name]; c != nil && c.DeletionTimestamp == nil {
			c = c.DeepCopy()
			c.Annotations = nil
			m.feedObject(c, false)
		}
	}
}

func (m *market) removes(name string) {
	c := m.claims[name].DeepCopy()
	c.DeletionTimestamp = new(metav1.NewTime(now()))
	m.feedObject(c, false)
}

func (m *market) launched(t *rapid.T) {
	c := pick(t, m.claims).DeepCopy()
	c.Status.ProviderID, c.Status.Capacity = "aws:///a/"+c.Name, amounts(map[string]string{"small": "4", "large": "16"}[c.Spec.Requirements[0].Values[0]], "16Gi")
	m.feedObject(c, false)
}

// deleted is a user who deletes a claim that no command is about.
func (m *market) deleted(t *rapid.T) {
	c := pick(t, m.claims)
	if p := m.places[claimKey(c.Name)]; !p.commanded && c.Annotations == nil {
		m.removes(c.Name)
	}
}

// holds checks the limits with numbers of its own.
func (m *market) holds(t *rapid.T) {
	cpu, nodes := 0, 0
	for _, c := range m.claims {
		if c.DeletionTimestamp == nil && c.Annotations == nil {
			nodes++
			cpu += map[string]int{"small": 4, "large": 16}[c.Spec.Requirements[0].Values[0]]
		}
	}
	if cpu > 40 || nodes > 6 {
		t.Fatalf("%d cores and %d nodes, the limits are 40 and 6", cpu, nodes)
	}
}

func pick[V any](t *rapid.T, from map[string]V) V {
	if len(from) == 0 {
		t.Skip("none")
	}
	return from[rapid.SampledFrom(slices.Sorted(maps.Keys(from))).Draw(t, "which")]
}
