package flow_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// afterStored is longer than decisions wait to be stored.
const afterStored = 12 * time.Second

// replica is a controller that responds to queries.
type replica struct {
	*world.Controller

	address string
	client  *api.Client
}

// runReplicas runs two controllers that elect a leader and keep a ledger, and answer questions of a user.
func (f *flow) runReplicas(token string) []*replica {
	f.Helper()
	f.stopController()
	var list []*replica
	for i := range 2 {
		port, err := harness.LastingPort(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		r := &replica{address: fmt.Sprintf("http://127.0.0.1:%d", port)}
		r.Controller, err = f.world.RunController(f.Context(), world.ControllerOptions{
			Binary: binary, Proxied: true, LeaderElection: true, Restart: true, Log: fmt.Sprintf("%s-%d.log", f.name, i), Flags: []string{fmt.Sprintf("--metrics-port=%d", port)},
			Installation: world.Installation{Rules: world.Stored()},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() {
			if err := r.Stop(); err != nil {
				f.Error(err)
			}
		})
		if r.client, err = api.NewClient(r.address, token); err != nil {
			f.Fatal(err)
		}
		f.Cleanup(r.client.Close)
		list = append(list, r)
	}
	return list
}

// leader waits until one of the replicas answers, which only the leader does.
func (f *flow) leader(replicas []*replica) *replica {
	f.Helper()
	var found *replica
	f.waitUntil(soon, "a replica responds to queries", func() (bool, string) {
		var said []error
		for _, r := range replicas {
			_, err := r.client.Fleet(f.Context())
			if err == nil {
				found = r
			}
			said = append(said, err)
		}
		return found != nil, fmt.Sprint(errors.Join(said...))
	})
	return found
}

// costTotals reads the totals of the ledger from the metrics of a replica, by series. One that does not lead has none.
func (f *flow) costTotals(r *replica) map[string]float64 {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, r.address+"/metrics", http.NoBody)
	if err != nil {
		f.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil // it starts
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	totals := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(line, "dovetail_cost_") {
			if totals[fields[0]], err = strconv.ParseFloat(fields[1], 64); err != nil {
				f.Fatalf("%s: %v", line, err)
			}
		}
	}
	return totals
}

// ledgerParts are the ConfigMaps of the ledger.
func (f *flow) ledgerParts() []corev1.ConfigMap {
	f.Helper()
	list := &corev1.ConfigMapList{}
	f.list(list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{keep.Label: keep.LabelValue})
	return list.Items
}

// recorded waits until the leader knows a command for a node and how it ended, and returns both.
func (f *flow) recorded(r *replica, about inspect.Subject) []inspect.Event {
	f.Helper()
	var events []inspect.Event
	f.waitUntil(soon, "the command and its outcome are recorded", func() (bool, string) {
		past, err := r.client.History(f.Context(), inspect.HistoryQuery{Object: about, Kinds: []string{"command", "outcome"}})
		events = past.Events
		return err == nil && len(events) >= 2, fmt.Sprintf("%+v, %v", events, err)
	})
	return events
}

// LG-18, LG-01, LG-13: a node is consolidated, the leader is killed, and the standby, which then leads, knows the command with
// its reasons. No total has decreased. Without the setting there are no ConfigMaps.
func TestLG_18_TheLedgerSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	if parts := f.ledgerParts(); len(parts) > 0 {
		t.Errorf("a controller without --ledger made %d ConfigMaps", len(parts))
	}
	token := f.createToken("reader")
	f.mayReadDecisions("reader")
	replicas := f.runReplicas(token)
	first := f.leader(replicas)

	pool := f.pool("", onlyTypes("m5.large"))
	d := f.deploy("inflate", 2, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 2)
	before := f.ready(2)
	f.scale(d, 1)
	stays := f.waitForRunningPods("inflate", 1)[0].Spec.NodeName
	i := slices.IndexFunc(before, func(c karpv1.NodeClaim) bool { return c.Status.NodeName != stays })
	f.patchPool(pool, allowConsolidation)
	f.waitUntilGone(&before[i])
	removed := inspect.Subject{Kind: inspect.KindNode, Name: before[i].Status.NodeName}
	events := f.recorded(first, removed)

	name := `{nodepool="` + f.name + `"}`
	var totals map[string]float64
	f.waitUntil(soon, "the removed node saves something", func() (bool, string) {
		totals = f.costTotals(first)
		spent, unconsolidated := totals["dovetail_cost_spent_usd_total"+name], totals["dovetail_cost_unconsolidated_usd_total"+name]
		return spent > 0 && unconsolidated > spent*1.01, fmt.Sprint(totals)
	})
	f.checkHistory(token, first, &before[i])
	f.waitUntil(soon, "it is stored", func() (bool, string) {
		parts := f.ledgerParts()
		return len(parts) > 0, fmt.Sprintf("%d ConfigMaps", len(parts))
	})
	f.checkStays(afterStored, "the leader stays, and stores what it has", func() (bool, string) { return true, "" })
	totals = f.costTotals(first)

	calmed := f.markDisturbed()
	first.KillAndHold()
	second := f.leader(slices.DeleteFunc(slices.Clone(replicas), func(r *replica) bool { return r == first }))
	calmed()
	if diff := len(f.recorded(second, removed)) - len(events); diff != 0 {
		t.Errorf("the new leader knows %d events more than the old one", diff)
	}
	again := f.recorded(second, removed)
	for i, e := range events {
		if i < len(again) && (again[i].Text != e.Text || string(again[i].Detail) != string(e.Detail) || len(e.Detail) == 0) {
			t.Errorf("event %d is %+v, was %+v", i, again[i], e)
		}
	}
	var now map[string]float64
	f.waitUntil(soon, "the new leader shows totals", func() (bool, string) {
		now = f.costTotals(second)
		return len(now) > 0, ""
	})
	for series, value := range totals {
		if now[series] < value-1e-9 {
			t.Errorf("%s is %v, was %v", series, now[series], value)
		}
	}
	sum := 0
	for _, m := range f.ledgerParts() {
		size := 0
		for _, content := range m.BinaryData {
			size += len(content)
		}
		if sum += size; size == 0 || size > 900<<10 || m.Annotations["dovetail.sh/description"] == "" || len(m.Data) > 0 {
			t.Errorf("%s has %d bytes, annotations %v", m.Name, size, m.Annotations)
		}
	}
	if sum > 4<<20 {
		t.Errorf("all ConfigMaps have %d bytes", sum)
	}
	if err := first.Start(f.Context()); err != nil {
		t.Error(err)
	}
}
