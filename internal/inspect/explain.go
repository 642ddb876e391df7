package inspect

import (
	"cmp"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// defaultNamespace is that of a pod whose namespace is not named.
const defaultNamespace = "default"

// Explain says why an object of a cluster is as it is. The error is a NotFoundError if the cluster has no such object.
func Explain(c *Cluster, about Subject) (Explanation, error) {
	return ExplainWithin(c, about, func() bool { return false })
}

// ExplainWithin is Explain until stop says that time is up; what is missing then is noted.
func ExplainWithin(c *Cluster, about Subject, stop func() bool) (Explanation, error) {
	if about.Kind == KindPod && about.Namespace == "" {
		about.Namespace = defaultNamespace
	}
	x := newExplainer(c, stop)
	out := Explanation{Subject: about, At: c.View.Now}
	found := false
	switch about.Kind {
	case KindPod:
		out.Pod, out.Answer, found = x.explainPod(cluster.PodKey{Namespace: about.Namespace, Name: about.Name})
	case KindNode, KindNodeClaim:
		out.Node, out.Answer, found = x.explainNode(about)
	case KindNodePool:
		out.Pool, out.Answer, found = x.explainPool(about.Name)
	}
	if !found {
		return Explanation{}, NotFoundError{Subject: about, Similar: x.similar(about)}
	}
	for _, name := range resourceNames(c.Untyped) {
		out.Notes = append(out.Notes, "the instance types of NodePool "+name+" are not known: "+c.Untyped[name])
	}
	if stop() {
		out.Notes = append(out.Notes, "time was up before all was tried: what keeps nodes, and where pods could go, may be incomplete")
	}
	return out, nil
}

// explainer explains one object of a cluster.
type explainer struct {
	c       *Cluster
	view    *cluster.Snapshot
	managed map[string]*cluster.ManagedNode // by claim
	decided *disrupt.Decision
	stop    func() bool // whether time is up
}

func newExplainer(c *Cluster, stop func() bool) *explainer {
	x := &explainer{c: c, stop: stop, view: c.View.Cluster, managed: make(map[string]*cluster.ManagedNode, len(c.View.Nodes))}
	if x.view == nil {
		x.view = &cluster.Snapshot{}
	}
	for i := range c.View.Nodes {
		x.managed[c.View.Nodes[i].Claim] = &c.View.Nodes[i]
	}
	return x
}

// manages returns what disruption sees of a node; nil if the node is not managed, or is only a NodeClaim so far.
func (x *explainer) manages(n *cluster.Node) *cluster.ManagedNode {
	if n.Claim == "" {
		return nil
	}
	return x.managed[n.Claim]
}

// node is a node as a Fleet has it, under the name of its Node if there is one.
func (x *explainer) node(n *cluster.Node) *Node {
	out := nodeOf(n, x.managed, x.view.Resources)
	if m := x.manages(n); m != nil {
		out.Name = m.Name
		alone := x.c.View
		alone.Nodes = []cluster.ManagedNode{*m}
		if why, blocked := disrupt.PersistentBlocks(alone)[m.Claim]; blocked {
			out.Blocked = &findings([]reason.Reason{why}, why.Subject)[0]
		}
	}
	return &out
}

// decide is what disruption would do now, with all that it refuses.
func (x *explainer) decide() *disrupt.Decision {
	if x.decided == nil {
		v := x.c.View
		v.Unchanged, v.OnMethod, v.MaxRefused = false, nil, 4*(len(v.Nodes)+1) // one of each method for every node
		x.decided = new(disrupt.Next(v, x.stop))
	}
	return x.decided
}

// decideAlone is what disruption would do if all other nodes carried do-not-disrupt.
func (x *explainer) decideAlone(name string) *disrupt.Decision {
	v := x.c.View
	v.Unchanged, v.OnMethod, v.SearchCache, v.MaxRefused = false, nil, nil, 4*(len(v.Nodes)+1)
	v.Nodes = slices.Clone(v.Nodes)
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Name != name && n.ProtectedBy == "" {
			n.ProtectedBy = karpv1.AnnotationDoNotDisrupt
		}
	}
	return new(disrupt.Next(v, x.stop))
}

// plan plans for the pods without a node, as provisioning does, and lists all that rules out places for some of them.
func (x *explainer) plan(about func(*solve.Plan) []cluster.PodKey) (solve.Plan, map[cluster.PodKey]solve.Obstacles) {
	problem := solve.Problem{View: x.view, Policy: x.c.View.Policy, PlannedBinds: x.c.View.PlannedBinds}
	for _, p := range x.c.View.PodsToPlace {
		if !p.Virtual { // they come last, and take nothing from the others
			problem.Pods = append(problem.Pods, p)
		}
	}
	if len(x.c.Awaiting) > 0 {
		problem, _ = solve.PlanAwaitingReplacement(problem, x.c.Awaiting, x.stop)
	}
	return solve.Explain(problem, about, x.stop)
}

