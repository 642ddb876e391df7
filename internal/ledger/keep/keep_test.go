package keep_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/rights"
)

const namespace = "kube-system"

// server is an API server with ConfigMaps.
type server struct {
	client.WithWatch

	mu       sync.Mutex
	requests map[string]int // by verb and name
	fail     func(verb, name string) error
}

func newServer(objects ...client.Object) *server {
	s := &server{requests: map[string]int{}}
	s.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := s.count("get", key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := s.count("create", o.GetName()); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := s.count("update", o.GetName()); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	})
	return s
}

func (s *server) count(verb, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[verb+" "+name]++
	if s.fail != nil {
		return s.fail(verb, name)
	}
	return nil
}

// failing has requests fail from now on; nil: none.
func (s *server) failing(how func(verb, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = how
}

func (s *server) total(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for key, n := range s.requests { // any order: they are added up
		if strings.HasPrefix(key, verb) {
			sum += n
		}
	}
	return sum
}

func (s *server) configMaps(t *testing.T) map[string]corev1.ConfigMap {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := s.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.ConfigMap{}
	for _, m := range list.Items {
		out[m.Name] = m
	}
	return out
}

// process is a controller with a ledger.
type process struct {
	*keep.Ledger

	metrics *metric.Set
	lines   *logLines
	stop    func()
}

type logLines struct {
	mu   sync.Mutex
	list []string
}

func (l *logLines) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, line)
}

func (l *logLines) with(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.list {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// lead has a process lead, with a ledger that is stored.
func lead(t *testing.T, s *server) *process {
	t.Helper()
	p := &process{metrics: metric.New(prometheus.NewRegistry()), lines: &logLines{}}
	p.Ledger = keep.New(time.Now, p.metrics)
	store := keep.NewStore(p.Ledger, s, s, namespace)
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(p.lines.add, funcr.Options{})))
	ended := make(chan error, 1)
	go func() { ended <- store.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	synctest.Wait()
	return p
}

// pass has a process see nodes that cost a dollar an hour each.
func (p *process) pass(claims ...string) {
	v := &disrupt.View{DisruptionView: cluster.DisruptionView{Now: time.Now(), Cluster: &cluster.Snapshot{Pools: []cluster.Pool{{Name: "general"}}}}}
	for _, c := range claims {
		v.Cluster.Nodes = append(v.Cluster.Nodes, cluster.Node{Name: c, Claim: c, Pool: "general", InstanceType: "m5.large", Price: 1})
	}
	p.Observed(v, &disrupt.Decision{Bound: 0.5})
}

// passes makes passes for a while.
func (p *process) passes(d time.Duration, claims ...string) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Second) {
		p.pass(claims...)
	}
	p.pass(claims...)
}

func (p *process) decide(text string) {
	p.Record(inspect.Event{At: time.Now(), Kind: "command", Text: text, Source: inspect.SourceLedger, Objects: []string{"node/a"}, Detail: []byte(`{"why":"` + text + `"}`)}, false)
}

func (p *process) texts(t *testing.T) (out []string) {
	t.Helper()
	h, err := p.History(t.Context(), inspect.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Events {
		out = append(out, e.Text)
	}
	return out
}

func (p *process) notes(t *testing.T) string {
	t.Helper()
	h, err := p.History(t.Context(), inspect.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Savings(t.Context(), inspect.SavingsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Notes, s.Notes) {
		t.Errorf("history notes %q, savings %q", h.Notes, s.Notes)
	}
	return strings.Join(h.Notes, "\n")
}

func (p *process) spent() float64 {
	return testutil.ToFloat64(p.metrics.CostSpent.WithLabelValues("general"))
}

// Without the setting nothing is stored, and responses say so and what to set. There is nothing that could send a request.
func TestLG_01_InMemoryByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &process{metrics: metric.New(prometheus.NewRegistry())}
		p.Ledger = keep.New(time.Now, p.metrics)
		p.decide("removes a")
		p.passes(time.Hour, "a")
		if got := p.texts(t); !slices.Equal(got, []string{"removes a"}) {
			t.Errorf("got %q", got)
		}
		for _, want := range []string{"the ledger began at 2000-01-01T00:00:00Z", "lost when the controller restarts", "settings.ledger=true"} {
			if notes := p.notes(t); !strings.Contains(notes, want) {
				t.Errorf("got %q, want %q in it", notes, want)
			}
		}
		if h, _ := p.History(t.Context(), inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "a"}}); len(h.Notes) > 0 {
			t.Errorf("the history of one object has %q", h.Notes)
		}
	})
}

