package adopt

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// listFresh is for how long one list of instances serves several claims that search for theirs.
const listFresh = 2 * time.Second

// Adopter finds the instance that an earlier process launched for a claim and did not live to write down
// (A01, decision 7). T is an instance in the words of the cloud. Exported fields are set once; it is safe for
// concurrent use.
type Adopter[T any] struct {
	List   func(ctx context.Context) ([]T, error)                       // every instance of the cluster
	Read   func(T) cloud.Instance                                       // the same in the words of the port
	Labels func(instance T, of *catalog.InstanceType) map[string]string // of its node, as far as they are about the machine
	Claims client.Reader
	Ledger *Ledger
	Name   directory.Key
	Words  reqs.Vocabulary
	Now    func() time.Time

	mu     sync.Mutex // one search at a time, so that each orphan is given away once
	list   []candidate[T]
	listed time.Time
}

// candidate is an instance in both words.
type candidate[T any] struct {
	cloud.Instance

	name string
	raw  T
}

// Adopt returns an orphan that can be the claim's, and gives it to the claim. An error means that it is
// not known whether there is one, so that nothing may be launched.
func (a *Adopter[T]) Adopt(ctx context.Context, claim *karpv1.NodeClaim, all []catalog.InstanceType) (*T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.Now(); a.listed.IsZero() || now.Sub(a.listed) > listFresh {
		list, err := a.List(ctx)
		if err != nil {
			return nil, err
		}
		a.list, a.listed = a.candidates(list), now
	}
	claims := &karpv1.NodeClaimList{}
	if err := a.Claims.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, err
	}
	chosen := a.choose(claim, a.orphans(claims.Items, a.Ledger.Owners()), all)
	if chosen == nil || !a.Ledger.Assign(claim.UID, chosen.name) {
		return nil, nil
	}
	log.FromContext(ctx).Info("adopted an instance that an earlier process launched", "NodeClaim", klog.KRef("", claim.Name), "provider-id", chosen.ID, "instance-type", chosen.Type)
	return &chosen.raw, nil
}

func (a *Adopter[T]) candidates(list []T) []candidate[T] {
	out := make([]candidate[T], 0, len(list))
	for _, raw := range list {
		read := a.Read(raw)
		out = append(out, candidate[T]{Instance: read, name: a.Name(string(read.ID)), raw: raw})
	}
	return out
}

// orphans are the instances that no claim has.
func (a *Adopter[T]) orphans(claims []karpv1.NodeClaim, given map[string]types.UID) []candidate[T] {
	taken := make(map[string]bool, len(claims))
	for i := range claims {
		taken[a.Name(claims[i].Status.ProviderID)] = true
	}
	var out []candidate[T]
	for _, i := range a.list {
		if _, planned := given[i.name]; !planned && !taken[i.name] {
			out = append(out, i)
		}
	}
	return out
}

// choose returns the instance that was launched for a claim, if one of them can be it: the one that
// names it, else the oldest.
func (a *Adopter[T]) choose(claim *karpv1.NodeClaim, list []candidate[T], all []catalog.InstanceType) *candidate[T] {
	var fitting []candidate[T]
	for _, i := range list {
		if lifecycle.LaunchedFor(claim, i.Instance) && a.allowed(claim, i, all) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return new(slices.MinFunc(fitting, func(a, b candidate[T]) int {
		return cmp.Or(
			-cmp.Compare(a.Claim, b.Claim), // empty, or the name
			a.Launched.Compare(b.Launched),
			cmp.Compare(a.name, b.name),
		)
	}))
}

// allowed reports whether the requirements of a claim, as far as they are about the machine, hold for an
// instance.
func (a *Adopter[T]) allowed(claim *karpv1.NodeClaim, i candidate[T], all []catalog.InstanceType) bool {
	n := slices.IndexFunc(all, func(t catalog.InstanceType) bool { return t.Name == i.Type })
	if n < 0 {
		return false
	}
	wanted, faults := reqs.FromEntries(karpv1.Entries(claim.Spec.Requirements), a.Words)
	if len(faults) > 0 {
		return false
	}
	labels := a.Labels(i.raw, &all[n])
	for key, want := range wanted {
		value, has := labels[key]
		switch {
		case has && want.Has(value):
		case !has && (want.Negative() || !a.ofMachine(key)):
		default:
			return false
		}
	}
	return true
}

// ofMachine reports whether a label says something about the machine, rather than about the pool or its image.
func (a *Adopter[T]) ofMachine(key string) bool {
	return key != karpv1.LabelNodePool && key != corev1.LabelWindowsBuild && a.Words.WellKnownKeys[key]
}
