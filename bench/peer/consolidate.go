package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
)

type consolidateResult struct {
	Tool        string      `json:"tool"`
	Scenario    string      `json:"scenario"`
	NodesBefore int         `json:"nodesBefore"`
	NodesAfter  int         `json:"nodesAfter"`
	CostBefore  float64     `json:"costBefore"`
	CostAfter   float64     `json:"costAfter"`
	Done        bool        `json:"done"` // a round found nothing more; false: the time limit came first
	FirstMulti  evaluation  `json:"firstMulti"`
	FirstSingle evaluation  `json:"firstSingle"`
	LastMulti   *evaluation `json:"lastMulti,omitempty"` // of the round that found nothing
	LastSingle  *evaluation `json:"lastSingle,omitempty"`
	Commands    int         `json:"commands"`
	MultiCmds   int         `json:"multiCommands"`
	SingleCmds  int         `json:"singleCommands"`
	EmptyCmds   int         `json:"emptyCommands"`
	Replaced    int         `json:"replacements"`
	PodsMoved   int         `json:"podsMoved"`
	MultiMs     float64     `json:"multiMs"`
	SingleMs    float64     `json:"singleMs"`
	Invalid     int         `json:"invalidPlacements"`
	usage
}

// evaluation is one call of a method: gathering candidates, and computing a command over them.
type evaluation struct {
	Candidates   int     `json:"candidates"`
	CandidatesMs float64 `json:"candidatesMs"`
	ComputeMs    float64 `json:"computeMs"`
	CPUMs        float64 `json:"cpuMs"`
	Simulations  int     `json:"simulations"`
	Decision     string  `json:"decision"`
	Removed      int     `json:"removed"`
	Added        int     `json:"added"`
}

// accept skips the wait and second look upstream gives each command before acting on it: nothing changes in between here.
type accept struct{}

func (accept) Validate(_ context.Context, cmd disruption.Command, _ time.Duration) (disruption.Command, error) {
	return cmd, nil
}

// consolidate applies upstream's decisions, method by method in upstream's order, until a whole round finds none.
func consolidate(ctx context.Context, s *Scenario, limit time.Duration) (any, error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return nil, err
	}
	ctx = injection.WithControllerName(ctx, "disruption")
	queue := disruption.NewQueue(w.client, w.recorder, w.cluster, w.clock, w.provisioner)
	base := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.provisioner, w.cloud, w.recorder, queue)
	validator := disruption.WithValidator(accept{})
	empty := disruption.NewEmptiness(base, validator)
	multi := disruption.NewMultiNodeConsolidation(base, validator)
	single := disruption.NewSingleNodeConsolidation(base, validator)

	r := consolidateResult{Tool: "karpenter " + version, Scenario: s.Name}
	r.NodesBefore, r.CostBefore = w.cost()
	m := startMeter()
	started := time.Now()

	// one look at each method over the untouched cluster
	_, r.FirstMulti, err = w.evaluate(ctx, queue, multi)
	if err != nil {
		return nil, err
	}
	_, r.FirstSingle, err = w.evaluate(ctx, queue, single)
	if err != nil {
		return nil, err
	}
	for limit == 0 || time.Since(started) < limit {
		acted := false
		var last [3]evaluation
		for i, method := range []disruption.Method{empty, multi, single} {
			cmds, e, err := w.evaluate(ctx, queue, method)
			if err != nil {
				return nil, err
			}
			last[i] = e
			switch i {
			case 1:
				r.MultiMs += e.CandidatesMs + e.ComputeMs
			case 2:
				r.SingleMs += e.CandidatesMs + e.ComputeMs
			}
			if len(cmds) == 0 {
				continue
			}
			for _, cmd := range cmds {
				moved, invalid, err := w.apply(ctx, cmd)
				if err != nil {
					return nil, err
				}
				r.Commands++
				*[]*int{&r.EmptyCmds, &r.MultiCmds, &r.SingleCmds}[i]++
				r.Replaced += len(cmd.Replacements)
				r.PodsMoved += moved
				r.Invalid += invalid
			}
			nodes, cost := w.cost()
			fmt.Fprintf(os.Stderr, "%7.1fs %-6s -%d +%d in %.0f ms: %d nodes, $%.2f/h\n",
				time.Since(started).Seconds(), []string{"empty", "multi", "single"}[i], e.Removed, e.Added, e.ComputeMs, nodes, cost)
			acted = true
			break
		}
		if !acted {
			r.Done = true
			r.LastMulti, r.LastSingle = &last[1], &last[2]
			break
		}
	}
	r.usage = m.stop()
	r.NodesAfter, r.CostAfter = w.cost()
	return r, nil
}

