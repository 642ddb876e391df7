package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/version"
)

const (
	leaderFor    = 5 * time.Second // how long the name of the leader is valid
	leaderWithin = 2 * time.Second // to read it
)

// questions serves queries about the cluster once the controller is wired.
type questions struct {
	server atomic.Pointer[api.Server]
}

// ServeHTTP implements http.Handler.
func (q *questions) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if s := q.server.Load(); s != nil {
		s.ServeHTTP(w, req)
		return
	}
	http.Error(w, "the controller is starting; try again in a few seconds", http.StatusServiceUnavailable)
}

// serve begins to respond. It reads the caches that decisions are made from.
func (q *questions) serve(c *core) {
	if !c.cfg.Server.Decisions {
		return
	}
	standby := &leaderName{reader: c.mgr.GetAPIReader(), key: client.ObjectKey{Namespace: leaseNamespace(c.cfg), Name: c.cfg.Leader.Name}, now: time.Now}
	q.server.Store(api.NewServer(api.Source{
		Ready: func(ctx context.Context) error {
			select {
			case <-c.mgr.Elected():
			default:
				return api.StandbyError{Leader: standby.get(ctx)}
			}
			if !c.store.Synced() {
				return errors.New("the caches of the controller are not synced yet; try again in a few seconds")
			}
			return nil
		},
		Inspect:  c.passes.Inspect,
		Snapshot: c.snapshot,
		Past:     past{c.journal, c.book},
		Panicked: func(problem string) {
			c.mgr.GetLogger().Error(errors.New("panic"), "a question met a defect of Dovetail, and was refused; please report it with this entry and a snapshot of the cluster", "panic", problem)
		},
	}, c.driver.Words, c.clock.apiServerTime))
}

// snapshot is the cluster as a file: objects from the caches, instance types as decisions see them.
func (c *core) snapshot(ctx context.Context) (*snapshot.File, error) {
	f, err := snapshot.Read(ctx, &watched{Reader: c.mgr.GetClient(), core: c}, snapshot.ReadOptions{
		Name: "this cluster", Tool: "dovetail " + version.Get().Version, Now: c.clock.apiServerTime(), Classes: c.settings().Classes, Settings: &c.cfg, Market: c.market,
	})
	if err != nil {
		return nil, err
	}
	for _, p := range c.store.VirtualPods() {
		f.Objects.VirtualPods = append(f.Objects.VirtualPods, *p)
	}
	return f, nil
}

// market is what NodePools could launch now. NodeOverlays are objects of the file, and not applied yet.
func (c *core) market(ctx context.Context, r snapshot.MarketRequest) snapshot.Market {
	source, out := cloud.Provider(c.connected), snapshot.Catalogues{Lanes: c.store.Lanes()}
	for i := range r.Pools {
		pool, problem := &r.Pools[i], ""
		effective, _ := pool.Effective(c.cfg.Compat.Strict)
		list, err := source.Types(ctx, effective)
		if err != nil {
			problem = err.Error()
		}
		out.Add(pool.Name, c.backoff.WithoutBackedOff(pool.Name, list, c.clock.apiServerTime()), problem)
	}
	return snapshot.Market{Catalogues: out.List()}
}

// watched reads the kinds that are in the cache already. The cache would begin to watch any other one, and wait for it.
type watched struct {
	client.Reader

	core *core
}

// List implements client.Reader.
func (w *watched) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, w.core.mgr.GetScheme())
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(kind.Kind, "List")
	if !w.core.watches(name) {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: kind.Group, Kind: name}, SearchedVersions: []string{kind.Version}}
	}
	return w.Reader.List(ctx, list, opts...)
}

// watches reports whether a kind is in the cache.
func (c *core) watches(kind string) bool {
	if kind == "NodeOverlay" {
		return c.overlays != nil && isClosed(c.overlays.Readable())
	}
	return c.store.Watches(kind)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leaderName reads who leads, at most every few seconds.
type leaderName struct {
	reader client.Reader
	key    client.ObjectKey
	now    func() time.Time

	mu    sync.Mutex
	name  string
	until time.Time
}

// get returns the name of the pod that leads; empty if it is not known.
func (l *leaderName) get(ctx context.Context) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now().Before(l.until) {
		return l.name
	}
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	lease := &coordinationv1.Lease{}
	l.name, l.until = "", l.now().Add(leaderFor)
	if err := l.reader.Get(ctx, l.key, lease); err == nil && lease.Spec.HolderIdentity != nil {
		pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		l.name = fmt.Sprintf("pod %s/%s", l.key.Namespace, pod)
	}
	return l.name
}
