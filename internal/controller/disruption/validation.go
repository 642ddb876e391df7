package disruption

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// listLivePods lists the pods of all nodes from the API server, after their taints are visible. A node that is
// missing in the result could not be read.
//
// The lists come from the watch cache of the API server, if that is at least as new as the taints. Before 1.31,
// a list of the newest state scans all pods in etcd, once for each node.
func (s *starter) listLivePods(ctx context.Context, list []disrupt.Command) (map[string][]cluster.ManagedPod, []error) {
	var nodes []disrupt.Candidate
	for _, c := range list {
		nodes = append(nodes, c.Remove...)
	}
	s.worker.holder.awaitTaints(ctx, nodes)
	if len(nodes) == 0 {
		return nil, nil
	}
	newest, err := s.podsVersion(ctx)
	if err != nil {
		return nil, []error{err}
	}
	found := make([][]cluster.ManagedPod, len(nodes))
	failed := forEach(s.metrics, len(nodes), func(i int) error {
		pods := &corev1.PodList{}
		if err := s.reader.List(ctx, pods, client.MatchingFields{lookup.PodNodeName: nodes[i].Node}, notOlderThan(newest)); err != nil {
			return fmt.Errorf("list the pods of node %s: %w", nodes[i].Node, err)
		}
		found[i] = make([]cluster.ManagedPod, 0, len(pods.Items))
		for j := range pods.Items {
			p := &pods.Items[j]
			found[i] = append(found[i], disrupt.NewLivePod(p, s.costManaged, s.now()))
		}
		return nil
	})
	live := map[string][]cluster.ManagedPod{}
	for i, n := range nodes {
		if failed[i] == nil {
			live[n.Node] = found[i]
		}
	}
	return live, slices.DeleteFunc(failed, func(err error) bool { return err == nil })
}

// podsVersion returns the current resource version of pods by listing one of them. The version of a Node would
// not do: versions of two resources are comparable only if one etcd stores both.
func (s *starter) podsVersion(ctx context.Context) (string, error) {
	one := &corev1.PodList{}
	if err := s.reader.List(ctx, one, client.Limit(1)); err != nil {
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

// validate drops from commands what no longer holds, and releases the nodes that stay.
func (s *starter) validate(ctx context.Context, held []disrupt.Command, decided, fresh disrupt.View, live map[string][]cluster.ManagedPod) []disrupt.Command {
	limits := newTimeBudgets(s.now)
	look := command.SecondLook{
		Decided: decided, Fresh: fresh, Live: live, Policy: s.policy,
		StopPlacing: func() bool { return limits.whole.shouldStop(ctx) }, StopChecking: func() bool { return limits.validation.shouldStop(ctx) },
	}
	held, effects := command.Validate(held, look)
	if err := s.worker.perform(ctx, effects, nil); err != nil {
		log.FromContext(ctx).Error(err, "releasing nodes failed; the next pass tries again")
	}
	return held
}

func nodesIn(c disrupt.Command) []string {
	out := make([]string, 0, len(c.Remove))
	for _, n := range c.Remove {
		out = append(out, n.Node)
	}
	return out
}
