package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// ConditionKind is a kind of objects whose conditions are measured.
type ConditionKind struct {
	schema.GroupKind

	New        func() client.Object
	Conditions func(client.Object) []metav1.Condition
	Metrics    metric.Conditions // of the kind
	Announce   write.Announcer   // emits events about changes that no reconciler of ours makes; may be nil
	Readable   <-chan struct{}   // closed once the kind can be watched; nil: it always can
}

// ConditionMetrics measures the conditions of objects, how long they take to change and how long
// objects take to go (operations 8.7). Only the leader exposes it: it is both a Runnable
// and a Collector, and collects nothing until it runs.
type ConditionMetrics struct {
	Informers informers
	Kinds     []ConditionKind
	All       metric.Conditions // of all kinds, in the old form
	Now       func() time.Time

	mu      sync.Mutex
	objects []map[types.NamespacedName]client.Object // by kind, as in Kinds
}

// ClaimConditions describes NodeClaims.
func ClaimConditions(m *metric.Set) ConditionKind {
	return ConditionKind{
		GroupKind:  schema.GroupKind{Group: karpv1.Group, Kind: "NodeClaim"},
		New:        func() client.Object { return &karpv1.NodeClaim{} },
		Conditions: func(o client.Object) []metav1.Condition { return o.(*karpv1.NodeClaim).Status.Conditions },
		Metrics:    m.Conditions["nodeclaim"],
	}
}

// PoolConditions describes NodePools.
func PoolConditions(m *metric.Set) ConditionKind {
	return ConditionKind{
		GroupKind:  schema.GroupKind{Group: karpv1.Group, Kind: "NodePool"},
		New:        func() client.Object { return &karpv1.NodePool{} },
		Conditions: func(o client.Object) []metav1.Condition { return o.(*karpv1.NodePool).Status.Conditions },
		Metrics:    m.Conditions["nodepool"],
	}
}

// NodeConditions describes Nodes. No reconciler of ours sets their conditions, so that changes are announced
// from here.
func NodeConditions(m *metric.Set, announce write.Announcer) ConditionKind {
	return ConditionKind{
		GroupKind: schema.GroupKind{Kind: "Node"},
		New:       func() client.Object { return &corev1.Node{} },
		Conditions: func(o client.Object) []metav1.Condition {
			var list []metav1.Condition
			for _, c := range o.(*corev1.Node).Status.Conditions {
				list = append(list, metav1.Condition{
					Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
				})
			}
			return list
		},
		Metrics: m.Conditions["node"], Announce: announce,
	}
}

// OverlayConditions describes NodeOverlays.
func OverlayConditions(m *metric.Set, readable <-chan struct{}) ConditionKind {
	return ConditionKind{
		GroupKind:  schema.GroupKind{Group: v1alpha1.GroupVersion().Group, Kind: "NodeOverlay"},
		New:        func() client.Object { return &v1alpha1.NodeOverlay{} },
		Conditions: func(o client.Object) []metav1.Condition { return o.(*v1alpha1.NodeOverlay).Status.Conditions },
		Metrics:    m.Conditions["nodeoverlay"], Readable: readable,
	}
}

// BufferConditions describes CapacityBuffers.
func BufferConditions(m *metric.Set, readable <-chan struct{}) ConditionKind {
	return ConditionKind{
		GroupKind: schema.GroupKind{Group: autoscalingv1beta1.GroupVersion().Group, Kind: "CapacityBuffer"},
		New:       func() client.Object { return &autoscalingv1beta1.CapacityBuffer{} },
		Conditions: func(o client.Object) []metav1.Condition {
			return o.(*autoscalingv1beta1.CapacityBuffer).Status.Conditions
		},
		Metrics: m.Conditions["capacitybuffer"], Readable: readable,
	}
}

// NeedLeaderElection says that only the leader runs it.
func (*ConditionMetrics) NeedLeaderElection() bool { return true }

// Start follows the watches until the context ends.
func (m *ConditionMetrics) Start(ctx context.Context) error {
	m.clearState()
	defer m.clearState()
	var late sync.WaitGroup
	defer late.Wait()
	for i, kind := range m.Kinds {
		if kind.Readable == nil {
			if err := m.follow(ctx, i); err != nil {
				return err
			}
			continue
		}
		late.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-kind.Readable:
			}
			if err := m.follow(ctx, i); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "no metrics of the conditions of a kind", "kind", kind.Kind)
			}
		})
	}
	<-ctx.Done()
	return nil
}

// follow watches the objects of one kind.
func (m *ConditionMetrics) follow(ctx context.Context, kind int) error {
	informer, err := m.Informers.GetInformer(ctx, m.Kinds[kind].New())
	if err == nil {
		_, err = informer.AddEventHandler(m.handler(kind))
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", m.Kinds[kind].Kind, err)
	}
	return nil
}

