package disrupt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// repairView is a pool "p" of twenty nodes; those that are named here come first.
func repairView(t interface{ Fatal(...any) }, nodes ...cluster.ManagedNode) View {
	v := View{
		DisruptionView: cluster.DisruptionView{
			Now:   now,
			Pools: map[string]cluster.ManagedPool{"p": {Pool: cluster.Pool{Name: "p", Types: make([]catalog.InstanceType, 1)}, Ready: true, MaxNodes: -1}},
			Nodes: nodes,
		},
		Methods: Methods{Repair: true, Static: true}, Repairs: testSet(t),
	}
	for i := len(nodes); i < 20; i++ {
		v.Nodes = append(v.Nodes, cluster.ManagedNode{Node: cluster.Node{Name: fmt.Sprintf("well-%02d", i), Claim: fmt.Sprintf("claim-%02d", i), Pool: "p", Initialized: true, Settling: true}, Registered: true, Ready: true})
	}
	return v
}

func inPool(change func(*cluster.ManagedPool)) func(*View) {
	return func(v *View) {
		p := v.Pools["p"]
		change(&p)
		v.Pools["p"] = p
	}
}

// unhealthyNode is a node of pool "p" with a condition.
func unhealthyNode(name string, c corev1.NodeCondition, change ...func(*cluster.ManagedNode)) cluster.ManagedNode {
	n := cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: "claim-" + name, Pool: "p", Initialized: true, Settling: true}, Registered: true, Joined: ago(48 * time.Hour), Created: ago(48 * time.Hour), Health: []corev1.NodeCondition{c}}
	for _, f := range change {
		f(&n)
	}
	return n
}

// dead fell silent an hour ago, with a pod on it.
func dead(name string, change ...func(*cluster.ManagedNode)) cluster.ManagedNode {
	return unhealthyNode(name, health("Ready", "Unknown", "NodeStatusUnknown", time.Hour), append([]func(*cluster.ManagedNode){moving(1)}, change...)...)
}

func broken(name string, change ...func(*cluster.ManagedNode)) cluster.ManagedNode {
	return unhealthyNode(name, health("DiskReady", "False", "ReadErrors", 10*time.Minute), change...)
}

func guarded(n *cluster.ManagedNode) {
	n.Pods = append(n.Pods, cluster.ManagedPod{Pod: podOf("x/p", 1), Moves: true, Blocked: true, Budgets: []string{"x/b"}})
}

func static(claims, running, limit int64) func(*View) {
	return inPool(func(p *cluster.ManagedPool) {
		p.Static, p.Replicas, p.Claims, p.Running, p.MaxNodes = true, 20, claims, running, limit
	})
}

func anew(*cluster.ManagedNode, bool) relocation {
	return relocation{Known: true, Create: []solve.NewNode{{Pool: "p"}}}
}

func nowhere(*cluster.ManagedNode, bool) relocation {
	return relocation{Known: true, Unplaced: []solve.Unplaced{{}}}
}

// decideRepair makes a decision about unhealthy nodes only.
func decideRepair(v View, find relocateFunc) Decision {
	d := Decision{At: now, Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}, Eligible: map[karpv1.DisruptionReason]int{}}
	d.computeBudgets(&v)
	if v.Methods.Repair {
		d.startRepair(&v, func() bool { return false }, find)
	}
	return d
}

// podOf is a pod of which only the name, namespace/name, and the cost of its eviction are known.
func podOf(name string, cost float64) cluster.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	return cluster.Pod{Key: cluster.PodKey{Namespace: namespace, Name: name}, EvictCost: cost}
}

// moving is a pod that needs another place.
func moving(cost float64) func(*cluster.ManagedNode) {
	return func(n *cluster.ManagedNode) {
		n.Pods = append(n.Pods, cluster.ManagedPod{Pod: podOf("x/m", cost), Moves: true})
	}
}

