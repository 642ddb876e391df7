package bars

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"nothing but defaults":                 {Options{}, ""},
		"two scenarios":                        {Options{Scenarios: []string{"small", "ice"}}, ""},
		"one that there isn't":                 {Options{Scenarios: []string{"large"}}, "there are small, reaction, ice, burst, backlog, shrink"},
		"too large":                            {Options{Scale: 3}, "scale"},
		"more samples than families to launch": {Options{Samples: 100}, "samples"},
		"time that runs backwards":             {Options{Watch: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.options.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check() = %v, want %q", err, tc.want)
			}
		})
	}
}

// What the kernel says of this very process is read.
func TestProcessUsage(t *testing.T) {
	t.Parallel()
	u, err := processUsage(os.Getpid())
	if err != nil {
		t.Skip(err) // no Linux
	}
	if u.rss < mib || u.peak < u.rss/2 || u.cpu < 0 {
		t.Errorf("not to be believed: %+v", u)
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	got, err := cpuTime("12 (a ) name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0\n")
	if err != nil || got != 3*time.Second {
		t.Errorf("cpuTime() = %v, %v, want 3s", got, err)
	}
	if _, err := cpuTime("12 (short) S 1 2"); err == nil {
		t.Error("a line without times was read")
	}
}

// The landmarks of operations 10.1 mark what is measured.
func TestPasses(t *testing.T) {
	t.Parallel()
	log := `{"level":"INFO","time":"2026-01-02T03:04:05.500Z","message":"found provisionable pod(s)","Pods":"a, b","duration":"500ms"}
panic: of another process
{"level":"INFO","time":"2026-01-02T03:04:06.000Z","message":"computed new nodeclaim(s) to fit pod(s)","nodeclaims":3,"pods":2,"price":1.5}
{"level":"INFO","time":"2026-01-02T03:04:06.001Z","message":"other pods were scheduled where pod(s) were expected; these need new nodes","pods":4}
{"level":"INFO","time":"2026-01-02T03:04:07.000Z","message":"created nodeclaim"}
{"level":"INFO","time":"2026-01-02T03:04:09.000Z","message":"found provisionable pod(s)"}
{"level":"INFO","time":"2026-01`
	at := func(ms int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, ms*int(time.Millisecond), time.UTC) }
	want := []pass{
		{closed: at(0), found: at(500), computed: at(1000), claims: 3, price: 1.5},
		{closed: at(4000), found: at(4000)},
	}
	got := passesIn([]byte(log))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pass{})); diff != "" {
		t.Error(diff)
	}
	if n := displacedIn([]byte(log)); n != 4 {
		t.Errorf("%d pods lost their places, want 4", n)
	}
	metrics := "# TYPE dovetail_pods_landed_total counter\ndovetail_pods_landed_total{place=\"elsewhere\"} 3\ndovetail_pods_landed_total{place=\"planned\"} 1e+02\n"
	if got := landedIn(metrics); got != (landed{planned: 100, elsewhere: 3}) {
		t.Errorf("landed = %+v", got)
	}
	if solve, found := solveBefore(got, at(1200)); !found || solve != 500*time.Millisecond {
		t.Errorf("solveBefore() = %v %v", solve, found)
	}
	if _, found := solveBefore(got, at(400)); found {
		t.Error("a plan of later was taken for the cause")
	}
}

// Pods are spread over the pools without a rest, and every manifest can be read.
func TestCrowd(t *testing.T) {
	t.Parallel()
	total, tied := 0, 0
	for _, w := range mixedWork(1003, 20) {
		total += w.replicas
		if w.team >= 0 {
			tied++
		}
	}
	if total != 1003 || tied != 10 {
		t.Errorf("%d pods, %d Deployments tied to a pool; want 1003 and 10", total, tied)
	}
	manifests, err := kubectl.Read("mixed", []byte(mixedPools(20)))
	if err != nil || len(manifests) != 21 {
		t.Errorf("%d manifests, %v; want a class and 20 pools", len(manifests), err)
	}
	body, err := withFree([]byte(`{"subnet-b": {}, "subnet-a": {"id": "subnet-a"}}`), 7)
	if want := `[{"id":"subnet-a","free":7},{"id":"subnet-b","free":7}]`; err != nil || string(body) != want {
		t.Errorf("withFree() = %s, %v, want %s", body, err, want)
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	r := Result{Name: "small", Title: "a small cluster", API: map[string]int{"list pods": 2, "patch nodes": 30}}
	r.add("nodes", 5, unitCount)
	r.addLimit("CPU", 40.2, unitMillicores, 100)
	r.addLimit("memory", 300*mib, unitBytes, 256*mib)
	r.addLimit("rest", 0.0123, unitSeconds, 0.1)
	report := Report{Results: []Result{r}}
	var out bytes.Buffer
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `
small: a small cluster

          measured  bar       
  nodes   5                   
  CPU     40m       100m      held
  memory  300 MiB   256 MiB   MISSED
  rest    12.3 ms   100.0 ms  held
  requests to the API server: 30 patch nodes, 2 list pods

2 of 3 bars held.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, list := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := medianOf(list); got != want {
			t.Errorf("median(%v) = %g, want %g", list, got, want)
		}
	}
}
