package overlays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// AddToScheme registers NodeOverlays.
func AddToScheme(s *runtime.Scheme) error { return v1alpha1.AddToScheme(s) }

// TypeLister lists the instance types of a pool without overlays.
type TypeLister func(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)

// stateStore is the in-memory state of the cluster.
type stateStore interface {
	// Lanes returns the table of resources, with a lane for each of these names.
	Lanes(names ...corev1.ResourceName) resources.Table
	// RecordPriceChange says that nodes may be worth removing although none changed.
	RecordPriceChange()
}

// Overlays keeps what NodeOverlays make of instance types. Exported fields are set once.
type Overlays struct {
	Client    client.Client
	Reader    client.Reader // of the API server itself
	Informers cache.Informers
	Types     TypeLister
	Store     stateStore
	Words     reqs.Vocabulary
	Classes   []lookup.ClassKind
	Strict    bool
	Events    write.Announcer
	Metrics   *metric.Set
	Now       func() time.Time
	Changed   func() // called when pods that could not be placed may be placed now; may be nil

	wakeUp sync.Once
	wake   chan struct{}

	makeReadable sync.Once
	readable     chan struct{} // closed once they can be watched

	previews atomic.Pointer[previews] // apart, since the cloud reads it while it lists types for an evaluation

	mu      sync.Mutex
	watched watch
	state   overlay.State
}

type previews struct {
	prices  map[string]float64
	version uint64
}

// PreviewPrices are prices that overlays give to types without one, by type; the version rises when they change.
func (o *Overlays) PreviewPrices() (prices map[string]float64, version uint64) {
	if p := o.previews.Load(); p != nil {
		return p.prices, p.version
	}
	return nil, 0
}

// Provider is a cloud whose instance types are as overlays make them.
type Provider struct {
	cloud.Provider
	Overlays *Overlays
}

// Types returns all instance types that a pool could have, as overlays make them.
func (p Provider) Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
	list, err := p.Provider.Types(ctx, pool)
	if err != nil {
		return nil, err
	}
	list, _, err = p.Overlays.apply(ctx, pool, list)
	return list, err
}

// Launchable returns the instance types for the launch of a claim, with the table that their resources are written
// with. A claim without a pool gets them as they are, and so does one whose pool does not exist any more.
func (o *Overlays) Launchable(ctx context.Context, claim *karpv1.NodeClaim, list []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
	name := claim.Labels[karpv1.LabelNodePool]
	if name == "" {
		return list, resources.Table{}, nil
	}
	pool := &karpv1.NodePool{}
	if err := o.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return list, resources.Table{}, client.IgnoreNotFound(err)
	}
	pool, _ = pool.Effective(o.Strict)
	return o.apply(ctx, pool, list)
}

// apply returns a list as overlays make it for a pool.
func (o *Overlays) apply(ctx context.Context, pool *karpv1.NodePool, list []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.state.Covers(pool.Name) {
		if _, err := o.evaluate(ctx, pool); err != nil {
			return nil, resources.Table{}, unevaluated(err)
		}
	}
	if !o.state.Covers(pool.Name) {
		return nil, resources.Table{}, unevaluated(nil)
	}
	of := overlay.Pool{Name: pool.Name, Labels: pool.Spec.Template.ObjectMeta.Labels, Types: list}
	if o.state.Outdated(of) {
		loop.Wake(o.woken())
	}
	return o.state.Apply(of), o.state.Table(), nil
}

func unevaluated(cause error) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: "list instance types", Err: errors.Join(cloud.ErrUnevaluated, cause)}
}

// outcome is what an evaluation found.
type outcome struct {
	overlay.Evaluation

	failed error // pools whose types could not be listed
}

// evaluate reads all overlays and pools, and swaps the set. also is a pool that the cache may not have yet; it may be
// nil. A pool whose types cannot be listed does not keep the others.
func (o *Overlays) evaluate(ctx context.Context, also *karpv1.NodePool) (outcome, error) {
	objects, err := o.listOverlays(ctx)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Evaluation: overlay.Evaluation{Objects: objects}}
	if len(objects) > 0 {
		if out.Pools, out.failed, err = o.listPools(ctx, also); err != nil {
			return outcome{}, err
		}
	}
	out.Set, out.Verdicts = overlay.Evaluate(objects, out.Pools, o.Store.Lanes(overlay.ResourceNames(objects)...), o.Words)
	swapped, replan := o.state.Swap(out.Evaluation)
	if old, version := o.PreviewPrices(); swapped && !maps.Equal(old, out.Set.Previews()) {
		o.previews.Store(&previews{prices: out.Set.Previews(), version: version + 1})
	}
	if replan {
		o.Store.RecordPriceChange()
		if o.Changed != nil {
			o.Changed()
		}
	}
	return out, nil
}

// listOverlays lists the overlays that are not being deleted, by name. There are none while the cluster does not
// serve them.
func (o *Overlays) listOverlays(ctx context.Context) ([]v1alpha1.NodeOverlay, error) {
	if on, err := o.tryWatch(ctx); err != nil || !on {
		return nil, err
	}
	list := &v1alpha1.NodeOverlayList{}
	if err := o.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list NodeOverlays: %w", err)
	}
	objects := slices.DeleteFunc(list.Items, func(n v1alpha1.NodeOverlay) bool { return n.DeletionTimestamp != nil })
	slices.SortFunc(objects, func(a, b v1alpha1.NodeOverlay) int { return cmp.Compare(a.Name, b.Name) })
	return objects, nil
}

// listPools lists the pools of our classes with their types, by name. A pool that was evaluated before keeps its last
// list while there is no new one.
func (o *Overlays) listPools(ctx context.Context, also *karpv1.NodePool) (pools []overlay.Pool, failed, err error) {
	list := &karpv1.NodePoolList{}
	if err := o.Client.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("list NodePools: %w", err)
	}
	if also != nil && !slices.ContainsFunc(list.Items, func(p karpv1.NodePool) bool { return p.Name == also.Name }) {
		list.Items = append(list.Items, *also)
	}
	slices.SortFunc(list.Items, func(a, b karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range list.Items {
		pool, _ := list.Items[i].Effective(o.Strict)
		if !lookup.Managed(o.kinds(), pool.Spec.Template.Spec.NodeClassRef) {
			continue
		}
		p := overlay.Pool{Name: pool.Name, Labels: pool.Spec.Template.ObjectMeta.Labels}
		types, err := o.Types(ctx, pool)
		switch before, known := o.state.Evaluated(pool.Name); {
		case err == nil:
			p.Types = types
		case known:
			p.Types = before.Types
		default:
			failed = errors.Join(failed, fmt.Errorf("NodePool %s: %w", pool.Name, err))
			continue
		}
		pools = append(pools, p)
	}
	return pools, failed, nil
}

func (o *Overlays) kinds() []schema.GroupKind {
	out := make([]schema.GroupKind, 0, len(o.Classes))
	for _, k := range o.Classes {
		out = append(out, k.GroupKind)
	}
	return out
}