// launches lists planned nodes.
func launches(nodes []solve.NewNode) []Launch {
	out := make([]Launch, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		l := Launch{Pool: n.Pool, Type: n.Offer.Type, Types: n.Types, Zone: n.Offer.Zone, Market: n.Offer.CapacityType, Price: n.Offer.Price, Pods: []string{}}
		for _, pod := range n.Pods {
			l.Pods = append(l.Pods, pod.String())
		}
		slices.Sort(l.Pods)
		out = append(out, l)
	}
	return out
}

// findings puts reasons into words. What they are about is left out if it is the subject.
func findings(list []reason.Reason, subject string) []Finding {
	out := make([]Finding, 0, len(list))
	for _, r := range list {
		if r.Subject == subject {
			r.Subject = ""
		}
		out = append(out, FindingOf(r))
	}
	return out
}

// poolFindings are findings about a NodePool. That its instance types are not known would read as if it had none.
func (x *explainer) poolFindings(pool string, list []reason.Reason) []Finding {
	out := findings(list, string(KindNodePool)+"/"+pool)
	why, untyped := x.c.Untyped[pool]
	for i := range out {
		if untyped && out[i].Code == reason.PoolFiltered {
			out[i] = FindingOf(reason.Reason{Code: reason.PoolUnresolved, Have: pool})
			out[i].Text += " (" + why + ")"
		}
	}
	return out
}

// amountsOf are the amounts of a Vec by resource. Pods count as one without saying so.
func (x *explainer) amountsOf(v resources.Vec) map[string]int64 {
	out := map[string]int64{}
	for lane := range x.view.Resources.Len() {
		if n := v.At(lane); n != 0 && lane != resources.Unknown && lane != resources.Pods {
			out[string(x.view.Resources.Name(lane))] = n
		}
	}
	return out
}

// maxSimilar is how many names an error suggests.
const maxSimilar = 3

// similar lists objects that were perhaps meant, in the form of Subject.String: of the same name elsewhere, then of a similar
// name.
func (x *explainer) similar(about Subject) []string {
	var same, others []Subject
	note := func(s Subject) {
		if s.Name == about.Name {
			same = append(same, s)
		} else if s.Kind == about.Kind && s.Namespace == about.Namespace {
			others = append(others, s)
		}
	}
	for _, s := range Subjects(x.c) {
		note(s)
	}
	out := make([]string, 0, maxSimilar)
	slices.SortStableFunc(same, func(a, b Subject) int { return cmp.Compare(kindDistance(a, about), kindDistance(b, about)) })
	for _, s := range same {
		out = append(out, s.String())
	}
	names := make([]string, 0, len(others))
	for _, s := range others {
		names = append(names, s.Name)
	}
	if best := near.Nearest(about.Name, names); best != "" && len(out) == 0 {
		out = append(out, Subject{Kind: about.Kind, Namespace: about.Namespace, Name: best}.String())
	}
	return out[:min(len(out), maxSimilar)]
}

func kindDistance(a, about Subject) int {
	if a.Kind == about.Kind {
		return 0
	}
	return 1
}

// Subjects lists all that can be explained: pods by namespace and name, then nodes, NodeClaims and NodePools by name.
func Subjects(c *Cluster) []Subject {
	x := newExplainer(c, func() bool { return false })
	var pods, nodes, claims, pools []Subject
	note := func(list []cluster.Pod) {
		for i := range list {
			if key := list[i].Key; !list[i].Virtual {
				pods = append(pods, Subject{Kind: KindPod, Namespace: key.Namespace, Name: key.Name})
			}
		}
	}
	note(x.view.Pending)
	note(c.Ignored)
	for i := range x.view.Nodes {
		n := &x.view.Nodes[i]
		note(n.Pods)
		if n.Claim != "" {
			claims = append(claims, Subject{Kind: KindNodeClaim, Name: n.Claim})
		}
		if name := x.nodeName(n); name != "" {
			nodes = append(nodes, Subject{Kind: KindNode, Name: name})
		}
	}
	for i := range x.view.Pools {
		pools = append(pools, Subject{Kind: KindNodePool, Name: x.view.Pools[i].Name})
	}
	all := slices.Concat(pods, nodes, claims, pools)
	order := []Kind{KindPod, KindNode, KindNodeClaim, KindNodePool}
	slices.SortFunc(all, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}

// Names are those of the objects of a kind: of pods, of those in a namespace.
func Names(list []Subject, kind Kind, namespace string) []string {
	var out []string
	for _, s := range list {
		if s.Kind == kind && (kind != KindPod || s.Namespace == namespace) {
			out = append(out, s.Name)
		}
	}
	return out
}

// nodeName is the name of the Node object; empty if there is only a NodeClaim.
func (x *explainer) nodeName(n *cluster.Node) string {
	if n.Claim == "" {
		return n.Name
	}
	if m := x.managed[n.Claim]; m != nil {
		return m.Name
	}
	return ""
}
