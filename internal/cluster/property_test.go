package cluster_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// sameTable compares lanes, which cmp cannot see into.
func sameTable() cmp.Option {
	return cmp.Comparer(func(a, b resources.Table) bool {
		if a.Len() != b.Len() {
			return false
		}
		for lane := range a.Len() {
			if a.Name(lane) != b.Name(lane) {
				return false
			}
		}
		return true
	})
}

// A Reader that has seen other pods, other volumes and other namespaces reads a pod as a fresh one does.
// If the bytes by which a shape is found left out a field that the shape depends on, a pod that differs
// in that field alone would get the shape of another.
func TestWhatWasReadBeforeNeverMatters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		warm := newReader(cluster.ReaderOptions{})
		for range 3 {
			vols, namespaces := s.volumes(), s.namespaces()
			warm.SetNamespaces(namespaces)
			for _, p := range s.pods(6) {
				fresh := newReader(cluster.ReaderOptions{})
				fresh.SetNamespaces(namespaces)
				got, want := warm.Pod(p, vols), fresh.Pod(p, vols)
				if d := cmp.Diff(want.Shape.Key, got.Shape.Key); d != "" {
					t.Fatalf("shape differs (-fresh +warm):\n%s", d)
				}
				if d := cmp.Diff(fields(t, fresh, want.Shape), fields(t, warm, got.Shape)); d != "" {
					t.Fatalf("a field differs (-fresh +warm):\n%s", d)
				}
				sound(t, got.Shape)
			}
		}
	})
}

// fields is everything a shape says, independent of the lanes of its Reader. The key is put together from
// parts that shapes share; the fields must come from the same parts.
func fields(t *rapid.T, r *cluster.Reader, s *cluster.Shape) string {
	t.Helper()
	other := *s
	other.Requests = resources.Vec{}
	text, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	return r.Table().Format(s.Requests) + "\n" + string(text)
}

// sound checks what every shape guarantees.
func sound(t *rapid.T, s *cluster.Shape) {
	t.Helper()
	if len(s.Required) == 0 {
		t.Fatalf("no alternative: %s", s.Key)
	}
	for lane := range resources.Unknown + 1 {
		if s.Requests.At(lane) < 0 {
			t.Fatalf("requests less than nothing: %s", s.Key)
		}
	}
	if s.Requests.At(resources.Unknown) != 0 {
		t.Fatalf("a requested resource has no lane: %s", s.Key)
	}
	for _, r := range s.Invalid {
		if r.Code == "" || r.Text() == "" {
			t.Fatalf("refused without a reason: %+v", r)
		}
	}
}

// The order of reading gives other lanes but the same shapes.
func TestOrderOfReadingNeverMatters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		pods, vols := s.pods(8), s.volumes()
		keys := func(list []*corev1.Pod) map[string]string {
			r, out := newReader(cluster.ReaderOptions{}), map[string]string{}
			for _, p := range list {
				out[p.Name] = r.Pod(p, vols).Shape.Key
			}
			return out
		}
		other := slices.Clone(pods)
		slices.Reverse(other)
		if d := cmp.Diff(keys(pods), keys(other)); d != "" {
			t.Fatalf("shapes differ (-forwards +backwards):\n%s", d)
		}
	})
}

// facts draws nodes with pods and the pool they belong to.
func (s source) facts(vols cluster.VolumeLookup) []cluster.NodeFacts {
	i := 0
	return many(s, 6, func() cluster.NodeFacts {
		i++
		f := cluster.NodeFacts{Pods: s.pods(3), Volumes: vols, Price: float64(s.number(0, 9)), Settling: s.chance(20), Deleting: s.chance(20)}
		if s.chance(80) {
			f.Claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", i), Labels: s.labels(2)}}
			f.Claim.Status.ProviderID = s.oneOf("", "x")
			f.Claim.Status.Capacity = corev1.ResourceList{"cpu": s.capacity(), "x.io/gpu": s.capacity()}
			f.Claim.Spec.Resources.Requests = corev1.ResourceList{"cpu": s.capacity(), "pods": s.capacity()}
			if f.Claim.Labels == nil {
				f.Claim.Labels = map[string]string{}
			}
			f.Claim.Labels[karpv1.LabelNodePool] = s.oneOf("p", "q")
		}
		if f.Claim == nil || s.chance(70) {
			f.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: s.labels(2)}}
			f.Node.Status.Capacity = corev1.ResourceList{"cpu": s.capacity(), "memory": s.capacity()}
		}
		return f
	})
}

// snapshot builds a view of the nodes; limits count those that are not being deleted.
func (s source) snapshot(r *cluster.Reader, nodes []cluster.Node, pending []cluster.Pod) *cluster.Snapshot {
	var pools []cluster.Pool
	for _, name := range []string{"p", "q"} {
		np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		np.Spec.Limits = corev1.ResourceList{"cpu": *quantity(7), "x.io/gpu": *quantity(2), "nodes": *quantity(1)}
		var used resources.Vec
		var count int64
		for i := range nodes {
			if nodes[i].Pool == name && !nodes[i].Deleting {
				resources.AddTo(&used, &nodes[i].Capacity)
				count++
			}
		}
		pools = append(pools, r.Pool(np, nil, r.Table().List(used), count))
	}
	return r.Snapshot(cluster.Snapshot{
		Version: 7, Now: time.Unix(99, 0).UTC(), Pools: pools, Nodes: slices.Clone(nodes), Pending: pending,
		Namespaces: map[string]map[string]string{"ns": {"a": "b"}},
	})
}

