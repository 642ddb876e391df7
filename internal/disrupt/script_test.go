package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// What is decided, as scripts; go test ./internal/disrupt -run TestScripts -rewrite
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		t.Helper()
		f := &facts{}
		world := script.New(append(f.commands(), (&repairScript{facts: f}).commands()...)...)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			printed, err := world.Run(text(d))
			if err != nil {
				return err.Error() + "\n"
			}
			return printed
		})
	})
}

// text puts the first line, which datadriven has taken apart, back in front of the others.
func text(d *datadriven.TestData) string {
	words := []string{d.Cmd}
	for _, arg := range d.CmdArgs {
		words = append(words, arg.String())
	}
	return strings.Join(words, " ") + "\n" + d.Input
}

// facts is what lines say about disruption; they are dropped once something was decided.
type facts struct {
	nodes   map[string][]func(*cluster.ManagedNode)
	pods    map[string][]func(*cluster.ManagedPod)
	pools   map[string][]func(*cluster.ManagedPool)
	general []func(*disrupt.View)
}

func (f *facts) commands() []script.Command {
	f.resetFacts()
	return []script.Command{
		{Name: "about", Do: f.aboutNodes, Usage: "about NODE… [drift=AMIDrift] [ago=5m] [reservation=cr-1] [protected] [nominated] [rebooting] [commanded] [deleting] [notready] [unregistered] [age=1m] [bounded] [quiet] [unpriced]"},
		{Name: "guard", Do: f.aboutPods, Usage: "guard POD… [budgets=x/one,x/two] [blocked] [impossible] [protected]"},
		{Name: "rules", Do: f.aboutPools, Usage: "rules POOL… [policy=Balanced] [budget=10%/Drifted]… [never] [protected] [unknown] [unready] [replicas=3] [limit=4] [claims=3] [running=3]"},
		{Name: "tune", Do: f.aboutAll, Usage: "tune [horizon=1h] [podcost=0.1] [minage=5m] [spottospot] [terminatefirst] [backedoff=POOL] [fee=0.1]"},
		{Name: "next", Do: f.next, Usage: "next [news] [refused] [scores] [keep]: what is decided; keep keeps what about, guard, rules and tune said"},
	}
}

func (f *facts) resetFacts() {
	*f = facts{nodes: map[string][]func(*cluster.ManagedNode){}, pods: map[string][]func(*cluster.ManagedPod){}, pools: map[string][]func(*cluster.ManagedPool){}}
}

func span(l *script.Line, key string) time.Duration {
	text := l.Text(key)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		l.Failf("%s=%s is no duration", key, text)
	}
	return d
}

func (f *facts) aboutNodes(_ *script.World, l *script.Line) string {
	drift, ago, age, reservation := l.Text("drift"), span(l, "ago"), span(l, "age"), l.Text("reservation")
	flags := map[string]func(*cluster.ManagedNode){
		"protected":    func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt },
		"nominated":    func(n *cluster.ManagedNode) { n.Nominated = true },
		"rebooting":    func(n *cluster.ManagedNode) { n.Rebooting = true },
		"commanded":    func(n *cluster.ManagedNode) { n.Commanded = true },
		"deleting":     func(n *cluster.ManagedNode) { n.BeingRemoved = true },
		"notready":     func(n *cluster.ManagedNode) { n.Ready = false },
		"unregistered": func(n *cluster.ManagedNode) { n.Registered, n.Initialized = false, false },
		"bounded":      func(n *cluster.ManagedNode) { n.Bounded = true },
		"quiet":        func(n *cluster.ManagedNode) { n.Settling = true },
		"unpriced":     func(n *cluster.ManagedNode) { n.Price = 0 },
		"poolless":     func(n *cluster.ManagedNode) { n.Pool = "" },
		"zoneless":     func(n *cluster.ManagedNode) { n.Zone = "" },
		"untyped":      func(n *cluster.ManagedNode) { n.InstanceType = "gone.large" },
		"captypeless":  func(n *cluster.ManagedNode) { n.CapacityType = "" },
	}
	change := []func(*cluster.ManagedNode){func(n *cluster.ManagedNode) {
		if drift != "" {
			n.Drift, n.DriftedAt = drift, n.Created.Add(time.Hour-ago)
		}
		if age > 0 {
			n.Created = n.Created.Add(time.Hour - age)
		}
		if reservation != "" {
			n.Reservation = reservation
		}
	}}
	for name, set := range flags {
		if l.Flag(name) {
			change = append(change, set)
		}
	}
	for _, name := range l.Bare() {
		f.nodes[name] = append(f.nodes[name], change...)
	}
	return ""
}

func (f *facts) aboutPods(_ *script.World, l *script.Line) string {
	budgets, blocked, impossible, protected := l.List("budgets"), l.Flag("blocked"), l.Flag("impossible"), l.Flag("protected")
	for _, name := range l.Bare() {
		f.pods["default/"+name] = append(f.pods["default/"+name], func(p *cluster.ManagedPod) {
			p.Budgets, p.Blocked, p.Impossible, p.ProtectedBy = budgets, blocked || impossible, impossible, protection(protected)
		})
	}
	return ""
}

