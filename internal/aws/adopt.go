package aws

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

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// listFresh is for how long one list of instances serves several claims that look for theirs.
const listFresh = 2 * time.Second

// clockSkew is how far the clocks of EC2 and the API server may be apart.
const clockSkew = 5 * time.Second

// adopter finds the instance that an earlier process bought for a claim and did not live to write down
// (A01, decision 7).
type adopter struct {
	instances lister
	claims    client.Reader
	ledger    *ledger
	words     reqs.Vocabulary
	now       func() time.Time

	mu     sync.Mutex // one search at a time, so that each orphan is given away once
	list   []inventory.Instance
	listed time.Time
}

type lister interface {
	List(ctx context.Context) ([]inventory.Instance, error)
}

// adopt returns an orphan that can be the claim's, and gives it to the claim. An error means that it is
// not known whether there is one, so that nothing may be bought.
func (a *adopter) adopt(ctx context.Context, claim *karpv1.NodeClaim, all []catalog.InstanceType) (*inventory.Instance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.now(); a.listed.IsZero() || now.Sub(a.listed) > listFresh {
		list, err := a.instances.List(ctx)
		if err != nil {
			return nil, err
		}
		a.list, a.listed = list, now
	}
	claims := &karpv1.NodeClaimList{}
	if err := a.claims.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, err
	}
	chosen := orphanFor(claim, orphans(a.list, claims.Items, a.ledger.claimsByInstance()), all, a.words)
	if chosen == nil || !a.ledger.assignInstance(claim.UID, chosen.ID, a.now()) {
		return nil, nil
	}
	log.FromContext(ctx).Info("adopted an instance that an earlier process launched", "NodeClaim", klog.KRef("", claim.Name), "provider-id", chosen.ProviderID(), "instance-type", chosen.Type)
	return chosen, nil
}

// orphans are the instances that no claim has.
func orphans(list []inventory.Instance, claims []karpv1.NodeClaim, given map[string]types.UID) []inventory.Instance {
	taken := make(map[string]bool, len(claims))
	for i := range claims {
		taken[inventory.InstanceID(claims[i].Status.ProviderID)] = true
	}
	var out []inventory.Instance
	for _, i := range list {
		if _, promised := given[i.ID]; !promised && !taken[i.ID] {
			out = append(out, i)
		}
	}
	return out
}

// orphanFor chooses the instance that was bought for a claim, if one of them can be it: the one that
// names it, else the oldest.
func orphanFor(claim *karpv1.NodeClaim, list []inventory.Instance, all []catalog.InstanceType, words reqs.Vocabulary) *inventory.Instance {
	var fitting []inventory.Instance
	for _, i := range list {
		if boughtFor(claim, i) && allowed(claim, i, all, words) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return new(slices.MinFunc(fitting, func(a, b inventory.Instance) int {
		return cmp.Or(
			-cmp.Compare(a.Tags[inventory.TagNodeClaim], b.Tags[inventory.TagNodeClaim]), // empty, or the name
			a.Launched.Compare(b.Launched),
			cmp.Compare(a.ID, b.ID),
		)
	}))
}

// boughtFor reports whether tags and time allow that an instance was bought for a claim.
func boughtFor(claim *karpv1.NodeClaim, i inventory.Instance) bool {
	name := i.Tags[inventory.TagNodeClaim]
	return (i.State == inventory.StatePending || i.State == inventory.StateRunning) &&
		i.Tags[inventory.TagNodePool] == claim.Labels[karpv1.LabelNodePool] &&
		i.Tags[inventory.TagNodeClass] == claim.Spec.NodeClassRef.Name &&
		(name == "" || name == claim.Name) &&
		!i.Launched.Before(claim.CreationTimestamp.Add(-clockSkew))
}

// allowed reports whether the requirements of a claim, as far as they are about the machine, hold for an
// instance.
func allowed(claim *karpv1.NodeClaim, i inventory.Instance, all []catalog.InstanceType, words reqs.Vocabulary) bool {
	n := slices.IndexFunc(all, func(t catalog.InstanceType) bool { return t.Name == i.Type })
	if n < 0 {
		return false
	}
	wanted, faults := reqs.FromEntries(karpv1.Entries(claim.Spec.Requirements), words)
	if len(faults) > 0 {
		return false
	}
	labels := machineLabels(&all[n], machineOf(i))
	for key, want := range wanted {
		value, has := labels[key]
		switch {
		case has && want.Has(value):
		case !has && (want.Negative() || !ofMachine(key)):
		default:
			return false
		}
	}
	return true
}

// ofMachine reports whether a label says something about the machine, rather than about the pool.
func ofMachine(key string) bool {
	switch key {
	case corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelArchStable, corev1.LabelOSStable, karpv1.LabelCapacityType:
		return true
	}
	return slices.Contains(awsv1.WellKnownLabels(), key)
}
