package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	orphanAge    = 30 * time.Second // younger instances may still get their claim
	adoptionTime = 2 * time.Minute  // after the start, in which claims find the instances of an earlier process
	clockSkew    = 5 * time.Second  // how far the clocks of the cloud and the API server may be apart
)

// How often instances are compared with the claims: often at first, since the process before may have died in a launch.
const (
	orphansOften  = 10 * time.Second
	orphansSlowly = 2 * time.Minute
	oftenRounds   = 20
)

// OrphanInterval is in what time instances are compared with the claims again, after so many rounds that worked (LC-39).
func OrphanInterval(rounds int) time.Duration {
	if rounds < oftenRounds {
		return orphansOften
	}
	return orphansSlowly
}

// OrphanFacts describes the instances of a cluster.
type OrphanFacts struct {
	Instances []cloud.Instance
	Claims    []karpv1.NodeClaim
	// Name reads the name of an instance out of a provider id; it is empty for what is no id of the cloud.
	Name    func(providerID string) string
	Owners  map[string]types.UID // by instance name: the claims that instances were launched for by this process
	Started time.Time            // when this process started
	Now     time.Time
}

// Orphans returns the instances to terminate (LC-39): no claim has them, none is about to get one of them, they are
// old enough, and they are not terminating. Right after the start those are spared that a claim without instance may
// adopt (A01). The instances must have been listed before the claims.
func Orphans(f OrphanFacts) []cloud.Instance {
	taken, waiting := map[string]bool{}, map[types.UID]*karpv1.NodeClaim{}
	for i := range f.Claims {
		claim := &f.Claims[i]
		if name := f.Name(claim.Status.ProviderID); name != "" {
			taken[name] = true
		} else if claim.Status.ProviderID == "" {
			waiting[claim.UID] = claim
		}
	}
	spared := func(i cloud.Instance) bool {
		if owner, owned := f.Owners[f.Name(string(i.ID))]; owned && waiting[owner] != nil {
			return true // the status of the claim does not have it yet (A02)
		}
		if f.Now.Sub(f.Started) >= adoptionTime {
			return false
		}
		// any order: one is enough
		for _, claim := range waiting {
			if claim.CreationTimestamp.Time.Before(f.Started) && claim.DeletionTimestamp.IsZero() && LaunchedFor(claim, i) {
				return true
			}
		}
		return false
	}
	var out []cloud.Instance
	for _, i := range f.Instances {
		// An age below zero, from a clock that is off, is no age (N08).
		if !taken[f.Name(string(i.ID))] && !i.Terminating && f.Now.Sub(i.Launched) > orphanAge && !spared(i) {
			out = append(out, i)
		}
	}
	return out
}

// LaunchedFor reports whether an instance can have been launched for a claim.
func LaunchedFor(claim *karpv1.NodeClaim, i cloud.Instance) bool {
	return !i.Terminating && !i.Stopped &&
		i.Pool == claim.Labels[karpv1.LabelNodePool] &&
		i.Class == claim.Spec.NodeClassRef.Name &&
		(i.Claim == "" || i.Claim == claim.Name) &&
		!i.Launched.Before(claim.CreationTimestamp.Add(-clockSkew))
}

// InstanceGone reports whether the instance of a claim that is not listed is gone, from what the cloud says about its
// id: lists have the instances with our tags, and a removed tag does not terminate an instance. If the cloud cannot
// say, unsure is true and the claim stays (G3).
func InstanceGone(found cloud.Instance, err error) (gone, unsure bool) {
	if cloud.Is(err, cloud.NotFound) {
		return true, false
	}
	return err == nil && found.Terminating, err != nil
}
