package bars

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// Commands that begin together are a wave; what they do is counted by reason and decision.
func TestCommands(t *testing.T) {
	t.Parallel()
	log := `{"level":"INFO","time":"2026-01-02T03:04:05.000Z","message":"disrupting node(s)","reason":"empty","decision":"delete","disrupted-node-count":3,"pod-count":0}
panic: of another process
{"level":"INFO","time":"2026-01-02T03:04:05.900Z","message":"disrupting node(s)","reason":"underutilized","decision":"delete","disrupted-node-count":2,"pod-count":7,"cost-before":9,"cost-after":8,"lower-bound":4.5}
{"level":"INFO","time":"2026-01-02T03:04:07.900Z","message":"disrupting node(s)","reason":"underutilized","decision":"delete","disrupted-node-count":1,"pod-count":1,"cost-before":9,"cost-after":8,"lower-bound":4.5}
{"level":"INFO","time":"2026-01-02T03:04:06.000Z","message":"tainted node"}
{"level":"INFO","time":"2026-01-02T03:04:20.000Z","message":"disrupting node(s)","reason":"underutilized","decision":"replace","disrupted-node-count":2,"replacement-node-count":1,"pod-count":4,"lower-bound":4.25}
{"level":"INFO","time":"2026-01`
	got := commandsIn([]byte(log))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []command{
		{at: at, kind: "empty delete", nodes: 3},
		{at: at.Add(900 * time.Millisecond), kind: "underutilized delete", nodes: 2, pods: 7, sums: sums{9, 8, 4.5}},
		{at: at.Add(2900 * time.Millisecond), kind: "underutilized delete", nodes: 1, pods: 1, sums: sums{9, 8, 4.5}},
		{at: at.Add(15 * time.Second), kind: "underutilized replace", nodes: 2, created: 1, pods: 4, sums: sums{0, 0, 4.25}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(command{}, sums{})); diff != "" {
		t.Error(diff)
	}
	if n := countCommandWaves(got); n != 3 {
		t.Errorf("%d waves, want 3", n)
	}
	if enough, never := wavesTo(got, 8), wavesTo(got, 7); enough != 2 || never != 3 {
		t.Errorf("%d waves until it costs 8, and %d that do not bring it to 7", enough, never)
	}
	if text := strings.Join(countByKind(got), "; "); text != "empty delete 1 (3 nodes, 0 new); underutilized delete 2 (3 nodes, 0 new); underutilized replace 1 (2 nodes, 1 new)" {
		t.Error(text)
	}
}

// A budget of ten percent is rounded up, each time of what is left.
func TestFewestWaves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, to, want int }{
		"nothing to do":     {10, 10, 0},
		"one wave":          {100, 90, 1},
		"one more":          {100, 89, 2},
		"one node at least": {3, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fewestWaves(tc.from, tc.to); got != tc.want {
				t.Errorf("fewestWaves(%d, %d) = %d, want %d", tc.from, tc.to, got, tc.want)
			}
		})
	}
}

// Series of all labels are added up, and only what came later counts.
func TestHistogram(t *testing.T) {
	t.Parallel()
	const before = `# HELP took_seconds how long
took_seconds_bucket{reason="empty",le="0.1"} 1
took_seconds_bucket{reason="empty",le="1"} 2
took_seconds_bucket{reason="empty",le="+Inf"} 2
took_seconds_sum{reason="empty"} 0.9
took_seconds_count{reason="empty"} 2
`
	const after = `took_seconds_bucket{reason="empty",le="0.1"} 3
took_seconds_bucket{reason="empty",le="1"} 4
took_seconds_bucket{reason="empty",le="+Inf"} 4
took_seconds_sum{reason="empty"} 1
took_seconds_count{reason="empty"} 4
took_seconds_bucket{reason="drifted",le="0.1"} 0
took_seconds_bucket{reason="drifted",le="1"} 1
took_seconds_bucket{reason="drifted",le="+Inf"} 1
took_seconds_sum{reason="drifted"} 0.5
took_seconds_count{reason="drifted"} 1
took_seconds_later_sum 7
`
	h := histogramIn(after, "took_seconds").minusEarlier(histogramIn(before, "took_seconds"))
	if h.count != 3 || h.largestBucket() != 1 || h.meanSeconds() < 0.19 || h.meanSeconds() > 0.21 {
		t.Errorf("%v decisions, at most %v, on average %v; want 3, 1, 0.2", h.count, h.largestBucket(), h.meanSeconds())
	}
	if none := histogramIn("", "took_seconds"); none.largestBucket() != 0 || none.meanSeconds() != 0 {
		t.Errorf("nothing took %v", none)
	}
}

// A claim costs what its offering costs once it has one, and goes once it is marked.
func TestFleetOf(t *testing.T) {
	t.Parallel()
	claim := func(name string, change func(object map[string]any)) unstructured.Unstructured {
		object := map[string]any{
			"metadata": map[string]any{"name": name, "labels": map[string]any{"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a"}},
			"status":   map[string]any{"allocatable": map[string]any{"cpu": "1930m"}},
		}
		change(object)
		return unstructured.Unstructured{Object: object}
	}
	as := func(map[string]any) {}
	marked := func(o map[string]any) {
		o["status"] = map[string]any{"conditions": []any{map[string]any{"type": "DisruptionReason", "status": "True"}}}
	}
	ending := func(o map[string]any) {
		o["status"] = map[string]any{"conditions": []any{map[string]any{"type": "DisruptionReason", "status": "True"}, map[string]any{"type": "InstanceTerminating", "status": "True"}}}
	}
	leaving := func(o map[string]any) {
		o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	}
	requested := func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels"); delete(o, "status") }
	price := func(capacityType, _, _ string) (float64, bool) {
		if capacityType == "" {
			return 0, false
		}
		return 0.1, true
	}
	got := fleetOf([]unstructured.Unstructured{claim("a", as), claim("b", marked), claim("c", leaving), claim("d", requested), claim("e", ending)}, price)
	if got.nodes != 5 || got.going != 3 || got.busy != 2 || got.price < 0.39 || got.price > 0.41 || got.cpu < 3.85 || got.cpu > 3.87 {
		t.Errorf("%+v, want 5 nodes, 3 going, 2 of them busy, $0.4, 3.86 cores", got)
	}
	if other := fleetOf([]unstructured.Unstructured{claim("a", marked)}, price); other.shape == fleetOf([]unstructured.Unstructured{claim("a", as)}, price).shape {
		t.Error("a claim that goes looks like one that stays")
	}
}

// The pods are those that were requested, and the pool launches the types it should.
func TestShrinkWork(t *testing.T) {
	t.Parallel()
	total := 0
	for _, w := range shrinkWork(1903) {
		total += w.replicas
	}
	if total != 1903 {
		t.Errorf("%d pods, want 1903", total)
	}
	needs := shrinkNeeds(Options{Scale: 0.1})
	manifests, err := kubectl.Read("shrink", []byte(needs.manifests))
	if err != nil || len(manifests) != 2 {
		t.Fatalf("%d manifests, %v; want a class and a pool", len(manifests), err)
	}
	if name := manifests[1].Object.GetName(); name != (pool{}).name() || !strings.Contains(needs.manifests, `"c5.large"`) {
		t.Errorf("pool %s:\n%s", name, needs.manifests)
	}
}
