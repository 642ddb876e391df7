package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// maxNamed is how many objects an event names.
const maxNamed = 5

// Pods says what is to be done about the pods of a node.
type Pods struct {
	Evict   []*corev1.Pod
	Delete  []Deletion // the deadline has come for these
	Waiting []Waiting  // everybody who holds the node, those who need help first
	Notes   []Note     // to report about single pods
}

// Deletion is a pod to be deleted with less than its own grace period.
type Deletion struct {
	Pod   *corev1.Pod
	Grace time.Duration
}

// Waiting is a pod that holds the node, and why.
type Waiting struct {
	Pod *corev1.Pod
	Why string

	act  Act
	mine bool // it is the turn of its group
	rank int  // sorts by how much a reader can do about it
}

// Note is an event about a pod.
type Note struct {
	Pod   *corev1.Pod
	Event event.Event
}

// Order decides who leaves a node now (LC-29 to LC-33). A pod that tolerates the taint stays. The limit
// is that of the node.
func Order(pods []*corev1.Pod, taint corev1.Taint, limit Limit, now time.Time) Pods {
	var out Pods
	var waiting []*corev1.Pod
	current := -1
	for _, p := range sorted(pods) {
		if !cluster.DrainWaits(p, taint, now) {
			continue
		}
		waiting = append(waiting, p)
		if g := group(p); current < 0 || g < current {
			current = g
		}
	}
	for _, p := range waiting {
		act, grace := limit.Act(p, now)
		mine := group(p) == current
		switch {
		case act == Delete:
			out.Delete = append(out.Delete, Deletion{Pod: p, Grace: grace})
		case act == Evict && mine:
			out.Evict = append(out.Evict, p)
		}
		why, rank := whyWaiting(p, act, mine, now)
		out.Waiting = append(out.Waiting, Waiting{Pod: p, Why: why, act: act, mine: mine, rank: rank})
		out.Notes = append(out.Notes, annotationNotes(p, now)...)
	}
	// Pods that are hardest to place are evicted first, so that they are scheduled first.
	slices.SortStableFunc(out.Evict, func(a, b *corev1.Pod) int { return cmp.Compare(size(b), size(a)) })
	slices.SortStableFunc(out.Delete, func(a, b Deletion) int { return cmp.Compare(size(b.Pod), size(a.Pod)) })
	slices.SortStableFunc(out.Waiting, func(a, b Waiting) int { return cmp.Compare(a.rank, b.rank) })
	return out
}

// size is the size of a pod's requests: one core counts as much as 4 GiB.
func size(p *corev1.Pod) int64 {
	sum := int64(0)
	for i := range p.Spec.Containers {
		requests := p.Spec.Containers[i].Resources.Requests
		const mebi = 1 << 20
		sum += 4*requests.Cpu().MilliValue() + requests.Memory().Value()/mebi
	}
	return sum
}

// sorted makes the result independent of the order in which pods were listed.
func sorted(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// whyWaiting says what a pod is waited for, and how early it should be named.
func whyWaiting(p *corev1.Pod, act Act, mine bool, now time.Time) (why string, rank int) {
	switch {
	case act == Hold:
		return protectionOf(p, now), 0
	case act == Delete:
		return "the deadline of the node has come", 1
	case p.DeletionTimestamp != nil:
		return "ends by " + p.DeletionTimestamp.UTC().Format(time.RFC3339), 1
	case act == Drop:
		return "stays on the node", 3
	case mine:
		return "is being evicted", 2
	default:
		return "waits for its turn", 3
	}
}

// protectionOf names the annotation that protects a pod and what ends the protection.
func protectionOf(p *corev1.Pod, now time.Time) string {
	key, value, until := annotation(p, now)
	text := "held by its annotation " + key + "=" + value
	if !until.IsZero() {
		return text + " until " + until.UTC().Format(time.RFC3339)
	}
	return text + ", remove it or end the pod"
}

// annotation is the annotation that protects a pod, and the end of the protection; zero: it has none.
func annotation(p *corev1.Pod, now time.Time) (key, value string, until time.Time) {
	if key = cluster.PodProtectedBy(p, now); key == karpv1.AnnotationDoNotDisrupt {
		until, _ = protectedUntil(p)
	}
	return key, p.Annotations[key], until
}

// protectedUntil is the end of a protection with a duration; zero if the pod has not started.
func protectedUntil(p *corev1.Pod) (until time.Time, limited bool) {
	d, err := time.ParseDuration(p.Annotations[karpv1.AnnotationDoNotDisrupt])
	if err != nil || d <= 0 {
		return time.Time{}, false
	}
	if p.Status.StartTime == nil {
		return time.Time{}, true
	}
	return p.Status.StartTime.Add(d), true
}

// annotationNotes reports to the owner of a pod how its annotation was read.
func annotationNotes(p *corev1.Pod, now time.Time) []Note {
	text, set := p.Annotations[karpv1.AnnotationDoNotDisrupt]
	if !set || text == "true" || p.DeletionTimestamp != nil {
		return nil
	}
	until, limited := protectedUntil(p)
	e := event.Event{Key: text}
	switch {
	case !limited:
		e.Reason = event.InvalidDoNotDisruptAnnotation
		e.Text = fmt.Sprintf("Annotation %s=%q has no effect; use \"true\" or a duration above zero such as 30m", karpv1.AnnotationDoNotDisrupt, text)
	case until.IsZero():
		return nil
	case now.Before(until):
		e.Reason = event.DoNotDisruptUntil
		e.Text = "The pod is not disrupted before " + until.UTC().Format(time.RFC3339)
	default:
		e.Reason = event.DoNotDisruptGracePeriodElapsed
		e.Text = "The pod may be disrupted since " + until.UTC().Format(time.RFC3339) + "; its annotation " + karpv1.AnnotationDoNotDisrupt + "=" + text + " ended then"
	}
	return []Note{{Pod: p, Event: e}}
}

// failedDraining says how many pods hold the node, and names the first, or what holds them once that is
// worth explaining.
func failedDraining(waiting []Waiting, explanation string) event.Event {
	if explanation != "" {
		return event.Event{Reason: event.FailedDraining, Key: "explained", Text: "The drain " + explanation}
	}
	names := make([]string, 0, maxNamed)
	for _, w := range waiting[:min(len(waiting), maxNamed)] {
		names = append(names, w.Pod.Namespace+"/"+w.Pod.Name+" ("+w.Why+")")
	}
	return event.Event{
		Reason: event.FailedDraining,
		Key:    "pods",
		Text:   fmt.Sprintf("The drain waits for %s: %s", count(len(waiting), "pod"), list(names, len(waiting))),
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list joins the names and says how many were left out.
func list(names []string, of int) string {
	text := strings.Join(names, ", ")
	if more := of - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