// clearState empties the cached state, so that no series is exported.
func (m *ConditionMetrics) clearState() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = make([]map[types.NamespacedName]client.Object, len(m.Kinds))
	for i := range m.objects {
		m.objects[i] = map[types.NamespacedName]client.Object{}
	}
}

func (m *ConditionMetrics) handler(kind int) toolscache.ResourceEventHandler {
	locked := func(obj any, gone, first bool) {
		if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
			obj = last.Obj
		}
		if object, ok := obj.(client.Object); ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.observeObject(kind, object, gone, first)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { locked(obj, false, initial) },
		UpdateFunc: func(_, obj any) { locked(obj, false, false) },
		DeleteFunc: func(obj any) { locked(obj, true, false) },
	}
}

// observeObject compares an object with what it was. What happened before we were there is not measured.
func (m *ConditionMetrics) observeObject(index int, obj client.Object, gone, first bool) {
	kind, key := m.Kinds[index], client.ObjectKeyFromObject(obj)
	before := m.objects[index][key]
	if gone {
		delete(m.objects[index], key)
		if deleted := obj.GetDeletionTimestamp(); deleted != nil {
			waited := elapsed(deleted.Time, m.Now())
			kind.Metrics.TerminationSeconds.WithLabelValues().Observe(waited)
			m.All.TerminationSeconds.WithLabelValues(kind.Group, kind.Kind).Observe(waited)
		}
		return
	}
	m.objects[index][key] = obj
	if first && before == nil {
		return
	}
	var old []metav1.Condition
	if before != nil && before.GetUID() == obj.GetUID() {
		old = kind.Conditions(before)
	}
	next := kind.Conditions(obj)
	flips := condition.Flips(old, next)
	for _, f := range flips {
		m.flipped(kind, obj, f, condition.Find(old, f.Type), condition.Find(next, f.Type))
	}
	if kind.Announce != nil && before != nil {
		kind.Announce.Flips(obj, flips)
	}
}

// flipped measures a change (V15-72). A condition that is new was Unknown since its object was created.
func (m *ConditionMetrics) flipped(kind ConditionKind, obj client.Object, f condition.Flip, old, next *metav1.Condition) {
	from, since := metav1.ConditionUnknown, obj.GetCreationTimestamp().Time
	if old != nil {
		from, since = old.Status, old.LastTransitionTime.Time
	}
	if from == f.To {
		return
	}
	took := elapsed(since, next.LastTransitionTime.Time)
	kind.Metrics.Transitions.WithLabelValues(f.Type, string(f.To), f.Reason).Inc()
	kind.Metrics.TransitionSeconds.WithLabelValues(f.Type, string(from), string(f.To)).Observe(took)
	m.All.Transitions.WithLabelValues(kind.Group, kind.Kind, f.Type, string(f.To), f.Reason).Inc()
	m.All.TransitionSeconds.WithLabelValues(kind.Group, kind.Kind, f.Type, string(from), string(f.To)).Observe(took)
}

// Describe describes nothing: series leave empty labels out, so they do not all have the same.
func (*ConditionMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect makes the series of everything that exists now.
func (m *ConditionMetrics) Collect(out chan<- prometheus.Metric) {
	for _, sample := range m.samples() {
		out <- sample
	}
}

func (m *ConditionMetrics) samples() []prometheus.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, pairs := m.Now(), metric.NewPairs()
	var out []prometheus.Metric
	for i, objects := range m.objects {
		kind := m.Kinds[i]
		// any order: a scrape is sorted when it is written
		for key, obj := range objects {
			add := func(current, all *metric.Live, value float64, labels ...string) {
				out = append(out,
					current.Sample(value, pairs.Of(current.Labels(), labels...)),
					all.Sample(value, pairs.Of(all.Labels(), append([]string{kind.Group, kind.Kind}, labels...)...)))
			}
			for _, c := range kind.Conditions(obj) {
				labels := []string{key.Namespace, key.Name, c.Type, string(c.Status), c.Reason}
				add(kind.Metrics.Count, m.All.Count, 1, labels...)
				add(kind.Metrics.CurrentSeconds, m.All.CurrentSeconds, elapsed(c.LastTransitionTime.Time, now), labels...)
			}
			if deleted := obj.GetDeletionTimestamp(); deleted != nil {
				add(kind.Metrics.TerminationCurrent, m.All.TerminationCurrent, elapsed(deleted.Time, now), key.Namespace, key.Name)
			}
		}
	}
	return out
}
