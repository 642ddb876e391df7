package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	guardsAfter     = 10 * time.Second // before the first explanation
	explainAfter    = 15 * time.Second // pods that terminate within this time need no explanation
	longWaitAfter   = 5 * time.Minute  // a longer wait is reported again, and on the claim too
	messageInterval = time.Minute      // the message of a condition is not changed more often
	maxPods         = 10               // that a Wait names
	maxText         = 900              // of an event or a message; the API server takes 1024
)

// Wait is what the end of a node waits for: pods, or volumes, that one thing holds.
type Wait struct {
	Cause  Cause     `json:"cause"`
	Object string    `json:"object,omitempty"` // what holds them
	Names  []string  `json:"names"`            // of pods or of volume attachments, the first ten
	Count  int       `json:"count"`            // all of them
	Since  time.Time `json:"since"`
	Why    string    `json:"why"`
	Fix    string    `json:"fix"` // what would end it
}

// Text is the wait in one sentence.
func (w *Wait) Text() string {
	const shown = 3
	names := w.Names[:min(shown, len(w.Names))]
	return w.Why + " (" + list(names, w.Count) + "); " + w.Fix
}

// ReadsGuards reports whether a decision about a node needs its budgets and how far the eviction queue is with its pods.
// Most nodes are empty before, and nothing is read for them.
func ReadsGuards(node *corev1.Node, now time.Time) bool {
	return node.DeletionTimestamp != nil && now.Sub(node.DeletionTimestamp.Time) >= guardsAfter
}

// explain says what the pods that hold a node wait for. Those that are about to leave are left out.
func explain(f Facts, waiting []Waiting, began time.Time) []Wait {
	if f.Now.Sub(began) < explainAfter {
		return nil
	}
	guards := readGuards(f.Budgets)
	var out []Wait
	for i := range waiting {
		w, holds := waiting[i].explain(guards, f.Tries, f.Now, began)
		if holds {
			out = addWait(out, w)
		}
	}
	order := map[Cause]int{}
	for i, doc := range Causes() {
		order[doc.Cause] = i
	}
	slices.SortStableFunc(out, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(order[a.Cause], order[b.Cause]), a.Since.Compare(b.Since), cmp.Compare(a.Object, b.Object))
	})
	return out
}

// addWait adds a wait to those that the same thing causes.
func addWait(list []Wait, w Wait) []Wait {
	for i := range list {
		if l := &list[i]; l.Cause == w.Cause && l.Object == w.Object {
			l.Count += w.Count
			if w.Since.Before(l.Since) {
				l.Since = w.Since
			}
			if len(l.Names) < maxPods {
				l.Names = append(l.Names, w.Names...)
			}
			return list
		}
	}
	return append(list, w)
}

// explain says what a pod waits for; holds is false for one that is about to leave or waits for others.
func (w *Waiting) explain(guards []budgetGuard, tries map[types.UID]Try, now, began time.Time) (out Wait, holds bool) {
	p := w.Pod
	since := began
	if p.CreationTimestamp.After(since) {
		since = p.CreationTimestamp.Time
	}
	out = Wait{Names: []string{p.Namespace + "/" + p.Name}, Count: 1, Since: since}
	switch {
	case w.act == Hold:
		key, text, until := annotation(p, now)
		out.Cause, out.Object = Annotated, "annotation "+key+"="+text
		out.Why, out.Fix = "pods carry annotation "+key+"="+text, "remove it or end the pods"
		if !until.IsZero() {
			out.Object += " until " + until.UTC().Format(time.RFC3339)
			out.Fix = "it ends at " + until.UTC().Format(time.RFC3339) + ", or when it is removed"
		}
		return out, true
	case p.DeletionTimestamp != nil:
		out.Cause, out.Object = GraceRunning, "grace period"
		out.Why, out.Fix = "pods use their grace period to end", "they end by themselves, or are left behind a minute after it is over"
		if g := p.DeletionGracePeriodSeconds; g != nil {
			out.Since = p.DeletionTimestamp.Add(-time.Duration(*g) * time.Second)
		}
		return out, true
	case w.act == Delete:
		return out, out.setEvictionCause(tries[p.UID], nil, now)
	case w.act == Evict && w.mine:
		matching := budgetsOf(p, guards)
		return out, out.setBudgetCause(p, matching) || out.setEvictionCause(tries[p.UID], matching, now)
	}
	return out, false
}

// budgetsOf are the budgets that select a pod.
func budgetsOf(p *corev1.Pod, guards []budgetGuard) (matching []*policyv1.PodDisruptionBudget) {
	for i := range guards {
		if g := &guards[i]; g.budget.Namespace == p.Namespace && g.selector.Matches(p.Labels) {
			matching = append(matching, g.budget)
		}
	}
	return matching
}