// V15-14, V15-15, V15-22 to V15-30, V15-47, V15-49: what is done about unhealthy nodes.
func TestRepair(t *testing.T) {
	t.Parallel()
	first := func(v *View) { v.Methods.TerminateFirstRepair = true }
	reserved := func(n *cluster.ManagedNode) { n.CapacityType, n.Reservation = karpv1.CapacityTypeReserved, "cr-1" }
	elsewhere := func(*cluster.ManagedNode, bool) relocation {
		return relocation{Known: true, Bind: []solve.Bind{{Node: "well-19"}}}
	}
	slot := func(n *cluster.ManagedNode, freed bool) relocation {
		if freed {
			return anew(n, true)
		}
		return nowhere(n, false)
	}
	taken := inPool(func(p *cluster.ManagedPool) {
		p.Types = []catalog.InstanceType{{Name: "t", Offerings: []catalog.Offering{
			{Zone: "z", CapacityType: karpv1.CapacityTypeReserved, Reservation: "cr-1", Available: true},
		}}}
	})
	noTime := func(*cluster.ManagedNode, bool) relocation { return relocation{} }
	for name, tc := range map[string]struct {
		nodes  []cluster.ManagedNode
		change []func(*View)
		find   relocateFunc
		want   string // node, decision, bound, because
		say    string
	}{
		"nothing is wrong":                         {},
		"the gate is off":                          {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){func(v *View) { v.Methods.Repair = false }}},
		"V15-27 a dead node is replaced":           {nodes: []cluster.ManagedNode{dead("a")}, find: anew, want: "a replace Ready"},
		"V15-27 or deleted if others have room":    {nodes: []cluster.ManagedNode{dead("a")}, find: elsewhere, want: "a delete Ready"},
		"V15-27 or stays if its pods have no home": {nodes: []cluster.ManagedNode{dead("a")}, find: nowhere, say: "fit on no other node"},
		"the next one is tried then": {
			nodes: []cluster.ManagedNode{dead("a"), unhealthyNode("b", health("Ready", "False", "", 31*time.Minute), moving(1))}, want: "b replace 0s Ready", say: "fit on no other node",
			find: func(n *cluster.ManagedNode, _ bool) relocation {
				if n.Name == "a" {
					return nowhere(n, false)
				}
				return anew(n, false)
			},
		},
		"V15-20 a reboot": {nodes: []cluster.ManagedNode{broken("a")}, want: "a reboot 3m0s DiskReady"},
		"V15-30 two reboots in a day are enough": {
			nodes: []cluster.ManagedNode{broken("a", moving(1), func(n *cluster.ManagedNode) { n.Reboots = 2 })}, find: anew, want: "a replace 3m0s DiskReady escalated",
		},
		"V15-30 one is not": {nodes: []cluster.ManagedNode{broken("a", func(n *cluster.ManagedNode) { n.Reboots = 1 })}, want: "a reboot 3m0s DiskReady"},
		"V15-26 the claim bounds the drain more tightly": {
			nodes: []cluster.ManagedNode{broken("a", func(n *cluster.ManagedNode) { n.Bounded, n.Bound = true, time.Minute })}, want: "a reboot 1m0s DiskReady",
		},
		"V15-26 the policy does": {
			nodes: []cluster.ManagedNode{broken("a", func(n *cluster.ManagedNode) { n.Bounded, n.Bound = true, time.Hour })}, want: "a reboot 3m0s DiskReady",
		},
		"V15-26 without a bound the claim's own works as usual": {
			nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Bounded, n.Bound = true, time.Minute })}, find: anew, want: "a replace Ready",
		},
		"V15-22 the higher score first": {nodes: []cluster.ManagedNode{broken("a"), dead("b")}, find: anew, want: "b replace Ready"},
		"V15-22 then who costs less": {
			nodes: []cluster.ManagedNode{dead("a", moving(1)), dead("b")}, find: anew, want: "b replace Ready",
		},
		"V15-22 who expires soon costs little": {
			nodes: []cluster.ManagedNode{
				dead("a", func(n *cluster.ManagedNode) { n.Pods = []cluster.ManagedPod{{Pod: podOf("x/p", 2), Moves: true}} }),
				dead("b", func(n *cluster.ManagedNode) {
					n.Pods, n.ExpireAfter = []cluster.ManagedPod{{Pod: podOf("x/q", 3), Moves: true}, {Pod: podOf("x/d", 9)}}, 49*time.Hour
				}),
			}, find: anew, want: "b replace Ready",
		},
		"V15-22 then the name":               {nodes: []cluster.ManagedNode{dead("b"), dead("a")}, find: anew, want: "a replace Ready"},
		"V15-23 do-not-repair":               {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.DoNotRepair = true })}, say: "karpenter.sh/do-not-repair"},
		"V15-23 not before it is due":        {nodes: []cluster.ManagedNode{unhealthyNode("a", health("Ready", "Unknown", "", time.Minute), func(n *cluster.ManagedNode) { n.DoNotRepair = true })}},
		"V15-23 before V15-24":               {nodes: []cluster.ManagedNode{dead("a", guarded, func(n *cluster.ManagedNode) { n.DoNotRepair = true })}, say: "do-not-repair"},
		"V15-24 a guarded pod needs a bound": {nodes: []cluster.ManagedNode{dead("a", guarded)}, say: "neither the repair policy nor the NodeClaim bounds it; node/a: PodDisruptionBudget x/b allows no eviction of pod x/p"},
		"V15-24 a protected one too": {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) {
			n.Pods = []cluster.ManagedPod{{Pod: podOf("x/p", 0), ProtectedBy: karpv1.AnnotationDoNotDisrupt}}
		})}, say: "nor the NodeClaim bounds it; node/a: pod x/p carries"},
		"V15-24 the policy has one":            {nodes: []cluster.ManagedNode{broken("a", guarded)}, want: "a reboot 3m0s DiskReady"},
		"V15-24 the claim has one":             {nodes: []cluster.ManagedNode{dead("a", guarded, func(n *cluster.ManagedNode) { n.Bounded, n.Bound = true, time.Hour })}, find: anew, want: "a replace Ready"},
		"V15-15 do-not-disrupt is not for us":  {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt })}, find: anew, want: "a replace Ready"},
		"V15-15 never initialized, nominated":  {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Initialized, n.Nominated = false, true })}, find: anew, want: "a replace Ready"},
		"V15-15 never registered":              {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Initialized, n.Registered = false, false })}, say: "not registered"},
		"V15-15 no pool":                       {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Pool = "" })}, say: "repair needs one"},
		"V15-15 an unknown pool":               {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Pool = "q" })}, say: "NodePool q"},
		"V15-15 types that cannot be listed":   {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){inPool(func(p *cluster.ManagedPool) { p.Types = nil })}, say: "cannot be resolved"},
		"V15-14 nominated":                     {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Nominated = true })}, say: "a pending pod is expected"},
		"SC-52 a pod may come that runs still": {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.ExpectsDisplaced = true })}, find: anew, want: "a replace Ready"},
		"V15-14 rebooting":                     {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Rebooting = true })}, say: "being rebooted"},
		"FM M14 already going":                 {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.BeingRemoved = true })}, say: "node/a: "},
		"FM M14 in a command: nothing is said": {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.BeingRemoved, n.Commanded = true, true })}},
		"V15-25 a budget of none":              {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){inPool(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "0"}} })}, say: "a budget of the NodePool says 0"},
		"V15-16 what is no node yet uses none": {nodes: []cluster.ManagedNode{dead("a", func(n *cluster.ManagedNode) { n.Initialized = false })}, change: []func(*View){inPool(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "0"}} })}, find: anew, want: "a replace Ready", say: "a budget of the NodePool says 0"},
		"V15-28 static":                        {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, -1)}, want: "a replace Ready template p"},
		"V15-28 static, but the gate is off": {
			nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, -1), func(v *View) { v.Methods.Static = false }}, say: "DisruptionBlocked",
		},
		"V15-28 static, an exchange runs": {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(21, 21, -1)}},
		"V15-28 static, a command runs": {
			nodes: []cluster.ManagedNode{dead("a"), {Node: cluster.Node{Name: "b", Pool: "p"}, BeingRemoved: true, Commanded: true}}, change: []func(*View){static(21, 20, -1)},
		},
		"V15-28 static, below the limit":        {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, 21)}, want: "a replace Ready template p"},
		"V15-49 static, at the limit":           {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, 20)}, say: "has 20 of 20 nodes"},
		"V15-49 static, the node goes first":    {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, 20), first}, want: "a terminate-first static-at-limit"},
		"V15-49 not if nothing can be launched": {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, 20), first, inPool(func(p *cluster.ManagedPool) { p.Ready = false })}, say: "DisruptionBlocked"},
		"V15-27 no pod has to move":             {nodes: []cluster.ManagedNode{unhealthyNode("a", health("Ready", "Unknown", "", time.Hour))}, want: "a delete Ready"},
		"V15-27 no time to find out":            {nodes: []cluster.ManagedNode{dead("a"), dead("b")}, find: noTime},
		"V15-48 all reservations are taken":     {nodes: []cluster.ManagedNode{dead("a", reserved)}, change: []func(*View){static(20, 20, -1), first, taken}, want: "a terminate-first no-reserved-capacity"},
		"V15-48 but not by this node":           {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){static(20, 20, -1), first, taken}, say: "can only launch from reservations"},
		"V15-48 without the gate, one for one":  {nodes: []cluster.ManagedNode{dead("a", reserved)}, change: []func(*View){static(20, 20, -1), taken}, want: "a replace Ready template p"},
		"V15-47 the reservation is full":        {nodes: []cluster.ManagedNode{dead("a", reserved)}, change: []func(*View){first}, find: slot, want: "a terminate-first no-reserved-capacity"},
		"V15-47 not without the gate":           {nodes: []cluster.ManagedNode{dead("a", reserved)}, find: slot, say: "fit on no other node"},
		"V15-47 not for a node that has none":   {nodes: []cluster.ManagedNode{dead("a")}, change: []func(*View){first}, find: slot, say: "fit on no other node"},
		"V15-47 not if it does not help either": {nodes: []cluster.ManagedNode{dead("a", reserved)}, change: []func(*View){first}, find: nowhere, say: "fit on no other node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := repairView(t, tc.nodes...)
			for _, f := range tc.change {
				f(&v)
			}
			if tc.find == nil {
				tc.find = func(*cluster.ManagedNode, bool) relocation { t.Error("a simulation"); return relocation{} }
			}
			d := decideRepair(v, tc.find)
			if diff := cmp.Diff(tc.want, describeCommands(d.Commands)); diff != "" {
				t.Error(diff)
			}
			said := texts(d.Events)
			if tc.say == "" && said != "" || !strings.Contains(said, tc.say) {
				t.Errorf("said %q, want %q", said, tc.say)
			}
		})
	}
}

