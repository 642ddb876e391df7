package sim

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// Churn has people replace a share of all pods each hour, at random times of the active part of a run.
func (c *Config) Churn(share float64) {
	total := 0
	for i := range c.Apps {
		total += c.Apps[i].Replicas
	}
	mean := float64(time.Hour) / (share * float64(total))
	rnd := rand.New(rand.NewPCG(c.Seed, 3))
	gap := func() time.Duration { return time.Duration(rnd.ExpFloat64() * mean) }
	for at := gap(); at < c.Active; at += gap() {
		c.Changes = append(c.Changes, Change{At: at, What: "user: a pod is replaced", Do: (*World).replaceOne})
	}
}

// replaceOne ends some pod; its deployment makes another one. Its draws have a source of their own: two runs that differ
// only in what the controller does replace as many pods of each deployment, at the same times.
func (w *World) replaceOne() {
	list := sorted(w.apps)
	live := w.live(w.apps[list[w.users.IntN(len(list))]])
	if len(live) > 0 {
		p := live[w.users.IntN(len(live))]
		w.replacing = true
		w.endPod(p, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
		w.replacing = false
	}
}

// fresh is what the pods of the run would cost an hour on nodes that are launched for them now, all at once.
func (w *World) fresh() float64 {
	p := &process{w: w, synced: true}
	p.store = store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: w.market.lanes, Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: func() time.Time { return w.now },
	})
	_ = p.store.Watch(context.Background(), informers{p}) // ours never fail
	feed := func(obj client.Object) { p.handlers[kindOf(obj)].OnUpdate(nil, obj) }
	types := map[string][]catalog.InstanceType{}
	for _, name := range sorted(w.api.pools) {
		feed(w.api.pools[name])
		types[name] = w.market.offers()
	}
	for _, name := range sorted(w.api.daemons) {
		feed(w.api.daemons[name])
	}
	for _, name := range sorted(w.api.pods) {
		pod := w.api.pods[name]
		if daemonPod(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
		feed(pod)
	}
	view := p.store.Snapshot(types)
	return solve.Solve(solve.Problem{View: view.Snapshot, Pods: view.Pods, Policy: w.config.Policy}, func() bool { return false }).Cost
}
