package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// reporter shows what happens in logs, events, metrics and the journal.
type reporter struct {
	client  client.Client
	store   pools
	events  write.Emitter
	metrics *metric.Set
	journal journal // nil: none is kept
	now     func() time.Time

	unpriced       map[string]bool // nodes without a known price in the last pass
	invalidBudgets string          // invalid budgets as last logged
	repairs        repairLog
}

// terminatingNode is a node that a command removes, as the log shows it (disruption 23).
type terminatingNode struct {
	Node         string `json:"Node"`
	NodeClaim    string `json:"NodeClaim"`
	InstanceType string `json:"instance-type"`
	CapacityType string `json:"capacity-type"`
	Usage        string `json:"usage,omitempty"`
	Escalated    bool   `json:"reboot-escalated,omitempty"`
}

// replacementNode is a replacement, as the log shows it.
type replacementNode struct {
	CapacityType  string `json:"capacity-type"`
	InstanceTypes string `json:"instance-types,omitempty"`
}

// logCommandStart logs that a command starts. The cost of the cluster covers all commands of the decision.
func (r *reporter) logCommandStart(ctx context.Context, c disrupt.Command, view disrupt.View, decision disrupt.Decision) {
	logRepairDiagnosis(ctx, c)
	removed, pods := []terminatingNode{}, 0
	for _, n := range c.Remove {
		pods += len(n.Pods)
		removed = append(removed, terminatingNode{n.Node, n.Claim, n.InstanceType, n.CapacityType, requestedShare(view, n.Node), n.Escalated})
	}
	coming := []replacementNode{}
	for i := range c.Create {
		shown := replacementNode{CapacityType: c.Create[i].Offer.CapacityType}
		if c.Replacements() == 1 {
			shown.InstanceTypes = execute.Few(c.Create[i].Types)
		}
		coming = append(coming, shown)
	}
	for range c.Template {
		coming = append(coming, replacementNode{})
	}
	logger := log.FromContext(ctx)
	if decision.Bound > 0 { // otherwise none is known
		logger = logger.WithValues("lower-bound", decision.Bound)
	}
	logger.Info("disrupting node(s)", "command", c.Text(), "decision", c.Decision, "reason", strings.ToLower(string(c.Reason)),
		"consolidation-type", c.Type, "disrupted-node-count", len(removed), "replacement-node-count", c.Replacements(), "pod-count", pods,
		"disrupted-nodes", removed, "replacement-nodes", coming, "cost-before", decision.Before, "cost-after", decision.After)
}

// requestedShare returns the share of a node that its pods request.
func requestedShare(view disrupt.View, name string) string {
	if view.Cluster == nil {
		return ""
	}
	n := view.Cluster.Node(name)
	if n == nil {
		return ""
	}
	return fmt.Sprintf("cpu %d%%, memory %d%%", n.RequestedPercent(resources.CPU), n.RequestedPercent(resources.Memory))
}

// recordOutcome records the outcome of a command in the journal.
func (r *reporter) recordOutcome(c disrupt.Command, text string) {
	if r.journal != nil {
		r.journal.Outcome(c.ID, text, r.now())
	}
}

func poolsOf(c disrupt.Command) map[string]bool {
	pools := map[string]bool{}
	for _, n := range c.Remove {
		pools[n.Pool] = true
	}
	return pools
}

// countDecision counts a command that was started.
func (r *reporter) countDecision(c disrupt.Command) {
	why := strings.ToLower(string(c.Reason))
	r.metrics.DisruptionDecisions.WithLabelValues(c.Decision, why, c.Type).Inc()
	// any order: each pool is counted by itself
	for pool := range poolsOf(c) {
		r.metrics.DisruptionDecisionsByPool.WithLabelValues(pool, c.Decision, why, c.Type).Inc()
		if first := c.FirstBecause(); first != "" {
			r.metrics.DisruptionTerminateFirst.WithLabelValues(pool, why, first).Inc()
		}
	}
}

// emitNodeEvents emits events about nodes that stay, on the Node and its claim, or on the pool.
func (r *reporter) emitNodeEvents(ctx context.Context, news []disrupt.ObjectEvent) {
	for _, n := range news {
		if n.Pool != "" {
			if pool := poolNamed(r.store, n.Pool); pool != nil {
				r.events.Emit(pool, n.Event)
			}
			continue
		}
		node, claim := &corev1.Node{}, &karpv1.NodeClaim{}
		claimed := r.client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim) == nil
		said := withBlockedSince(n.Event, claim)
		if r.client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
			r.events.Emit(node, said)
		}
		if claimed {
			r.events.Emit(claim, said)
		}
	}
}

