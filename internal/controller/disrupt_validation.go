package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// listLivePods lists the pods of all nodes from the API server, after their taints are visible. A node that is
// missing in the result could not be read.
//
// The lists come from the watch cache of the API server, if that is at least as new as the taints. Before 1.31,
// a list of the newest state scans all pods in etcd, once for each node.
func (d *Disruption) listLivePods(ctx context.Context, list []disruption.Command) (map[string][]disruption.LivePod, []error) {
	var nodes []disruption.Candidate
	for _, c := range list {
		nodes = append(nodes, c.Remove...)
	}
	d.awaitTaints(ctx, nodes)
	if len(nodes) == 0 {
		return nil, nil
	}
	newest, err := d.podsVersion(ctx)
	if err != nil {
		return nil, []error{err}
	}
	found := make([][]disruption.LivePod, len(nodes))
	failed := d.forEach(len(nodes), func(i int) error {
		pods := &corev1.PodList{}
		if err := d.Reader.List(ctx, pods, client.MatchingFields{PodNodeName: nodes[i].Node}, notOlderThan(newest)); err != nil {
			return fmt.Errorf("list the pods of node %s: %w", nodes[i].Node, err)
		}
		found[i] = make([]disruption.LivePod, 0, len(pods.Items))
		for j := range pods.Items {
			p := &pods.Items[j]
			found[i] = append(found[i], disruption.LivePod{
				Name: p.Namespace + "/" + p.Name, Moves: cluster.Reschedulable(p), EvictCost: cluster.EvictCost(p, d.CostManaged),
				Protected: p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && cluster.DoNotDisrupt(p, d.Now()),
				Mark:      cluster.ProtectedBy(p, d.Now()),
			})
		}
		return nil
	})
	live := map[string][]disruption.LivePod{}
	for i, n := range nodes {
		if failed[i] == nil {
			live[n.Node] = found[i]
		}
	}
	return live, slices.DeleteFunc(failed, func(err error) bool { return err == nil })
}

// podsVersion returns the current resource version of pods by listing one of them. The version of a Node would
// not do: versions of two resources are comparable only if one etcd stores both.
func (d *Disruption) podsVersion(ctx context.Context) (string, error) {
	one := &corev1.PodList{}
	if err := d.Reader.List(ctx, one, client.Limit(1)); err != nil {
		return "", fmt.Errorf("read the resource version of pods: %w", err)
	}
	return one.ResourceVersion, nil
}

// notOlderThan makes a list be served from the watch cache once that has reached a version.
func notOlderThan(version string) client.ListOption {
	if version == "" {
		return &client.ListOptions{} // the newest state, then
	}
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}}
}

// releaseObjected releases the nodes that must stay: those with an objection, and those whose pods could not be
// read. The rest of the command continues.
func (d *Disruption) releaseObjected(ctx context.Context, c *disruption.Command, objections []disruption.Objection, live map[string][]disruption.LivePod) {
	stays := map[string]bool{}
	for _, o := range objections {
		stays[o.Claim] = true
		log.FromContext(ctx).Info("node stays after all", "Node", klog.KRef("", o.Node), "NodeClaim", klog.KRef("", o.Claim), "category", o.Category, "reason", o.Text)
		if c.Reason == karpv1.ReasonUnderutilized {
			d.emitMoveRejected(ctx, c, o)
		}
	}
	if len(objections) > 0 && c.Type != "" {
		d.Metrics.DisruptionFailedValidations.WithLabelValues(c.Type).Inc()
	}
	for _, n := range c.Remove {
		if _, read := live[n.Node]; !read {
			stays[n.Claim] = true
		}
	}
	if len(stays) == 0 {
		return
	}
	d.queue.recordBackoff(c.Reason, d.Now(), slices.DeleteFunc(slices.Clone(c.Remove), func(n disruption.Candidate) bool { return !stays[n.Claim] })...)
	back, whole := c.Remove, c.Reason != karpv1.ReasonEmpty // nodes that are empty do not depend on each other
	*c = c.Without(func(n disruption.Candidate) bool { return whole || stays[n.Claim] })
	back = slices.DeleteFunc(slices.Clone(back), func(n disruption.Candidate) bool { return !whole && !stays[n.Claim] })
	if err := d.releaseHolds(ctx, back); err != nil {
		log.FromContext(ctx).Error(err, "releasing nodes failed; the next pass tries again")
	}
	if len(c.Remove) == 0 {
		d.recordOutcome(*c, "given up: a node stays after all")
	}
}

// emitMoveRejected records on all nodes of a move why it is not made.
func (d *Disruption) emitMoveRejected(ctx context.Context, c *disruption.Command, o disruption.Objection) {
	var news []disruption.ObjectEvent
	for _, n := range c.Remove {
		news = append(news, disruption.ObjectEvent{Node: n.Node, Claim: n.Claim, Event: event.Event{
			Reason: event.ConsolidationRejected, Key: o.Category, Text: "The move was given up (" + o.Category + "): node " + o.Node + ": " + o.Text,
		}})
	}
	d.emitNodeEvents(ctx, news)
}

// validateMoves checks moves against the fresh view, one after another. The checker is independent of the
// planner that found them. It returns, by index, what is wrong with the moves that no longer hold, or that
// there was no time to check.
func (d *Disruption) validateMoves(ctx context.Context, list []disruption.Command, fresh disruption.View) map[int]string {
	out := map[int]string{}
	var names []string
	var order []int
	for i := range list {
		if list[i].Reason == karpv1.ReasonUnderutilized && len(list[i].Remove) > 0 {
			order, names = append(order, i), append(names, nodesIn(list[i])...)
		}
	}
	if len(order) == 0 || fresh.Cluster == nil {
		return out
	}
	ground, l := fresh.Cluster, d.limits()
	if len(fresh.PodsToPlace) > 0 {
		ground = disruption.PlacePendingPods(fresh, func() bool { return l.whole.shouldStop(ctx) })
	}
	var moves []solve.Move
	for _, i := range order {
		moves = append(moves, move(list[i]))
	}
	bad, upTo := map[int]check.Violation(nil), 0
	if ground != nil {
		bad, upTo = check.FilterMoves(solve.Question{View: ground, Candidates: names, Policy: d.Policy}, moves, func() bool { return l.validation.shouldStop(ctx) })
	}
	for at, i := range order {
		if v, is := bad[at]; is {
			out[i] = v.String()
		} else if at >= upTo {
			out[i] = "there was no time to look at it again"
		}
	}
	return out
}

func move(c disruption.Command) solve.Move {
	return solve.Move{Remove: nodesIn(c), Bind: c.Bind, Create: c.Create, Saves: c.Saves, Frees: c.Frees, Moved: c.Moved}
}

func nodesIn(c disruption.Command) []string {
	out := make([]string, 0, len(c.Remove))
	for _, n := range c.Remove {
		out = append(out, n.Node)
	}
	return out
}