func (w *world) evaluate(ctx context.Context, queue *disruption.Queue, method disruption.Method) ([]disruption.Command, evaluation, error) {
	start, cpu := time.Now(), cpuTime()
	candidates, totals, err := disruption.GetCandidatesWithTotals(ctx, w.cluster, w.client, w.recorder, w.clock, w.cloud,
		method.ShouldDisrupt, method.Class(), queue, nil)
	if err != nil {
		return nil, evaluation{}, err
	}
	if setter, ok := method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, w.cluster, w.clock, w.client, w.cloud, w.recorder, method.Reason())
	if err != nil {
		return nil, evaluation{}, err
	}
	e := evaluation{Candidates: len(candidates), CandidatesMs: ms(time.Since(start)), Decision: string(disruption.NoOpDecision)}
	if len(candidates) == 0 {
		return nil, e, nil
	}
	start = time.Now()
	simulated := w.client.budgetLists
	cmds, err := method.ComputeCommands(ctx, budgets, candidates...)
	if err != nil {
		return nil, e, err
	}
	e.ComputeMs, e.CPUMs, e.Simulations = ms(time.Since(start)), ms(cpuTime()-cpu), w.client.budgetLists-simulated
	cmds = slices.DeleteFunc(cmds, func(c disruption.Command) bool { return c.Decision() == disruption.NoOpDecision })
	for _, c := range cmds {
		e.Decision = string(c.Decision())
		e.Removed += len(c.Candidates)
		e.Added += len(c.Replacements)
	}
	return cmds, e, nil
}

// apply carries a command out at once: replacements come up on their cheapest offering, pods move where the
// simulation put them, the candidates go.
func (w *world) apply(ctx context.Context, cmd disruption.Command) (moved, invalid int, err error) {
	byName := map[string]*corev1.Pod{}
	for _, c := range cmd.Candidates {
		for _, p := range w.client.podsByNode[c.Name()] {
			byName[p.Name] = p
		}
	}
	move := func(pods []*corev1.Pod, node string) error {
		for _, p := range pods {
			own, ok := byName[p.Name]
			if !ok {
				continue
			}
			w.client.movePod(own, node)
			if err := w.cluster.UpdatePod(ctx, own); err != nil {
				return err
			}
			moved++
		}
		if fits(w.client.podsByNode[node], w.client.nodes[node].Status.Allocatable) != nil {
			invalid++
		}
		return nil
	}
	for _, replacement := range cmd.Replacements {
		name, err := w.launch(ctx, replacement.NodeClaim)
		if err != nil {
			return moved, invalid, err
		}
		if err := move(replacement.Pods, name); err != nil {
			return moved, invalid, err
		}
	}
	for _, n := range cmd.Results.ExistingNodes {
		if len(n.Pods) > 0 {
			if err := move(n.Pods, n.Name()); err != nil {
				return moved, invalid, err
			}
		}
	}
	for _, c := range cmd.Candidates {
		if left := len(w.client.podsByNode[c.Name()]); left > 0 {
			return moved, invalid, fmt.Errorf("%s is to go with %d pods on it", c.Name(), left)
		}
		delete(w.client.nodes, c.Name())
		delete(w.client.nodeClaims, c.Name())
		w.cluster.DeleteNodeClaim(c.NodeClaim.Name)
		w.cluster.DeleteNode(c.Node.Name)
	}
	return moved, invalid, nil
}

func (w *world) launch(ctx context.Context, nc *pscheduling.NodeClaim) (string, error) {
	l, err := cheapest(nc)
	if err != nil {
		return "", err
	}
	w.nodeSeq++
	name := fmt.Sprintf("new-%05d", w.nodeSeq)
	return name, w.addNode(ctx, &Node{
		Name: name, NodePool: nc.NodePoolName, InstanceType: l.instanceType.Name,
		Zone: l.zone, CapacityType: l.capacityType, Taints: nc.Spec.Taints,
	})
}

// cost is how many nodes there are and what they come to an hour.
func (w *world) cost() (int, float64) {
	total := 0.0
	for _, n := range w.client.nodes {
		if it := w.types[n.Labels[corev1.LabelInstanceTypeStable]]; it != nil {
			price, _ := it.OfferingPrice(n.Labels[corev1.LabelTopologyZone], n.Labels["karpenter.sh/capacity-type"])
			total += price
		}
	}
	return len(w.client.nodes), total
}
