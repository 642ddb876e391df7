package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

const (
	mostEventsRead = 2000
	usualEvents    = 100
	eventComponent = "karpenter" // source of the events of the controller
	eventsLastFor  = "events of Kubernetes usually last for an hour, and say nothing of savings"
)

// eventHistory is what events of Kubernetes say of the past: those of an object, or those of the controller.
type eventHistory struct {
	kube *rest.Config
}

// History implements inspect.Historian.
func (h *eventHistory) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	core, err := coreclient.NewForConfig(h.kube)
	if err != nil {
		return inspect.History{}, err
	}
	selector := fields.Set{"source": eventComponent}
	if about := query.Object; about != (inspect.Subject{}) {
		selector = fields.Set{"involvedObject.kind": objectKind(about.Kind), "involvedObject.name": about.Name}
	}
	list, err := core.Events(query.Object.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.String(), Limit: mostEventsRead})
	switch {
	case apierrors.IsForbidden(err):
		return inspect.History{}, errors.New("events may not be read; request the right to list events: " + err.Error())
	case apierrors.IsUnauthorized(err):
		return inspect.History{}, fmt.Errorf("list events: the API server does not accept the credentials of the kubeconfig; log in again: %w", err)
	case err != nil:
		return inspect.History{}, fmt.Errorf("list events: the API server cannot be used; check the address of the cluster in the kubeconfig, and the network: %w", err)
	}
	events, over := eventsOf(list.Items, &query)
	out := inspect.History{Events: events, Notes: []string{eventsLastFor}}
	if over > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("only the latest %d events are shown", len(events)))
	}
	if slices.ContainsFunc(query.Kinds, func(kind string) bool { return slices.Contains(entryKinds(), kind) }) {
		out.Notes = append(out.Notes, "events have no such kinds as "+strings.Join(query.Kinds, ", ")+", but reasons: leave --kind out to see them")
	}
	if list.Continue != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("only %d events were read", len(list.Items)))
	}
	return out, nil
}

// objectKind is the kind of an object as events have it.
func objectKind(k inspect.Kind) string {
	switch k {
	case inspect.KindPod:
		return "Pod"
	case inspect.KindNode:
		return "Node"
	case inspect.KindNodeClaim:
		return "NodeClaim"
	case inspect.KindNodePool:
		return "NodePool"
	}
	return string(k)
}

// eventsOf are the events that a query selects, oldest first, and how many are over its limit. Events that say the same of an
// object are one.
func eventsOf(list []corev1.Event, q *inspect.HistoryQuery) (out []inspect.Event, over int) {
	type same struct{ object, reason, text string }
	latest, times := map[same]int{}, map[same]int32{}
	out = []inspect.Event{}
	for i := range list {
		e := &list[i]
		at := eventTime(e)
		if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && !at.Before(q.Until) || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Reason) {
			continue
		}
		key := same{subjectOf(&e.InvolvedObject), e.Reason, strings.TrimSpace(e.Message)}
		times[key] += eventCount(e)
		n, known := latest[key]
		if !known {
			latest[key] = len(out)
			out = append(out, inspect.Event{At: at, Kind: e.Reason, Text: key.text, Source: inspect.SourceEvents, Objects: []string{key.object}})
			continue
		}
		if at.After(out[n].At) {
			out[n].At = at
		}
	}
	// any order: each event is changed by itself
	for key, n := range latest {
		if times[key] > 1 {
			out[n].Text += fmt.Sprintf(" (%d times)", times[key])
		}
	}
	slices.SortStableFunc(out, func(a, b inspect.Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(strings.Join(a.Objects, " "), strings.Join(b.Objects, " ")), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	if limit := cmp.Or(q.Limit, usualEvents); limit > 0 {
		over = max(0, len(out)-limit)
	}
	return out[over:], over
}

// eventTime is when an event happened last.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.UTC()
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.UTC()
	case !e.EventTime.IsZero():
		return e.EventTime.UTC()
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.UTC()
	}
	return e.CreationTimestamp.UTC()
}

func eventCount(e *corev1.Event) int32 {
	if e.Series != nil {
		return max(1, e.Series.Count)
	}
	return max(1, e.Count)
}

// subjectOf names an object as inspect.Subject does.
func subjectOf(o *corev1.ObjectReference) string {
	s := inspect.Subject{Kind: inspect.Kind(strings.ToLower(o.Kind)), Name: o.Name}
	if s.Kind == inspect.KindPod {
		s.Namespace = o.Namespace
	}
	return s.String()
}
