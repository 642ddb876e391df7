package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// explainWithoutNodes says of an object what a user can know who may not read nodes, as with the ClusterRole view: where a
// pod is, what its conditions say, and its events.
func explainWithoutNodes(ctx context.Context, s *snapshot.Service, about inspect.Subject, lack snapshot.Missing) (inspect.Explanation, error) {
	i := slices.IndexFunc(s.File.Objects.Pods, func(p corev1.Pod) bool { return p.Namespace == about.Namespace && p.Name == about.Name })
	if about.Kind != inspect.KindPod || i < 0 {
		return inspect.Explanation{}, fmt.Errorf("%s cannot be explained: %s", about, lack)
	}
	pod := &s.File.Objects.Pods[i]
	e := inspect.Explanation{Subject: about, At: s.File.Taken, Answer: podInWords(pod) + " More cannot be said without the right to read nodes."}
	for _, m := range s.File.Missing {
		e.Notes = append(e.Notes, m.String())
	}
	past, err := s.History(ctx, inspect.HistoryQuery{Object: about})
	if err != nil {
		e.Notes = append(e.Notes, err.Error())
		return e, nil
	}
	e.History, e.Notes = past.Events, append(e.Notes, past.Notes...)
	return e, nil
}

// podInWords is what a pod says of itself.
func podInWords(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return fmt.Sprintf("The pod is %s on node %s.", p.Status.Phase, p.Spec.NodeName)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("The pod is %s: %s, %s.", p.Status.Phase, c.Reason, c.Message)
		}
	}
	return fmt.Sprintf("The pod is %s and has no node yet.", p.Status.Phase)
}