// logInvalidBudgets logs once which pools have invalid budgets: none of their nodes is disrupted.
func (r *reporter) logInvalidBudgets(ctx context.Context, view disrupt.View) {
	pools, text := disrupt.InvalidBudgets(&view)
	if text != "" && text != r.invalidBudgets {
		log.FromContext(ctx).Error(errors.New(text), "disruption budgets cannot be read; no node of these pools is disrupted", "NodePools", pools)
	}
	r.invalidBudgets = text
}

// setDecisionMetrics sets the gauges of a decision. Deleted pools leave no series behind (FM N03).
func (r *reporter) setDecisionMetrics(decision disrupt.Decision) {
	r.metrics.PoolsAllowedDisruptions.Reset()
	r.metrics.PoolsNodesConsumingBudgets.Reset()
	// any order: each has a series of its own
	for why, pools := range decision.Allowed {
		r.metrics.DisruptionEligibleNodes.WithLabelValues(strings.ToLower(string(why))).Set(float64(decision.Eligible[why]))
		// any order: each has a series of its own
		for pool, n := range pools {
			r.metrics.PoolsAllowedDisruptions.WithLabelValues(pool, strings.ToLower(string(why))).Set(float64(n))
			r.metrics.PoolsNodesConsumingBudgets.WithLabelValues(pool, strings.ToLower(string(why))).Set(float64(decision.Busy[why][pool]))
		}
	}
	for i := range decision.Scores {
		s, verdict := &decision.Scores[i], "rejected"
		if s.Approved {
			verdict = "approved"
		}
		policy := metric.SnakeCase(string(karpv1.ConsolidationBalanced))
		r.metrics.ConsolidationScore.WithLabelValues(verdict, s.Pool, policy).Observe(s.Value)
		r.metrics.ConsolidationMoves.WithLabelValues(verdict, s.Pool, policy).Inc()
	}
}

// logScores logs the scores of moves under policy Balanced (disruption 15a).
func (r *reporter) logScores(ctx context.Context, scores []disrupt.Score) {
	for i := range scores {
		s := &scores[i]
		log.FromContext(ctx).V(1).Info("consolidation score", "NodePool", klog.KRef("", s.Pool), "nodes", s.Nodes, "score", s.Value,
			"savings-fraction", s.Savings, "disruption-fraction", s.Moving, "saving", s.Saves, "cost", s.Cost, "total-price", s.PoolPrice, "total-cost", s.PoolCost,
			"threshold", s.Least, "k", s.K, "approved", s.Approved, "decision", s.Decision)
	}
}

// setCostMetrics sets the cost gauge of pools. A node without a known price is counted once.
func (r *reporter) setCostMetrics(view disrupt.View) {
	costs, unpriced := map[string]float64{}, map[string]bool{}
	// any order: each has a series of its own
	for pool := range view.Pools {
		costs[pool] = 0
		r.metrics.PoolsCostErrors.WithLabelValues(pool) // shows 0 until there is one
	}
	for _, n := range view.Nodes {
		costs[n.Pool] += max(0, n.Price)
		if n.Priced() {
			continue
		}
		unpriced[n.Name] = true
		if !r.unpriced[n.Name] {
			r.metrics.PoolsCostErrors.WithLabelValues(n.Pool).Inc()
		}
	}
	r.unpriced = unpriced
	r.metrics.PoolsCost.Reset()
	// any order: each has a series of its own
	for pool, cost := range costs {
		r.metrics.PoolsCost.WithLabelValues(pool).Set(cost)
	}
}

// setBlockedMetrics sets the gauge of nodes whose disruption is blocked. Causes without nodes have no series
// (FM N03).
func (r *reporter) setBlockedMetrics(view disrupt.View) {
	r.metrics.DisruptionBlockedNodes.Reset()
	// any order: each has a series of its own
	for pool, codes := range disrupt.Blocked(view) {
		// any order: each has a series of its own
		for code, n := range codes {
			r.metrics.DisruptionBlockedNodes.WithLabelValues(pool, metric.SnakeCase(string(code))).Set(float64(n))
		}
	}
}

// names shows the nodes of a command.
func names(nodes []disrupt.Candidate) string {
	list := make([]string, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n.Node)
	}
	return strings.Join(list, ", ")
}

// reasonLabel is a reason as metrics of claims have it.
func reasonLabel(why karpv1.DisruptionReason) string { return metric.SnakeCase(string(why)) }
