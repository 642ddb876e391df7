package write

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Versions holds, for each claim, the earliest version that may be decided on. A cache that is behind
// our own write would let us decide twice. After a conflict, every write fails until the cache has the other
// write. The zero value is ready.
type Versions struct {
	mu       sync.Mutex
	versions map[string]awaitedVersion // by name
	deleted  map[string]types.UID      // by name, until the cache shows it
}

// awaitedVersion is a version that the cache has to reach, or to pass.
type awaitedVersion struct {
	version    string
	passed     bool
	staleReads int // how often the cache was found not to have passed it
}

// maxStaleReads is how often the cache is given time for a later version after a conflict. There may be none:
// not every conflict is about the version (FM D08).
const maxStaleReads = 3

// RecordDeletion records that a claim was deleted.
func (w *Versions) RecordDeletion(claim *karpv1.NodeClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deleted == nil {
		w.deleted = map[string]types.UID{}
	}
	w.deleted[claim.Name] = claim.UID
}

// RecordWrite records that we wrote this version.
func (w *Versions) RecordWrite(claim *karpv1.NodeClaim) { w.awaitVersion(claim, false) }

// RecordConflict records that another client wrote a later version than this one.
func (w *Versions) RecordConflict(claim *karpv1.NodeClaim) { w.awaitVersion(claim, true) }

func (w *Versions) awaitVersion(claim *karpv1.NodeClaim, passed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[string]awaitedVersion{}
	}
	w.versions[claim.Name] = awaitedVersion{version: claim.ResourceVersion, passed: passed}
}

// Read reads a claim to decide on from a cache. Without a claim there is nothing to decide, and a reconciler returns the
// rest: the claim is gone, or the cache does not have our own last write and is read again soon.
func (w *Versions) Read(ctx context.Context, cache client.Reader, name string, soon time.Duration) (*karpv1.NodeClaim, ctrl.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := cache.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			w.dropClaim(name)
		}
		return nil, ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.cacheIsStale(claim) {
		return nil, ctrl.Result{RequeueAfter: soon}, nil
	}
	return claim, ctrl.Result{}, nil
}

// cacheIsStale reports whether a later version than this one is known to exist.
func (w *Versions) cacheIsStale(claim *karpv1.NodeClaim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid, gone := w.deleted[claim.Name]; gone {
		if uid == claim.UID && claim.DeletionTimestamp == nil {
			return true
		}
		delete(w.deleted, claim.Name)
	}
	from, known := w.versions[claim.Name]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, from.version)
	if err == nil && order < 0 {
		return true
	}
	if from.staleReads++; err == nil && from.passed && order == 0 && from.staleReads <= maxStaleReads {
		w.versions[claim.Name] = from
		return true
	}
	delete(w.versions, claim.Name) // it caught up
	return false
}

// dropClaim drops the state of a deleted claim.
func (w *Versions) dropClaim(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
	delete(w.deleted, name)
}