func describeCommands(commands []Command) string {
	var out []string
	for _, c := range commands {
		words := []string{c.Remove[0].Node, c.Decision}
		if c.Bound != nil {
			words = append(words, c.Bound.String())
		}
		words = append(words, c.Because)
		if c.Remove[0].Escalated {
			words = append(words, "escalated")
		}
		if len(c.Template) > 0 {
			words = append(words, "template", strings.Join(c.Template, ","))
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "; ")
}

func texts(news []ObjectEvent) string {
	var out []string
	for _, n := range news {
		out = append(out, n.Node+n.Pool+": "+string(n.Event.Reason)+" "+n.Event.Text)
	}
	return strings.Join(out, "; ")
}

// V15-31: a command says what it rests on.
func TestRepairSaysWhatItRestsOn(t *testing.T) {
	t.Parallel()
	n := broken("a")
	n.Health = append(n.Health, health("GPUReady", "False", "X", time.Minute))
	v := repairView(t, n)
	d := decideRepair(v, nil)
	want := &Diagnosis{Condition: "GPUReady", Status: "False", Reason: "X", Regex: "X", Action: "RebootNode", Due: now, BoundBy: "GPUReady"}
	if diff := cmp.Diff(want, d.Commands[0].Repair); diff != "" {
		t.Error(diff)
	}
}

// V15-25, FM M12: above a fifth of a pool, rounded up, nothing is repaired, and all three objects say so.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes, unhealthy int
		want             bool // repaired
	}{
		"one of one":         {1, 1, true},
		"one of three":       {3, 1, true},
		"two of three":       {3, 2, false},
		"two of six":         {6, 2, true},
		"four of twenty":     {20, 4, true},
		"five of twenty":     {20, 5, false},
		"FM M12 all of them": {20, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := repairView(t)
			v.Nodes = v.Nodes[:tc.nodes]
			for i := range tc.unhealthy {
				v.Nodes[i] = broken(fmt.Sprintf("unhealthy-%02d", i))
			}
			d := decideRepair(v, nil)
			if got := len(d.Commands) == 1; got != tc.want {
				t.Errorf("repaired = %v, said %s", got, texts(d.Events))
			}
			if tc.want {
				return
			}
			on := map[string]bool{}
			for _, n := range d.Events {
				if n.Event.Reason != event.NodeRepairBlocked {
					t.Errorf("said %v", n)
				}
				on[n.Node+"/"+n.Claim+"/"+n.Pool] = true
			}
			if !on["unhealthy-00/claim-unhealthy-00/"] || !on["//p"] {
				t.Errorf("reported %v", on)
			}
		})
	}
}

