package disruption_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Disruption 3, G4: when the next pass comes.
func TestTurns(t *testing.T) {
	t.Parallel()
	t.Run("nothing is done, and nothing decided, until memory is complete", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t, interceptor.Funcs{})
		d, memory, _ := emptying(t, interceptor.Funcs{}, "a")
		memory.late = true
		if wait, err := d.Turn(t.Context()); wait != time.Second || err != nil || memory.cuts > 0 {
			t.Errorf("waits %s, error %v, %d views", wait, err, memory.cuts)
		}
		if wait, err := s.Turn(t.Context()); wait != 10*time.Second || err != nil {
			t.Errorf("nothing to do: waits %s, error %v, want ten seconds", wait, err)
		}
	})
	t.Run("FM N06: nothing is decided while the clock is off", func(t *testing.T) {
		t.Parallel()
		off := true
		d, memory, c := emptying(t, interceptor.Funcs{}, "a")
		d.ClockOff = func() bool { return off }
		if wait, err := d.Turn(t.Context()); wait != time.Second || err != nil || memory.cuts > 0 {
			t.Errorf("waits %s, error %v, %d views", wait, err, memory.cuts)
		}
		off = false
		if _, err := d.Turn(t.Context()); err != nil || !slices.Equal(deletedClaims(t, c), []string{"claim-a"}) {
			t.Errorf("once it is right: error %v, deleted %v", err, deletedClaims(t, c))
		}
	})
	t.Run("what started something is followed at once", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t, interceptor.Funcs{})
		s.node("a")
		s.remove(karpv1.ReasonEmpty, "empty", "a")
		if wait, err := s.Turn(t.Context()); wait != 0 || err != nil {
			t.Errorf("waits %s, error %v", wait, err)
		}
	})
	t.Run("a conflict is no error, and the next pass comes soon", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t, interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
				return apierrors.NewConflict(corev1.Resource("nodes"), obj.GetName(), nil)
			},
		})
		s.node("a")
		s.remove(karpv1.ReasonEmpty, "empty", "a")
		if wait, err := s.Turn(t.Context()); wait >= time.Second || err != nil {
			t.Errorf("waits %s, error %v", wait, err)
		}
	})
	t.Run("a long pause is noticed", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t, interceptor.Funcs{})
		var lines []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1}))
		for _, pause := range []time.Duration{0, 15 * time.Minute, 15*time.Minute + time.Second} {
			s.clock = s.clock.Add(pause)
			if _, err := s.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "abnormal time between runs") {
			t.Errorf("the log says %q, want one line", lines)
		}
	})
}

// Disruption 4: consolidation is left out while nothing changed since it found nothing; five minutes
// later it looks again. A pass that budgets limited has no cool-down.
func TestConsolidationRestsWhileNothingChanges(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	var quiet, limited bool
	s.Decide = func(v disrupt.View, _ func() bool) disrupt.Decision {
		quiet = v.Unchanged
		return disrupt.Decision{Limited: limited}
	}
	expect := func(when string, want bool) {
		t.Helper()
		if err := s.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if quiet != want {
			t.Errorf("%s: left out %v, want %v", when, quiet, want)
		}
	}
	expect("at first", false)
	expect("nothing changed", true)
	edit(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) {
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(s.clock)
	})
	expect("a heartbeat came (FM D13)", true)
	s.clock = s.clock.Add(5 * time.Minute)
	expect("five minutes later", false)
	s.bind("api", "a")
	expect("a pod came", false)
	expect("nothing changed again", true)
	s.clock, limited = s.clock.Add(5*time.Minute), true
	expect("budgets limit it", false)
	expect("and still do", false)
}

// V15-13: a node that reboots keeps its condition until the reboot is over.
func TestRebootingNodesAreNotCleanedUp(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	set := func(rebooting metav1.ConditionStatus) {
		claim := s.claim("claim-a")
		claim.Status.Conditions = append(claim.Status.Conditions[:4:4],
			metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: "Unhealthy"},
			metav1.Condition{Type: karpv1.ConditionRebooting, Status: rebooting, Reason: "RebootRequested"})
		if err := s.client.Status().Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		s.mustPass()
	}
	set(metav1.ConditionTrue)
	if n := len(s.claim("claim-a").Status.Conditions); n != 6 {
		t.Errorf("%d conditions while it reboots, want all six", n)
	}
	set(metav1.ConditionFalse)
	if n := len(s.claim("claim-a").Status.Conditions); n != 5 {
		t.Errorf("%d conditions after the reboot, want all but DisruptionReason", n)
	}
}

