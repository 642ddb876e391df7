package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
)

type provisionResult struct {
	Tool             string         `json:"tool"`
	Scenario         string         `json:"scenario"`
	Concurrency      int            `json:"concurrency"`
	Pods             int            `json:"pods"`
	Scheduled        int            `json:"scheduled"`
	Unschedulable    int            `json:"unschedulable"`
	OnExisting       int            `json:"onExistingNodes"`
	NewNodes         int            `json:"newNodes"`
	NewByCapacity    map[string]int `json:"newNodesByCapacityType"`
	HourlyCost       float64        `json:"hourlyCost"`
	SetupMs          float64        `json:"setupMs"`
	SolveMs          float64        `json:"solveMs"`
	PodsPerSec       float64        `json:"podsPerSec"`
	TimedOut         bool           `json:"timedOut"`
	InvalidPlacement int            `json:"invalidPlacements"`
	usage
}

// provision runs one provisioning pass over the pending pods: upstream's Provisioner.NewScheduler (setup), then
// Scheduler.Solve, then the instance type truncation it does before launching.
func provision(ctx context.Context, s *Scenario, concurrency int, timeout time.Duration, planPath string) (any, error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return nil, err
	}
	ctx = injection.WithControllerName(ctx, "provisioner")
	pods := append([]*corev1.Pod{}, w.pending...)

	m := startMeter()
	scheduler, err := w.provisioner.NewScheduler(ctx, pods, w.cluster.DeepCopyNodes().Active(), nil,
		pscheduling.DisableReservedCapacityFallback, pscheduling.NumConcurrentReconciles(concurrency))
	if err != nil {
		return nil, err
	}
	solveStart := time.Now()
	solveCtx, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		solveCtx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	results, err := scheduler.Solve(solveCtx, pods)
	timedOut := errors.Is(err, context.DeadlineExceeded)
	if err != nil && !timedOut {
		return nil, err
	}
	solved := time.Since(solveStart)
	results = results.TruncateInstanceTypes(ctx, pscheduling.MaxInstanceTypes)
	u := m.stop()

	r := provisionResult{
		Tool: "karpenter " + version, Scenario: s.Name, Concurrency: concurrency, Pods: len(w.pending),
		NewNodes: len(results.NewNodeClaims), NewByCapacity: map[string]int{},
		SetupMs: u.WallMs - ms(solved), SolveMs: ms(solved), TimedOut: timedOut, usage: u,
	}
	var plan []plannedNode
	for _, nc := range results.NewNodeClaims {
		l, err := cheapest(nc)
		if err != nil {
			return nil, err
		}
		if fits(nc.Pods, l.instanceType.Allocatable()) != nil {
			r.InvalidPlacement++
		}
		r.HourlyCost += l.price
		r.NewByCapacity[l.capacityType]++
		r.Scheduled += len(nc.Pods)
		plan = append(plan, plannedNode{"", nc.NodePoolName, l.instanceType.Name, l.zone, l.capacityType, l.price, w.groups(nc.Pods)})
	}
	for _, n := range results.ExistingNodes {
		if len(n.Pods) == 0 {
			continue
		}
		if fits(slices.Concat(w.client.podsByNode[n.Name()], n.Pods), n.Node.Status.Allocatable) != nil {
			r.InvalidPlacement++
		}
		r.OnExisting += len(n.Pods)
		plan = append(plan, plannedNode{Existing: n.Name(), Pods: w.groups(n.Pods)})
	}
	r.Scheduled += r.OnExisting
	r.Unschedulable = r.Pods - r.Scheduled
	r.PodsPerSec = float64(r.Pods) / solved.Seconds()
	if planPath != "" {
		data, err := json.Marshal(map[string]any{"scenario": s.Name, "tool": r.Tool, "nodes": plan})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(planPath, data, 0o644); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// plannedNode is one node of a plan file: a new one, or an existing one that took pods. Pods counts them by their
// group's index in the scenario.
type plannedNode struct {
	Existing     string      `json:"existing,omitempty"`
	NodePool     string      `json:"nodePool,omitempty"`
	InstanceType string      `json:"instanceType,omitempty"`
	Zone         string      `json:"zone,omitempty"`
	CapacityType string      `json:"capacityType,omitempty"`
	Price        float64     `json:"price,omitempty"`
	Pods         map[int]int `json:"pods"`
}

func (w *world) groups(pods []*corev1.Pod) map[int]int {
	counts := map[int]int{}
	for _, p := range pods {
		counts[w.groupOf[p.Name]]++
	}
	return counts
}
