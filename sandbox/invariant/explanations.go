package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

const eventSource = "karpenter"

func (c *Checker) eventSeen(at time.Time, kind Kind, e *eventsv1.Event) {
	if kind == Removed || e.ReportingController != eventSource {
		return
	}
	about := e.Regarding.Kind + " " + e.Regarding.Name
	if e.Regarding.Namespace != "" && e.Regarding.Kind == "Pod" {
		about = e.Regarding.Kind + " " + e.Regarding.Namespace + "/" + e.Regarding.Name
	}
	c.events[about] = true
	c.recordHistory(at, about, "event "+e.Reason+": "+e.Note)
}

// checkVisible is G13 for what shows in objects: a pod that waits for a place, a claim that does not
// become ready or does not go, and a pool that is not ready. Each says why, in an event or a condition.
// That a reason is the right one, only a test can check. A terminating claim says so in its conditions alone:
// the events of its life until then explain nothing.
func (c *Checker) checkVisible(at time.Time) {
	stuck := func(object, pool, namespace, what string, holds bool) {
		if lasts := c.heldFor(at, "stuck "+object, holds); lasts > c.options.Limits.Visible {
			c.reportSilent(at, lasts, Violation{Object: object, Pool: pool, Namespace: namespace, What: what})
		}
	}
	for _, p := range c.pods {
		object := podObject(p.Pod)
		stuck(object, "", p.Namespace, "it waits for a place", p.gone.IsZero() && needsPlace(p.Pod) && isSchedulable(p) && !c.events[object])
	}
	for name, n := range c.claims {
		object := claimObject(name)
		silent := !c.events[object] && !c.events[nodeObject(n.Status.NodeName)]
		if n.DeletionTimestamp != nil {
			if lasts := c.heldFor(at, "held "+object, c.blockersUnnamed(n)); lasts > c.options.Limits.Explained {
				c.reportSilent(at, lasts, Violation{Object: object, Pool: poolOf(n.NodeClaim), What: "pods hold it, none of them is named in condition Drained"})
			}
			stuck(object, poolOf(n.NodeClaim), "", "it is going", !hasExplanation(n.Status.Conditions, karpv1.ConditionDrained, karpv1.ConditionVolumesDetached, karpv1.ConditionInstanceTerminating))
			continue
		}
		open := !condition.True(n.Status.Conditions, karpv1.ConditionInitialized)
		stuck(object, poolOf(n.NodeClaim), "", "it is not ready",
			open && silent && !hasExplanation(n.Status.Conditions, karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized))
	}
	for name, p := range c.pools {
		open := !condition.True(p.Status.Conditions, karpv1.ConditionReady)
		stuck("NodePool "+name, name, "", "it is not ready",
			open && !hasExplanation(p.Status.Conditions, karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady))
	}
}

// reportSilent reports something that is stuck and does not say why.
func (c *Checker) reportSilent(at time.Time, lasts time.Duration, v Violation) {
	v.Rule, v.At = G13, at
	v.What = fmt.Sprintf("%s for %s, and nothing says why", v.What, lasts.Round(time.Second))
	c.reportViolation(v)
}

// blockersUnnamed says whether pods hold a claim that drains and the condition names none of those that are there or
// were a moment ago. Pods that end by themselves hold nothing up.
func (c *Checker) blockersUnnamed(n *claim) bool {
	drained := condition.Find(n.Status.Conditions, karpv1.ConditionDrained)
	if drained == nil || drained.Status != metav1.ConditionUnknown {
		return false
	}
	held := false
	for _, p := range c.pods {
		if p.Spec.NodeName != n.Status.NodeName || p.Spec.NodeName == "" {
			continue
		}
		if strings.Contains(drained.Message, p.Namespace+"/"+p.Name) {
			return false
		}
		held = held || p.gone.IsZero() && isDrainable(p.Pod)
	}
	return held
}

// isSchedulable leaves out pods of other schedulers, which is out of scope here.
func isSchedulable(p *pod) bool {
	return p.Spec.SchedulerName == "" || p.Spec.SchedulerName == "default-scheduler"
}

// hasExplanation says whether a condition that is not True gives a reason that says more than to wait.
func hasExplanation(list []metav1.Condition, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		found := condition.Find(list, kind)
		return found != nil && found.Reason != "" && found.Reason != "AwaitingReconciliation" &&
			(found.Status != metav1.ConditionTrue || kind == karpv1.ConditionInstanceTerminating)
	})
}

// dropOldState drops what can not matter any more.
func (c *Checker) dropOldState(at time.Time) {
	const kept = time.Minute
	for uid, p := range c.pods {
		if !p.gone.IsZero() && at.Sub(p.gone) > kept {
			delete(c.pods, uid)
			delete(c.since, "stuck "+podObject(p.Pod))
		}
	}
	for object, times := range c.rates {
		if at.Sub(times[len(times)-1]) > rateWindow {
			delete(c.rates, object)
		}
	}
}