// V15-25: an unhealthy condition counts whatever its reason and however young, but only for its own pool.
func TestBreakerCountsEveryUnhealthyNode(t *testing.T) {
	t.Parallel()
	v := repairView(t, dead("a"))
	for i := 1; i < 5; i++ {
		v.Nodes[i].Health = []corev1.NodeCondition{health("GPUReady", "False", "no policy has this reason", 0)}
	}
	if d := decideRepair(v, nil); len(d.Commands) > 0 {
		t.Error("a node was repaired although five of twenty are unhealthy")
	}
	for i := 1; i < 5; i++ {
		v.Nodes[i].Pool = "q"
	}
	if d := decideRepair(v, anew); len(d.Commands) == 0 {
		t.Errorf("unhealthy nodes of another pool count: %s", texts(d.Events))
	}
}

// features 4, FM K12: most nodes of the cluster fell silent at once. Pools are small here, so that their
// own breakers allow one each.
func TestFM_K12_AllKubeletsUnreachable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes  int
		silent []time.Duration // since when
		young  int             // of those that are not, were launched after that
		want   bool            // repaired
	}{
		"most at once":              {nodes: 5, silent: []time.Duration{60 * time.Minute, 61 * time.Minute, 63 * time.Minute}},
		"most that were there":      {nodes: 6, young: 1, silent: []time.Duration{60 * time.Minute, 61 * time.Minute, 63 * time.Minute}},
		"half of them":              {nodes: 6, silent: []time.Duration{60 * time.Minute, 61 * time.Minute, 63 * time.Minute}, want: true},
		"most, but one by one":      {nodes: 5, silent: []time.Duration{60 * time.Minute, 90 * time.Minute, 120 * time.Minute}, want: true},
		"too few to be a sign":      {nodes: 2, silent: []time.Duration{time.Hour, time.Hour}, want: true},
		"a cluster with a bad past": {nodes: 7, silent: []time.Duration{9 * time.Hour, 60 * time.Minute, 61 * time.Minute, 63 * time.Minute, 64 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := repairView(t)
			v.Nodes = v.Nodes[:tc.nodes]
			for i := range v.Nodes {
				v.Nodes[i].Pool = fmt.Sprintf("p%d", i)
				v.Pools[v.Nodes[i].Pool] = cluster.ManagedPool{Pool: cluster.Pool{Name: v.Nodes[i].Pool, Types: make([]catalog.InstanceType, 1)}}
			}
			for i := range tc.young {
				v.Nodes[tc.nodes-1-i].Created = v.Now.Add(-30 * time.Minute)
			}
			for i, since := range tc.silent {
				v.Nodes[i].Health = []corev1.NodeCondition{health("Ready", "Unknown", "NodeStatusUnknown", since)}
			}
			d := decideRepair(v, anew)
			if got := len(d.Commands) == 1; got != tc.want {
				t.Errorf("repaired = %v, said %s", got, texts(d.Events))
			}
			if said := texts(d.Events); !tc.want && !strings.Contains(said, "stopped reporting") {
				t.Errorf("said %q", said)
			}
		})
	}
}

