package overlays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	failures int                      // evaluations in a row in which a pool could not be listed

	mu        sync.Mutex
	watched   watch
	loaded    bool // overlays were read at least once
	none      bool // there are no overlays
	set       *overlay.Set
	evaluated map[string]overlay.Pool // the last list of each pool
	catalogue catalogue
	found     string // identifies objects and verdicts of the set
	results   map[resultKey]*result
	uses      uint64
}

type previews struct {
	prices  map[string]float64
	version uint64
}

// resultKey identifies the input of a result: the list of the cloud, which stays the same while nothing changes, and
// what overlays can see of the pool.
type resultKey struct {
	list  *catalog.InstanceType
	n     int
	scope string
}

type result struct {
	types []catalog.InstanceType
	used  uint64
}

// maxResults bounds the cache of results. Each belongs to a list of the cloud, of which there are few at a time.
const maxResults = 64

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
	if !o.loaded || !o.none && !o.isEvaluated(pool.Name) {
		if _, err := o.evaluate(ctx, pool); err != nil {
			return nil, resources.Table{}, unevaluated(err)
		}
	}
	if o.none {
		return list, o.set.Table(), nil
	}
	if !o.isEvaluated(pool.Name) {
		return nil, resources.Table{}, unevaluated(nil)
	}
	if o.catalogue.differs(o.evaluated[pool.Name].Types, list) {
		loop.Wake(o.woken()) // verdicts may be others now
	}
	return o.result(pool, list), o.set.Table(), nil
}

func unevaluated(cause error) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: "list instance types", Err: errors.Join(cloud.ErrUnevaluated, cause)}
}

func (o *Overlays) isEvaluated(pool string) bool {
	_, found := o.evaluated[pool]
	return found
}

// result applies the set, once for each list that the cloud returns.
func (o *Overlays) result(pool *karpv1.NodePool, list []catalog.InstanceType) []catalog.InstanceType {
	if len(list) == 0 || o.set.Len() == 0 {
		return list
	}
	o.uses++
	labels := pool.Spec.Template.ObjectMeta.Labels
	key := resultKey{&list[0], len(list), o.set.Scope(pool.Name, labels)}
	if known := o.results[key]; known != nil {
		known.used = o.uses
		return known.types
	}
	if len(o.results) >= maxResults {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(o.results)), func(a, b resultKey) int { // any order: uses differ
			return cmp.Compare(o.results[a].used, o.results[b].used)
		})
		delete(o.results, oldest)
	}
	made := &result{types: o.set.Apply(overlay.Pool{Name: pool.Name, Labels: labels, Types: list}), used: o.uses}
	o.results[key] = made
	return made.types
}

// outcome is what an evaluation found.
type outcome struct {
	objects  []v1alpha1.NodeOverlay
	verdicts []overlay.Verdict // of each
	failed   error             // pools whose types could not be listed
}

// evaluate reads all overlays and pools, and swaps the set. also is a pool that the cache may not have yet; it may be
// nil. A pool whose types cannot be listed does not keep the others.
func (o *Overlays) evaluate(ctx context.Context, also *karpv1.NodePool) (outcome, error) {
	objects, err := o.listOverlays(ctx)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{objects: objects}
	var pools []overlay.Pool
	if len(objects) > 0 {
		if pools, out.failed, err = o.listPools(ctx, also); err != nil {
			return outcome{}, err
		}
	}
	set, verdicts := overlay.Evaluate(objects, pools, o.Store.Lanes(overlay.ResourceNames(objects)...), o.Words)
	out.verdicts = verdicts
	o.swap(set, &out, pools)
	return out, nil
}

// swap makes a set the one that counts. If it says the same as the last one, that one stays, and so do all results.
func (o *Overlays) swap(set *overlay.Set, out *outcome, pools []overlay.Pool) {
	evaluated := map[string]overlay.Pool{}
	var found strings.Builder
	for i := range out.objects {
		fmt.Fprintf(&found, "%s %d %s\n", out.objects[i].UID, out.objects[i].Generation, out.verdicts[i].Reason)
	}
	for _, p := range pools {
		evaluated[p.Name] = p
		fmt.Fprintf(&found, "%s %v\n", p.Name, p.Labels)
	}
	o.evaluated, o.none = evaluated, len(out.objects) == 0
	if o.loaded && o.found == found.String() {
		return
	}
	first := !o.loaded
	o.set, o.found, o.loaded, o.results = set, found.String(), true, map[resultKey]*result{}
	if old, version := o.PreviewPrices(); !maps.Equal(old, set.Previews()) {
		o.previews.Store(&previews{prices: set.Previews(), version: version + 1})
	}
	if first && o.none {
		return
	}
	o.Store.RecordPriceChange()
	if o.Changed != nil {
		o.Changed()
	}
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
		switch before, known := o.evaluated[pool.Name]; {
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