// After a start, prices are read a little later than nodes are seen. Meanwhile nothing is recorded, and the last prices go on.
func TestLG_03_PassesBeforePricesAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := lead(t, newServer())
		p.passes(10*time.Minute, "a")
		p.Observed(&disrupt.View{DisruptionView: cluster.DisruptionView{Now: time.Now(), Cluster: &cluster.Snapshot{}}, Unpriced: true}, &disrupt.Decision{})
		time.Sleep(5 * time.Minute)
		p.pass("a")
		if got := p.spent(); got < 0.2499 || got > 0.2501 {
			t.Errorf("%v USD were spent in a quarter of an hour, want 0.25", got)
		}
	})
}

// The next leader knows everything, and goes on with the totals.
func TestLG_12_TheNextLeaderGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first := lead(t, s)
		first.decide("removes a")
		first.passes(time.Hour, "a")
		first.stop()
		time.Sleep(20 * time.Second)
		second := lead(t, s)
		if got := second.texts(t); !slices.Equal(got, []string{"removes a"}) {
			t.Errorf("got %q", got)
		}
		second.passes(time.Hour, "a")
		if got, least := second.spent(), 2.0; got < least || got > least+0.01 {
			t.Errorf("the metric has %v USD, want %v", got, least)
		}
		report, err := second.Savings(t.Context(), inspect.SavingsQuery{})
		if err != nil || len(report.Notes) > 0 {
			t.Errorf("got %q, %v", report.Notes, err)
		}
		if got := report.Days[0].Total.Spent; got < second.spent()-1e-9 || got > second.spent()+1e-9 {
			t.Errorf("the report has %v USD, the metric %v", got, second.spent())
		}
	})
}

// All metrics have the totals of the report.
func TestLG_17_MetricsHaveTheTotalsOfTheReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := lead(t, newServer())
		p.passes(time.Minute, "a", "b")
		p.Deleted(&disrupt.Running{Command: disrupt.Command{ID: "c", Reason: karpv1.ReasonEmpty, Remove: []disrupt.Candidate{{Claim: "b", Pool: "general", Price: 1}}, Saves: 1}}, &disrupt.Candidate{Claim: "b", Pool: "general", Price: 1})
		p.Deleted(&disrupt.Running{Command: disrupt.Command{ID: "d", Reason: karpv1.ReasonDrifted}}, &disrupt.Candidate{Claim: "a", Pool: "general", Price: 1})
		p.Evicted("general", "web")
		p.passes(3*time.Hour, "a")
		p.Launched("c")
		p.passes(time.Hour, "a", "c")
		report, err := p.Savings(t.Context(), inspect.SavingsQuery{})
		if err != nil || len(report.Days) != 1 {
			t.Fatalf("got %+v, %v", report, err)
		}
		total := report.Days[0].Total
		if total.Unconsolidated < total.Spent+2.9 || total.Unconsolidated > total.Spent+3.1 {
			t.Errorf("spent %v, unconsolidated %v: the removed node saved 3 USD until another was launched", total.Spent, total.Unconsolidated)
		}
		m := p.metrics
		for what, pair := range map[string][2]float64{
			"spent": {testutil.ToFloat64(m.CostSpent), total.Spent}, "unconsolidated": {testutil.ToFloat64(m.CostUnconsolidated), total.Unconsolidated},
			"evictions": {testutil.ToFloat64(m.CostEvictions), 1}, "evictions of the namespace": {testutil.ToFloat64(m.CostNamespaceEvictions.WithLabelValues("web")), 1},
			"bound": {testutil.ToFloat64(m.CostBound), total.Bound}, "spent beside it": {testutil.ToFloat64(m.CostBoundSpent), total.BoundSpent},
			"idle": {testutil.ToFloat64(m.CostNamespaceSpent.WithLabelValues(inspect.RowIdle)), total.Spent},
		} {
			if d := pair[0] - pair[1]; d > 1e-9 || d < -1e-9 || pair[1] == 0 {
				t.Errorf("%s: the metric has %v, the report %v", what, pair[0], pair[1])
			}
		}
	})
}