// At no time is a node of a pool repaired of which more than a fifth is unhealthy, nor one that budgets, a
// veto or its state forbid; at most one command comes of it.
func TestRepairStaysWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := repairView(t)
		for i := range v.Nodes {
			n := drawUnhealthyNode(t, v.Nodes[i].Name)
			if rapid.IntRange(0, 3).Draw(t, "unhealthy") > 0 {
				n.Health = nil
			}
			n.Pool = rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool")
			n.DoNotRepair, n.BeingRemoved, n.Rebooting = rapid.Bool().Draw(t, "veto"), rapid.Bool().Draw(t, "going"), rapid.Bool().Draw(t, "rebooting")
			n.Initialized, n.Reboots = rapid.Bool().Draw(t, "initialized"), rapid.IntRange(0, 3).Draw(t, "reboots")
			v.Nodes[i] = n
		}
		v.Pools["q"] = cluster.ManagedPool{Pool: cluster.Pool{Name: "q", Types: make([]catalog.InstanceType, 1)}, Budgets: []cluster.Budget{{Nodes: "0"}}}
		d := decideRepair(v, anew)
		if len(d.Commands) > 1 {
			t.Fatalf("%d commands", len(d.Commands))
		}
		for _, c := range d.Commands {
			i := slices.IndexFunc(v.Nodes, func(n cluster.ManagedNode) bool { return n.Name == c.Remove[0].Node })
			n := v.Nodes[i]
			all, unhealthy := 0, 0
			for j := range v.Nodes {
				if v.Nodes[j].Pool == n.Pool {
					all++
					if v.Repairs.unhealthy(&v.Nodes[j]) {
						unhealthy++
					}
				}
			}
			if unhealthy*5 > all+4 {
				t.Errorf("%s: %d of %d are unhealthy", n.Name, unhealthy, all)
			}
			if n.DoNotRepair || n.BeingRemoved || n.Rebooting || n.Pool == "q" && n.Initialized {
				t.Errorf("%+v must stay", n)
			}
			if c.Decision == Reboot && n.Reboots >= maxReboots {
				t.Errorf("reboot number %d", n.Reboots+1)
			}
		}
	})
}

