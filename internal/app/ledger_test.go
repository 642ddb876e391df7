package app

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// runnables is a manager that only notes what it runs.
type runnables struct {
	ctrl.Manager

	added []manager.Runnable
}

func (r *runnables) Add(x manager.Runnable) error { r.added = append(r.added, x); return nil }
func (*runnables) GetClient() client.Client       { return nil }
func (*runnables) GetAPIReader() client.Reader    { return nil }

// LG-01, LG-16: without the setting nothing runs that could read or write a ConfigMap, and with it only the leader runs it.
func TestLG_01_NothingIsStoredWithoutTheSetting(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg   config.Config
		want  int
		fails bool
	}{
		"off":               {config.Config{Namespace: "kube-system"}, 0, false},
		"on":                {config.Config{Namespace: "kube-system", Server: config.Server{Ledger: true}}, 1, false},
		"beside the lease":  {config.Config{Leader: config.Leader{Namespace: "elsewhere"}, Server: config.Server{Ledger: true}}, 1, false},
		"without namespace": {config.Config{Server: config.Server{Ledger: true}}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mgr := &runnables{}
			c := &core{cfg: tc.cfg, mgr: mgr, book: keep.New(time.Now, metric.New(prometheus.NewRegistry()))}
			if err := c.storeLedger(); (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if len(mgr.added) != tc.want {
				t.Fatalf("%d runnables, want %d", len(mgr.added), tc.want)
			}
			for _, r := range mgr.added {
				if led, ok := r.(manager.LeaderElectionRunnable); !ok || !led.NeedLeaderElection() {
					t.Errorf("%T also runs on replicas that do not lead", r)
				}
			}
		})
	}
}

// History is that of the ledger, and what passes found beyond their commands that of the journal.
func TestLG_08_HistoryIsThatOfTheLedger(t *testing.T) {
	t.Parallel()
	j := journal.New(journal.Limits{Entries: 1, Bytes: 1 << 20}, time.Now)
	book := keep.New(time.Now, metric.New(prometheus.NewRegistry()))
	j.Forward(book.Record)
	for _, claim := range []string{"a", "b", "c"} { // more than the journal keeps
		j.Removed(claim, "", "expired")
	}
	j.Decided(disrupt.Decision{At: time.Now(), Before: 1, After: 1})
	p := past{j, book}
	kinds := func(q inspect.HistoryQuery) (out []string) {
		h, err := p.History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Events {
			out = append(out, e.Kind)
		}
		return out
	}
	if got := kinds(inspect.HistoryQuery{}); !slices.Equal(got, []string{"removal", "removal", "removal"}) {
		t.Errorf("all: %q", got)
	}
	if got := kinds(inspect.HistoryQuery{Kinds: []string{"decision"}}); !slices.Equal(got, []string{"decision"}) {
		t.Errorf("decisions: %q", got)
	}
	var _ inspect.Accountant = p
}

// Which launches use up what consolidation saved: those for pods.
func TestLG_04_LaunchesForPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"for pods":                {map[string]string{karpv1.AnnotationPods: "x"}, true},
		"a replacement with pods": {map[string]string{karpv1.AnnotationPods: "x", karpv1.AnnotationReplaces: "old", karpv1.AnnotationCommand: "c"}, false},
		"of a static pool":        {nil, false},
	} {
		if got := isForPods(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