// setBudgetCause names the budget that keeps a pod, of those that select it; it reports false if none does.
func (w *Wait) setBudgetCause(p *corev1.Pod, matching []*policyv1.PodDisruptionBudget) bool {
	switch {
	case len(matching) == 0:
		return false
	case len(matching) > 1:
		names := make([]string, 0, len(matching))
		for _, b := range matching {
			names = append(names, b.Namespace+"/"+b.Name)
		}
		w.Cause, w.Object = SeveralBudgets, "PodDisruptionBudgets "+strings.Join(names, ", ")
		w.Why = "more than one PodDisruptionBudget selects the same pod, which the eviction API refuses: " + strings.Join(names, ", ")
		w.Fix = "change the selectors so that one of them does"
		return true
	}
	b := matching[0]
	if b.Status.DisruptionsAllowed > 0 || allowsUnready(b, p) {
		return false
	}
	name := "PodDisruptionBudget " + b.Namespace + "/" + b.Name
	w.Object = name
	if why, fix := Cannot(b); why != "" {
		w.Cause, w.Why = ImpossibleBudget, name+" "+why
		w.Fix = fix + ", or delete the pods; a terminationGracePeriod in the NodePool bounds this for nodes made later"
		return true
	}
	w.Cause = SpentBudget
	w.Why = fmt.Sprintf("%s allows no eviction now: %d of its pods are healthy and %d have to be", name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
	w.Fix = "it allows one when more of its pods are ready, or when it requires fewer"
	for i := range b.Status.Conditions {
		c := &b.Status.Conditions[i]
		if c.Type == policyv1.DisruptionAllowedCondition && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(w.Since) {
			w.Since = c.LastTransitionTime.Time
		}
	}
	return true
}

// allowsUnready reports whether a budget lets a pod go that is not ready anyway.
func allowsUnready(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	if !cluster.Unready(p) {
		return false
	}
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow || b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// Never says why a budget can never allow an eviction, however healthy its pods are; empty if it can.
func Never(b *policyv1.PodDisruptionBudget) string {
	switch {
	case !cluster.NeverAllows(b):
		return ""
	case b.Spec.MaxUnavailable != nil:
		return "maxUnavailable is " + b.Spec.MaxUnavailable.String()
	case b.Spec.MinAvailable != nil:
		return "minAvailable is " + b.Spec.MinAvailable.String()
	}
	return "of how it is written"
}

// Cannot says why a budget allows no eviction however healthy its pods are, and what would change that;
// empty if it does. Besides those that are written so, it is one that wants as many pods as there are.
func Cannot(b *policyv1.PodDisruptionBudget) (why, fix string) {
	if never := Never(b); never != "" {
		return "can never allow an eviction: " + never, "let it allow at least one"
	}
	s := &b.Status
	if s.ObservedGeneration < b.Generation || s.ExpectedPods == 0 || s.DesiredHealthy < s.ExpectedPods {
		return "", ""
	}
	return fmt.Sprintf("cannot allow an eviction while it has %s: it wants %d healthy", count(int(s.ExpectedPods), "replica"), s.DesiredHealthy),
		"scale its workload up, or let it require fewer"
}

// budgetGuard is a budget with its selector, read.
type budgetGuard struct {
	budget   *policyv1.PodDisruptionBudget
	selector cluster.Selector
}

func readGuards(budgets []*policyv1.PodDisruptionBudget) []budgetGuard {
	var out []budgetGuard
	for _, b := range budgets {
		if selector, err := cluster.NewSelector(b.Spec.Selector); err == nil && !selector.Inert() {
			out = append(out, budgetGuard{b, selector})
		}
	}
	slices.SortFunc(out, func(a, b budgetGuard) int {
		return cmp.Or(cmp.Compare(a.budget.Namespace, b.budget.Namespace), cmp.Compare(a.budget.Name, b.budget.Name))
	})
	return out
}

// volumeWait is the wait for attachments.
func volumeWait(waiting []*storagev1.VolumeAttachment, since time.Time) Wait {
	w := Wait{
		Cause: VolumeAttached, Object: "volume attachments", Count: len(waiting), Since: since,
		Why: "volumes are still attached to the instance", Fix: "the CSI driver of the node has to detach them; look at its controller and at pods that still use them",
	}
	for _, a := range waiting[:min(len(waiting), maxPods)] {
		w.Names = append(w.Names, a.Name)
	}
	return w
}

// Explain is a list of waits as one text. It names no moment that moves: it changes only when what is
// waited for does.
func Explain(waits []Wait, deadline time.Time) string {
	if len(waits) == 0 {
		return ""
	}
	since := waits[0].Since
	for i := range waits {
		if waits[i].Since.Before(since) {
			since = waits[i].Since
		}
	}
	text := "waits since " + since.UTC().Format(time.RFC3339)
	end := ""
	if !deadline.IsZero() {
		end = "; what is left is deleted in time to end by " + deadline.UTC().Format(time.RFC3339)
	}
	for i := range waits {
		next := ". " + waits[i].Text()
		if i == 0 {
			next = ": " + waits[i].Text()
		}
		if i > 0 && len(text)+len(next)+len(end) > maxText {
			return fmt.Sprintf("%s. And %s%s", text, count(len(waits)-i, "more cause"), end)
		}
		text += next
	}
	return text + end
}
