package journal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// eventful is a journal with an entry of each kind, a minute apart.
func eventful() *journal.Journal { return eventfulTo(nil) }

// eventfulTo does so after it was told where to forward.
func eventfulTo(forward func(inspect.Event, bool)) *journal.Journal {
	minute := 0
	j := journal.New(journal.Limits{Entries: 100, Bytes: 1 << 20}, func() time.Time { return noon.Add(time.Duration(minute) * time.Minute) })
	j.Forward(forward)
	web := cluster.PodKey{Namespace: "default", Name: "web"}
	j.Planned(solve.Plan{
		Create:   []solve.NewNode{{Pool: "general", Offer: cluster.Offer{Type: "m5.large", Zone: "a", CapacityType: "spot", Price: 0.04}, Pods: []cluster.PodKey{web}}},
		Unplaced: []solve.Unplaced{{Pod: cluster.PodKey{Namespace: "default", Name: "huge"}, Why: []reason.Reason{{Code: reason.NothingCheaper, Subject: "nodepool/general"}}}}, Cost: 0.04,
	}, noon)
	move := disrupt.Command{
		ID: "c1", Reason: karpv1.ReasonUnderutilized, Decision: disrupt.Replace, Saves: 0.15,
		Remove: []disrupt.Candidate{{Node: "old", Claim: "claim-old", Pool: "general", InstanceType: "m5.xlarge", CapacityType: "on-demand", Zone: "a", Price: 0.19, Pods: []string{"default/web"}}},
		Create: []solve.NewNode{{Pool: "general", Offer: cluster.Offer{Type: "m5.large", Zone: "a", CapacityType: "spot", Price: 0.04}, Pods: []cluster.PodKey{web}}},
	}
	j.Decided(disrupt.Decision{At: noon.Add(time.Minute), Commands: []disrupt.Command{move}, Before: 0.19, After: 0.04})
	j.Outcome("c1", "done", noon.Add(2*time.Minute))
	minute = 3
	j.Removed("claim-lost", "lost", "spot_interrupted")
	j.Draining("slow", "claim-slow", []drain.Wait{{Cause: drain.SpentBudget, Object: "default/web", Names: []string{"default/web"}, Count: 1, Why: "a PodDisruptionBudget allows no eviction", Fix: "raise it"}}, noon.Add(4*time.Minute))
	return j
}

// What is taken in is forwarded in the same words, to be kept for longer: all but what passes found beyond their commands. What
// there may be much of is minor.
func TestLG_08_EntriesAreForwarded(t *testing.T) {
	t.Parallel()
	var forwarded []inspect.Event
	var minor []string
	j := eventfulTo(func(e inspect.Event, is bool) {
		forwarded = append(forwarded, e)
		if is {
			minor = append(minor, e.Kind)
		}
	})
	j.Planned(solve.Plan{Unplaced: []solve.Unplaced{{Pod: cluster.PodKey{Namespace: "default", Name: "huge"}}}}, noon.Add(5*time.Minute))
	have, err := j.History(t.Context(), inspect.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have.Events, forwarded); diff != "" {
		t.Errorf("(-kept +forwarded):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"draining", "plan"}, minor); diff != "" {
		t.Errorf("minor (-want +got):\n%s", diff)
	}
	(*journal.Journal)(nil).Forward(nil)
}

func texts(h inspect.History) (out []string) {
	for _, e := range h.Events {
		out = append(out, e.Kind+": "+e.Text)
	}
	return out
}

// The history of an object has what names it as its node, its claim, its pool or its pod.
func TestEX_31_HistoryOfObjects(t *testing.T) {
	t.Parallel()
	const (
		plan    = "plan: launches 1 node for 1 pod at $0.0400 an hour: m5.large (spot, a); 1 pod cannot be placed, such as default/huge: "
		command = "command: removes 1 underutilized node: old (m5.xlarge, on-demand, a); 1 pod moves; replaced by m5.large (spot, a); saves $0.1500 an hour"
		ended   = "outcome: command c1: done"
		lost    = "removal: NodeClaim claim-lost was deleted: spot interrupted"
		waits   = "draining: node slow is terminating and waits: a PodDisruptionBudget allows no eviction (default/web); raise it"
	)
	planned := plan + reason.Join([]reason.Reason{{Code: reason.NothingCheaper, Subject: "nodepool/general"}}, 3)
	for name, tc := range map[string]struct {
		query inspect.HistoryQuery
		want  []string
	}{
		"everything":                    {inspect.HistoryQuery{}, []string{planned, command, ended, lost, waits}},
		"a node":                        {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "old"}}, []string{command, ended}},
		"its claim":                     {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNodeClaim, Name: "claim-old"}}, []string{command, ended}},
		"a node by the name of a claim": {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "claim-old"}}, nil},
		"a claim that was interrupted":  {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNodeClaim, Name: "claim-lost"}}, []string{lost}},
		"a node that drains":            {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "slow"}}, []string{waits}},
		"a pod that moved":              {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "web"}}, []string{command}},
		"a pod of another namespace":    {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "other", Name: "web"}}, nil},
		"a pod without a place":         {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "huge"}}, []string{planned}},
		"a pool":                        {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNodePool, Name: "general"}}, []string{planned, command}},
		"since":                         {inspect.HistoryQuery{Since: noon.Add(2 * time.Minute)}, []string{ended, lost, waits}},
		"until":                         {inspect.HistoryQuery{Until: noon.Add(time.Minute)}, []string{planned}},
		"a kind":                        {inspect.HistoryQuery{Kinds: []string{"removal", "plan"}}, []string{planned, lost}},
		"passes, which are left out else": {inspect.HistoryQuery{Kinds: []string{"decision"}}, []string{
			"decision: a pass found 1 command to carry out and refused 0; the nodes cost $0.1900 an hour, and $0.0400 afterwards",
		}},
		"the latest": {inspect.HistoryQuery{Limit: 2}, []string{lost, waits}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := eventful().History(t.Context(), tc.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(h)); diff != "" {
				t.Error(diff)
			}
			if limited := tc.query.Limit > 0; limited != (len(h.Notes) == 1) {
				t.Errorf("notes %q", h.Notes)
			}
		})
	}
}

// An event has the savings and the decision itself, and says when older ones are gone.
func TestEX_31_HistoryHasDetails(t *testing.T) {
	t.Parallel()
	h, err := eventful().History(t.Context(), inspect.HistoryQuery{Kinds: []string{"command"}})
	if err != nil || len(h.Events) != 1 {
		t.Fatalf("%d events, %v", len(h.Events), err)
	}
	e := h.Events[0]
	if e.Saves != 0.15 || e.ID != "c1" || e.Source != inspect.SourceLedger || len(e.Detail) == 0 || !e.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("got %+v", e)
	}
	small := journal.New(journal.Limits{Entries: 2, Bytes: 1 << 20}, at(noon))
	for range 5 {
		small.Removed("claim", "node", "expired")
	}
	if h, err = small.History(t.Context(), inspect.HistoryQuery{}); err != nil || len(h.Events) != 2 || len(h.Notes) != 1 {
		t.Errorf("got %d events, notes %q, %v", len(h.Events), h.Notes, err)
	}
	tiny := journal.New(journal.Limits{Entries: 5, Bytes: 200}, at(noon))
	tiny.Decided(removal(noon, "c2", "n1"))
	h, err = tiny.History(t.Context(), inspect.HistoryQuery{Kinds: []string{"command"}})
	if err != nil || len(h.Events) != 1 || h.Events[0].Text != "command: the entry was too large to be kept" {
		t.Errorf("got %q, %v", texts(h), err)
	}
}