// A leader that cannot read what was stored at first shows what it observes, and never all that was spent before as if it were
// spent at once.
func TestLG_17_MetricsDoNotJumpWhenTheStoredLedgerIsReadLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first := lead(t, s)
		first.passes(48*time.Hour, "a")
		first.stop()
		s.failing(func(verb, _ string) error {
			if verb == "get" {
				return &apierrors.StatusError{ErrStatus: apierrors.NewInternalError(errors.New("away")).Status()}
			}
			return nil
		})
		next := lead(t, s)
		next.passes(20*time.Second, "a")
		before := next.spent()
		s.failing(nil)
		next.passes(time.Minute, "a")
		if grown := next.spent() - before; grown > 0.1 {
			t.Errorf("the metric grew by %v USD within a minute, by %v before", grown, before)
		}
		if days, err := next.Savings(t.Context(), inspect.SavingsQuery{}); err != nil || len(days.Days) < 2 {
			t.Errorf("the report has %d days (%v), want those that were stored too", len(days.Days), err)
		}
	})
}

// Few and small writes: the head after decisions and each minute, what is sealed once. ConfigMaps say what they are.
func TestLG_15_Writes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := lead(t, s)
		p.passes(time.Hour, "a")
		if n := s.total("update") + s.total("create"); n < 55 || n > 70 {
			t.Errorf("%d writes in an hour without decisions, want about 60", n)
		}
		before := s.total("update")
		p.decide("removes a")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s.total("update") == before {
			t.Error("a decision was not stored within ten seconds")
		}
		for i := range 100 {
			p.decide(fmt.Sprint("removes ", i))
			time.Sleep(time.Second)
		}
		if n := s.total("update") - before; n > 13 {
			t.Errorf("%d writes for 100 decisions in 100 seconds", n)
		}
		before = s.total("update")
		p.decide("the last one")
		p.stop()
		if n := s.total("update") - before; n != 1 {
			t.Errorf("%d writes at the end, want one", n)
		}
		if n := s.total("get"); n != len(keep.Names()) {
			t.Errorf("%d reads, want %d at the start", n, len(keep.Names()))
		}
		maps := s.configMaps(t)
		head := maps["dovetail-ledger-00"]
		if head.Namespace != namespace || head.Labels[keep.Label] != keep.LabelValue || !strings.Contains(head.Annotations["dovetail.sh/description"], "kubectl delete configmaps -l dovetail.sh/part-of=ledger") {
			t.Errorf("got %+v", head.ObjectMeta)
		}
		if got := lead(t, s).texts(t); got[len(got)-1] != "the last one" {
			t.Errorf("the last decision is %q", got[len(got)-1])
		}
	})
}

// Without the right the ledger is in memory. That is logged once with the rule, and responses say it until it is granted; what
// happened meanwhile is kept, and so is what was stored before.
func TestLG_16_MissingRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		earlier := lead(t, s)
		earlier.decide("before")
		earlier.passes(time.Hour, "a")
		earlier.stop()
		forbidden := func(verb, name string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New("no rule for "+verb))
		}
		s.failing(forbidden)
		p := lead(t, s)
		p.decide("meanwhile")
		p.passes(time.Hour, "a")
		if n := p.lines.with("allow the service account to get and update configmaps dovetail-ledger-00"); n != 1 {
			t.Errorf("%d lines name the rule, want one: %q", n, p.lines.list)
		}
		if notes := p.notes(t); !strings.Contains(notes, "value settings.ledger of the chart") || !strings.Contains(notes, "kept in memory") {
			t.Errorf("got %q", notes)
		}
		s.failing(nil)
		p.passes(time.Minute, "a")
		if got := p.texts(t); !slices.Equal(got, []string{"before", "meanwhile"}) {
			t.Errorf("got %q", got)
		}
		report, err := p.Savings(t.Context(), inspect.SavingsQuery{})
		if err != nil || len(report.Days) != 1 {
			t.Fatalf("got %+v, %v", report, err)
		}
		if got := report.Days[0].Total.Spent; got < 2 || got > 2.1 {
			t.Errorf("%v USD were spent, want 2 and a minute", got)
		}
		if notes := p.notes(t); notes != "" || p.lines.with("the ledger is stored again") != 1 {
			t.Errorf("got %q", notes)
		}
		p.stop()
		if got := lead(t, s).texts(t); !slices.Equal(got, []string{"before", "meanwhile"}) {
			t.Errorf("stored is %q", got)
		}
	})
}