// V15-07, V15-16, FM M12: pass after pass, no more nodes of a pool are in repair than its budget allows,
// and none begins while more than a fifth is unhealthy. Unhealthy nodes do not use the budget of their own repair up.
func TestRepairIsPaced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := repairView(t)
		inPool(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "10%"}} })(&v)
		unhealthy := rapid.IntRange(0, 8).Draw(t, "unhealthy")
		for i := range unhealthy {
			v.Nodes[i] = rapid.SampledFrom([]func(string, ...func(*cluster.ManagedNode)) cluster.ManagedNode{dead, broken}).Draw(t, "how")(fmt.Sprintf("unhealthy-%d", i))
		}
		const allowed, fifth = 2, 4 // of twenty
		begun := 0
		for range 20 {
			d := decideRepair(v, anew)
			for _, c := range d.Commands {
				i := slices.IndexFunc(v.Nodes, func(n cluster.ManagedNode) bool { return n.Name == c.Remove[0].Node })
				v.Nodes[i].BeingRemoved, v.Nodes[i].Commanded, v.Nodes[i].Rebooting = c.Decision != Reboot, c.Decision != Reboot, c.Decision == Reboot
				begun++
			}
		}
		want := min(unhealthy, allowed)
		if unhealthy > fifth {
			want = 0
		}
		if begun != want {
			t.Errorf("%d of %d unhealthy nodes are in repair, want %d", begun, unhealthy, want)
		}
	})
}