func (f *facts) aboutPools(_ *script.World, l *script.Line) string {
	var budgets []cluster.Budget
	for _, text := range l.All("budget") {
		nodes, reasons, _ := strings.Cut(text, "/")
		b := cluster.Budget{Nodes: nodes}
		if reasons != "" {
			b.Reasons = strings.Split(reasons, ",")
		}
		budgets = append(budgets, b)
	}
	policy := l.Text("policy")
	replicas, limit, claims, running := l.Int("replicas", -1), l.Int("limit", -1), l.Int("claims", 0), l.Int("running", 0)
	never, protected, unknown, unready := l.Flag("never"), l.Flag("protected"), l.Flag("unknown"), l.Flag("unready")
	for _, name := range l.Bare() {
		f.pools[name] = append(f.pools[name], func(p *cluster.ManagedPool) {
			p.Policy, p.Budgets, p.NeverConsolidate, p.ProtectedBy = karpv1.ConsolidationPolicy(policy), budgets, never, protection(protected)
			if unknown {
				p.Types = nil
			}
			if replicas >= 0 {
				p.Static, p.Ready, p.Replicas, p.Claims, p.Running = true, true, int64(replicas), int64(claims), int64(running)
			}
			p.MaxNodes = int64(limit)
			p.Ready = p.Ready && !unready
		})
	}
	return ""
}

func (f *facts) aboutAll(_ *script.World, l *script.Line) string {
	tuning := disrupt.Tuning{Horizon: span(l, "horizon"), PodCost: l.Price("podcost"), MinAge: span(l, "minage")}
	spot, first, backedOff, nostatic := l.Flag("spottospot"), l.Flag("terminatefirst"), l.List("backedoff"), l.Flag("nostatic")
	f.general = append(f.general, func(v *disrupt.View) {
		v.Tuning, v.Policy.SpotToSpot, v.Methods.TerminateFirstDrift, v.Methods.Static = tuning, spot, first, !nostatic
		v.DriftBackoff = map[string]time.Time{}
		for _, name := range backedOff {
			v.DriftBackoff[name] = v.Now.Add(time.Minute)
		}
	})
	return ""
}

// view is the cluster of the script with what was said about it.
func (f *facts) view(w *script.World) disrupt.View {
	view, pods := w.Snapshot()
	v := viewOf(view, pods, w.Policy())
	for i := range v.Nodes {
		for _, change := range f.nodes[v.Nodes[i].Name] {
			change(&v.Nodes[i])
		}
		for j := range v.Nodes[i].Pods {
			for _, change := range f.pods[v.Nodes[i].Pods[j].Key.String()] {
				change(&v.Nodes[i].Pods[j])
			}
		}
	}
	nodes := slices.Clone(v.Cluster.Nodes)
	for i := range v.Nodes {
		at := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == v.Nodes[i].Name })
		nodes[at].Price = v.Nodes[i].Price
	}
	v.Cluster.Nodes = nodes
	for name, pool := range v.Pools {
		for _, change := range f.pools[name] {
			change(&pool)
		}
		v.Pools[name] = pool
	}
	for _, change := range f.general {
		change(&v)
	}
	return v
}

func (f *facts) next(w *script.World, l *script.Line) string {
	news, refused, scores, keep := l.Flag("news"), l.Flag("refused"), l.Flag("scores"), l.Flag("keep")
	v := f.view(w)
	d := disrupt.Next(v, func() bool { return false })
	var b strings.Builder
	for i := range d.Commands {
		render(&b, &d.Commands[i])
	}
	if scores {
		for _, s := range d.Scores {
			fmt.Fprintf(&b, "score %s %s %.3f approved=%v\n", s.Pool, strings.Join(s.Nodes, ","), s.Value, s.Approved)
		}
	}
	if refused {
		for _, r := range d.Refused {
			fmt.Fprintf(&b, "refused %s %s: %s\n", r.Reason, strings.Join(r.Nodes, ","), r.Why.Code)
		}
	}
	if news {
		for _, s := range d.Events {
			on := s.Node
			switch {
			case s.Pool != "":
				on = "pool " + s.Pool
			case s.Node == "":
				on = "claim " + s.Claim
			}
			fmt.Fprintf(&b, "%s on %s: %s\n", s.Event.Reason, on, s.Event.Text)
		}
	}
	if d.Limited {
		b.WriteString("limited\n")
	}
	for _, found := range judge(v, d) {
		b.WriteString("VIOLATES " + found.String() + "\n")
	}
	if !keep {
		f.resetFacts()
	}
	return b.String()
}

func render(b *strings.Builder, c *disrupt.Command) {
	var names []string
	for i := range c.Remove {
		names = append(names, c.Remove[i].Node)
	}
	fmt.Fprintf(b, "%s %s %s saves=%.4g cost=%.4g moved=%d", c.Reason, strings.TrimSpace(c.Type+" "+c.Decision), strings.Join(names, ","), c.Saves, c.Cost, c.Moved)
	if c.Frees > 0 {
		fmt.Fprintf(b, " frees=%.4g", c.Frees)
	}
	if c.Score > 0 {
		fmt.Fprintf(b, " score=%.3f", c.Score)
	}
	if c.Because != "" {
		b.WriteString(" because=" + c.Because)
	}
	if c.Bound != nil {
		b.WriteString(" bound=" + c.Bound.String())
	}
	if c.Remove[0].Escalated {
		b.WriteString(" escalated")
	}
	for _, pool := range c.Template {
		b.WriteString(" template=" + pool)
	}
	b.WriteString("\n")
	for _, bind := range c.Bind {
		b.WriteString("  bind " + bind.Pod.Name + " " + bind.Node + "\n")
	}
	for i := range c.Create {
		n := &c.Create[i]
		var pods []string
		for _, key := range n.Pods {
			pods = append(pods, key.Name)
		}
		slices.Sort(pods)
		fmt.Fprintf(b, "  create %s %s/%s types=%d pods=%s\n", n.Pool, n.Offer.Type, n.Offer.CapacityType, len(n.Types), strings.Join(pods, ","))
	}
}