// While the API server is away, everything is kept in memory and stored afterwards.
func TestLG_16_Outage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := lead(t, s)
		p.passes(time.Minute, "a")
		s.failing(func(string, string) error {
			return &apierrors.StatusError{ErrStatus: apierrors.NewInternalError(errors.New("away")).Status()}
		})
		p.decide("meanwhile")
		p.passes(time.Hour, "a")
		if notes := p.notes(t); !strings.Contains(notes, "away") {
			t.Errorf("got %q", notes)
		}
		s.failing(nil)
		time.Sleep(time.Minute)
		p.stop()
		next := lead(t, s)
		if got := next.texts(t); !slices.Equal(got, []string{"meanwhile"}) {
			t.Errorf("got %q", got)
		}
	})
}

// Two writers that meet lose no event, and count nothing twice: a request whose response was lost, a leader that was paused.
func TestLG_16_WritersThatMeet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		one := lead(t, s)
		one.passes(time.Hour, "a")
		two := lead(t, s)
		for i := range 20 {
			one.decide(fmt.Sprint("one ", i))
			two.decide(fmt.Sprint("two ", i))
			two.pass("a")
			time.Sleep(7 * time.Second)
		}
		one.stop()
		two.stop()
		next := lead(t, s)
		got := map[string]bool{}
		for _, text := range next.texts(t) {
			if got[text] {
				t.Errorf("%q is there twice", text)
			}
			got[text] = true
		}
		if len(got) != 40 {
			t.Errorf("%d events of 40: %q", len(got), slices.Sorted(maps.Keys(got)))
		}
		next.pass("a")
		if spent := next.spent(); spent < 1 || spent > 1.1 {
			t.Errorf("%v USD were spent in a little more than an hour", spent)
		}
	})
}

// What a user deletes while it is kept is written again, or begins anew; nothing fails.
func TestLG_16_DeletedConfigMaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := lead(t, s)
		p.passes(2*time.Minute, "a")
		if err := s.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{keep.Label: keep.LabelValue}); err != nil {
			t.Fatal(err)
		}
		p.decide("afterwards")
		time.Sleep(time.Minute)
		if got := lead(t, s).texts(t); !slices.Equal(got, []string{"afterwards"}) || p.notes(t) != "" {
			t.Errorf("got %q, notes %q", got, p.notes(t))
		}
	})
}

// Nothing is written over what a later version stored. A damaged segment is reported, and replaced.
func TestLG_14_LaterVersionsAreNotOverwritten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content string
		says    string
		written bool
	}{
		"a later version": {"", "has format 99", false},
		"damaged":         {"hello", "segment 0 of the ledger cannot be read", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a later version" {
				tc.content = later(t)
			}
			synctest.Test(t, func(t *testing.T) {
				m := &corev1.ConfigMap{BinaryData: map[string][]byte{"segment": []byte(tc.content)}}
				m.Namespace, m.Name = namespace, keep.Names()[0]
				s := newServer(m)
				p := lead(t, s)
				p.decide("removes a")
				p.passes(time.Hour, "a")
				p.stop()
				after := string(s.configMaps(t)[m.Name].BinaryData["segment"])
				if written := after != tc.content; written != tc.written {
					t.Errorf("written: %v", written)
				}
				if p.lines.with(tc.says) == 0 || !strings.Contains(p.notes(t), tc.says) {
					t.Errorf("nothing says %q: %q, %q", tc.says, p.lines.list, p.notes(t))
				}
			})
		})
	}
}

// later is a segment of a format that does not exist yet.
func later(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write([]byte(`{"format":"dovetail-ledger","version":99,"segment":0}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The rights that are documented are those of the ConfigMaps that are used.
func TestLG_01_RightsNameTheConfigMaps(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "update"} {
		right, found := rights.Find(rights.Denial{Verb: verb, Resource: "configmaps", Namespace: namespace})
		if !found || right.Name != strings.Join(keep.Names(), ", ") || right.Value != "settings.ledger=true" {
			t.Errorf("%s: got %+v", verb, right)
		}
	}
	if right, found := rights.Find(rights.Denial{Verb: "delete", Resource: "configmaps"}); found {
		t.Errorf("there is a right that is not needed: %+v", right)
	}
}