// A view without some nodes is the view that would have been built had they not been there.
func TestOverlayEqualsRebuiltSnapshot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		r, vols := newReader(cluster.ReaderOptions{}), s.volumes()
		var nodes, rest []cluster.Node
		var gone []string
		var moved []cluster.Pod
		for _, f := range s.facts(vols) {
			n := r.Node(f)
			nodes = append(nodes, n)
			if !s.chance(40) {
				rest = append(rest, n)
				continue
			}
			gone = append(gone, n.Name)
			moved = append(moved, slices.DeleteFunc(slices.Clone(n.Pods), func(p cluster.Pod) bool { return p.Stays })...)
		}
		full := s.snapshot(r, nodes, nil)
		before, err := json.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		view, pods := full.Without(append(gone, "never-heard-of", "")...)
		want := s.snapshot(r, rest, nil)
		if len(view.Nodes) == 0 {
			view.Nodes = want.Nodes // nil or empty
		}
		if d := cmp.Diff(want, view, sameTable()); d != "" {
			t.Fatalf("overlay differs (-rebuilt +overlay):\n%s", d)
		}
		slices.SortStableFunc(moved, func(a, b cluster.Pod) int { return cmpKeys(a.Key, b.Key) })
		if len(moved) != len(pods) || !slices.IsSortedFunc(pods, func(a, b cluster.Pod) int { return cmpKeys(a.Key, b.Key) }) {
			t.Fatalf("%d pods have to move, want %d in order", len(pods), len(moved))
		}
		if after, _ := json.Marshal(full); string(after) != string(before) {
			t.Fatal("the overlay changed the snapshot it was made from")
		}
	})
}

func cmpKeys(a, b cluster.PodKey) int {
	switch {
	case a == b:
		return 0
	case a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name:
		return -1
	default:
		return 1
	}
}

// A recorded view means the same: every value survives, and pods that shared a shape share one again.
func TestSnapshotSurvivesJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		r, vols := newReader(cluster.ReaderOptions{}), s.volumes()
		r.SetNamespaces(s.namespaces())
		var nodes []cluster.Node
		for _, f := range s.facts(vols) {
			nodes = append(nodes, r.Node(f))
		}
		var pending []cluster.Pod
		for _, p := range s.pods(4) {
			pending = append(pending, r.Pod(p, vols))
		}
		want := s.snapshot(r, nodes, pending)
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &cluster.Snapshot{}
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatalf("%v in:\n%s", err, data)
		}
		if d := cmp.Diff(want, got, sameTable()); d != "" {
			t.Fatalf("decoded differs (-want +got):\n%s", d)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(data) {
			t.Fatalf("encoded again it differs: %v", err)
		}
		before, after := shapes(want), shapes(got)
		for i := range before {
			for j := range i {
				if (before[i] == before[j]) != (after[i] == after[j]) {
					t.Fatalf("pods %d and %d no longer share a shape, or share one they did not", i, j)
				}
				matchesAlike(t, before[i], after[i], before[j].Labels)
			}
		}
	})
}

// What else was recorded with a view shares its shapes too.
func TestInternReachesFurtherPods(t *testing.T) {
	t.Parallel()
	type problem struct {
		View *cluster.Snapshot
		Pods []cluster.Pod
	}
	r := newReader(cluster.ReaderOptions{})
	pending := []cluster.Pod{r.Pod(podYAML(t, ""), nil), r.Pod(podYAML(t, "{nodeSelector: {a: b}}"), nil)}
	data, err := json.Marshal(problem{View: r.Snapshot(cluster.Snapshot{Pending: pending}), Pods: slices.Clone(pending)})
	if err != nil {
		t.Fatal(err)
	}
	var got problem
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	got.View.Intern(got.Pods)
	for i := range got.Pods {
		if got.Pods[i].Shape != got.View.Pending[i].Shape {
			t.Errorf("pod %d has a shape of its own", i)
		}
	}
}

// shapes lists the shapes of all pods of a view in order.
func shapes(s *cluster.Snapshot) []*cluster.Shape {
	var list []*cluster.Shape
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			list = append(list, p.Shape)
		}
	}
	for _, p := range s.Pending {
		list = append(list, p.Shape)
	}
	return list
}

// matchesAlike checks that selectors still select the same labels.
func matchesAlike(t *rapid.T, before, after *cluster.Shape, labels map[string]string) {
	t.Helper()
	for i, c := range before.Spread {
		if c.Selector.Matches(labels) != after.Spread[i].Selector.Matches(labels) {
			t.Fatalf("%q matches other labels after decoding", c.Selector.Text)
		}
	}
}

// Equal text means equal meaning, and a selector survives its text.
func TestSelectorText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := source{t}
		given := s.selector()
		sel, err := cluster.NewSelector(given)
		if err != nil {
			return
		}
		library, err := metav1.LabelSelectorAsSelector(given)
		if err != nil {
			t.Fatalf("only the library refuses %v: %v", given, err)
		}
		data, err := json.Marshal(sel)
		if err != nil {
			t.Fatal(err)
		}
		var decoded cluster.Selector
		if err := json.Unmarshal(data, &decoded); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if decoded.Text != sel.Text || cluster.SelectorFrom(library).Text != sel.Text {
			t.Fatalf("texts differ: %q, decoded %q, from the library %q", sel.Text, decoded.Text, cluster.SelectorFrom(library).Text)
		}
		for range 5 {
			labels := s.labels(3)
			if want := library.Matches(labelSet(labels)); sel.Matches(labels) != want || decoded.Matches(labels) != want {
				t.Fatalf("%q on %v: %v, decoded %v, want %v", sel.Text, labels, sel.Matches(labels), decoded.Matches(labels), want)
			}
		}
	})
}