// Disruption 3, step 2: budgets that cannot be read are logged once, with the pools.
func TestBrokenBudgetsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromString("1"), Schedule: new("often"), Duration: new(karpv1.Duration("1h"))}}
	})
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for range 3 {
		if err := s.Pass(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "general") || !strings.Contains(lines[0], "often") {
		t.Errorf("the log says %q, want one line with pool and text", lines)
	}
}

// Disruption 23: what the line about a command says.
func TestCommandsAreLogged(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web", "api")
	s.replace(karpv1.ReasonUnderutilized, "single", "a")
	var line string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		if strings.Contains(args, `"disrupting node(s)"`) {
			line = args
		}
	}, funcr.Options{}))
	if err := s.Pass(ctx); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"command"="Underutilized/Underutilizeda: replace, nodepools [general], nodes [a], 1 replacement(s)`, `"decision"="replace"`, `"disrupted-node-count"=1`,
		`"replacement-node-count"=1`, `"pod-count"=2`, `"Node"="a"`, `"NodeClaim"="claim-a"`, `"instance-type"="large"`, `"capacity-type"="on-demand"`,
		`"instance-types"="small`, `cpu 25%`,
	} {
		if !strings.Contains(line, part) {
			t.Errorf("the line does not have %s: %s", part, line)
		}
	}
}

// Disruption 15a: the line about a score has all that it was made of.
func TestScoresAreLogged(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.Decide = func(disrupt.View, func() bool) disrupt.Decision {
		return disrupt.Decision{Scores: []disrupt.Score{{
			Pool: "general", Nodes: []string{"a"}, Value: 0.7, Approved: true, Savings: 0.1, Moving: 0.2, Decision: "replace", Saves: 0.3, Cost: 4, PoolPrice: 5, PoolCost: 6, Least: 0.5, K: 2,
		}}}
	}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1}))
	if err := s.Pass(ctx); err != nil {
		t.Fatal(err)
	}
	line := strings.Join(lines, "\n")
	for _, part := range []string{
		`"consolidation score"`, `"score"=0.7`, `"savings-fraction"=0.1`, `"disruption-fraction"=0.2`, `"saving"=0.3`, `"cost"=4`, `"total-price"=5`, `"total-cost"=6`,
		`"threshold"=0.5`, `"k"=2`, `"approved"=true`, `"decision"="replace"`,
	} {
		if !strings.Contains(line, part) {
			t.Errorf("the log does not have %s: %s", part, line)
		}
	}
}

// operations 8.4: scores of moves under the policy Balanced.
func TestScoresAreCounted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.Decide = func(disrupt.View, func() bool) disrupt.Decision {
		return disrupt.Decision{Scores: []disrupt.Score{{Pool: "general", Value: 0.7, Approved: true}, {Pool: "general", Value: 0.2}}}
	}
	s.mustPass()
	for _, verdict := range []string{"approved", "rejected"} {
		if n := testutil.ToFloat64(s.metrics.ConsolidationMoves.WithLabelValues(verdict, "general", "balanced")); n != 1 {
			t.Errorf("%v moves %s, want one", n, verdict)
		}
	}
	if n := testutil.CollectAndCount(s.metrics.ConsolidationScore); n != 2 {
		t.Errorf("%d series of scores, want two", n)
	}
}

// The journal hears of decisions and of what became of them.
func TestJournalHears(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	kept := &diary{}
	s.Journal = kept
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	s.up(s.replacements()[0].Name)
	s.work(10 * time.Second)
	if got := strings.Join(kept.lines, "; "); got != "observed 1; decided 1; deleted a; Drifteda done" {
		t.Errorf("the journal has %q", got)
	}
}

type diary struct{ lines []string }

func (d *diary) Decided(decision disrupt.Decision) {
	if len(decision.Commands) > 0 {
		d.lines = append(d.lines, "decided "+string(rune('0'+len(decision.Commands))))
	}
}

func (d *diary) Observed(v *disrupt.View, _ *disrupt.Decision) {
	d.lines = append(d.lines, fmt.Sprintf("observed %d", len(v.Nodes)))
}

func (d *diary) Deleted(_ *disrupt.Running, n *disrupt.Candidate) {
	d.lines = append(d.lines, "deleted "+n.Node)
}

func (d *diary) Outcome(id, text string, _ time.Time) { d.lines = append(d.lines, id+" "+text) }
