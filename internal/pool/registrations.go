package pool

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// countedClaims bounds how many claims of a pool are kept as counted.
const countedClaims = 64

// Registrations are the results of the launches of each pool object, until it is decided what they mean (LC-53). The zero
// value has none. It is not safe for concurrent use.
type Registrations struct {
	pools map[types.UID]*poolLaunches
}

// poolLaunches are the results of one pool object.
type poolLaunches struct {
	pool    string
	known   bool // the ring was decided since the start
	ring    Ring
	results []Result    // not decided about yet
	counted []types.UID // claims; each counts once, however often it is reported
}

// Record counts how the launch of a claim ended, once, for the pool object that owns the claim; one of the same name made
// later is another. It returns the name of the pool that has to be decided about; empty: none.
func (r *Registrations) Record(claim *karpv1.NodeClaim, result Result) (decide string) {
	i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if i < 0 {
		return ""
	}
	owner := claim.OwnerReferences[i]
	known := r.of(owner.UID, owner.Name)
	if slices.Contains(known.counted, claim.UID) {
		return ""
	}
	known.counted = append(known.counted, claim.UID)
	known.counted = known.counted[max(0, len(known.counted)-countedClaims):]
	known.results = append(known.results, result)
	known.results = known.results[max(0, len(known.results)-countedClaims):]
	return owner.Name
}

func (r *Registrations) of(uid types.UID, name string) *poolLaunches {
	if r.pools == nil {
		r.pools = map[types.UID]*poolLaunches{}
	}
	if r.pools[uid] == nil {
		r.pools[uid] = &poolLaunches{pool: name}
	}
	return r.pools[uid]
}

// Launches returns what a decision about a pool needs.
func (r *Registrations) Launches(p *karpv1.NodePool) Launches {
	known := r.pools[p.UID]
	if known == nil {
		return Launches{}
	}
	return Launches{Ring: known.ring, Known: known.known, Results: slices.Clone(known.results)}
}

// Decided stores a decision that was written, and drops the results it is based on.
func (r *Registrations) Decided(p *karpv1.NodePool, ring Ring, decided int) {
	for uid, other := range r.pools {
		if other.pool == p.Name && uid != p.UID {
			delete(r.pools, uid)
		}
	}
	known := r.of(p.UID, p.Name)
	known.known, known.ring = true, ring
	known.results = slices.Clone(known.results[min(decided, len(known.results)):])
}

// Drop drops the pool objects of a name, which are gone or not ours.
func (r *Registrations) Drop(name string) {
	for uid, known := range r.pools {
		if known.pool == name {
			delete(r.pools, uid)
		}
	}
}
