package solve

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// NoTypes reports whether a pool can never launch an instance type, and why (SC-09): its requirements leave none, or
// none that its node class can launch, or too few for its minValues. Insufficient capacity does not count: capacity
// comes back, requirements do not change.
func NoTypes(pool *cluster.Pool, policy Policy) (reason.Reason, bool) {
	subject := "nodepool/" + pool.Name
	values := map[string]map[string]bool{}
	left, unsuited := 0, ""
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := pool.Requirements.Conflict(t.Labels); conflict || !model.HasMatchingOffering(pool, t) {
			continue
		}
		if t.Unsuited != "" {
			unsuited = cmp.Or(unsuited, t.Name+": "+t.Unsuited)
			continue
		}
		left++
		// any order: keys are independent
		for key, r := range pool.Requirements {
			if r.MinValues > 0 {
				collectValues(values, key, r, t)
			}
		}
	}
	if left == 0 && unsuited != "" {
		return reason.Reason{Code: reason.ClassUnsuited, Subject: subject, Have: unsuited}, true
	}
	if left == 0 {
		return reason.Reason{Code: reason.PoolFiltered, Subject: subject, Want: pool.Requirements.String()}, true
	}
	if policy.BestEffortMinimums {
		return reason.Reason{}, false
	}
	for _, key := range pool.Requirements.Keys() {
		if want, have := pool.Requirements[key].MinValues, len(values[key]); have < want {
			return reason.Reason{Code: reason.MinValuesUnmet, Subject: subject, Want: strconv.Itoa(want) + " " + key, Have: strconv.Itoa(have)}, true
		}
	}
	return reason.Reason{}, false
}

// Misspelt finds instance types in a pool's requirements that do not exist but resemble one that does. Next to valid
// names, such a name has no visible effect.
func Misspelt(pool *cluster.Pool) []reason.Reason {
	listed := pool.Requirements[corev1.LabelInstanceTypeStable].Values
	if len(listed) == 0 {
		return nil
	}
	known := make([]string, 0, len(pool.Types))
	for i := range pool.Types {
		known = append(known, pool.Types[i].Name)
	}
	slices.Sort(known)
	var list []reason.Reason
	for _, name := range listed {
		if _, exists := slices.BinarySearch(known, name); exists {
			continue
		}
		if best := near.Nearest(name, known); best != "" {
			list = append(list, reason.Reason{Code: reason.ValueMisspelt, Subject: "nodepool/" + pool.Name + " " + corev1.LabelInstanceTypeStable, Have: name, Want: best})
		}
	}
	return list
}

// collectValues adds the values of a key that a type has and the pool allows.
func collectValues(values map[string]map[string]bool, key string, allowed reqs.Req, t *catalog.InstanceType) {
	if values[key] == nil {
		values[key] = map[string]bool{}
	}
	note := func(value string) {
		if allowed.Has(value) {
			values[key][value] = true
		}
	}
	if r, has := t.Labels[key]; has && !r.Not {
		for _, value := range r.Values {
			note(value)
		}
		return
	}
	for i := range t.Offerings {
		if value, has := model.OfferingLabel(&t.Offerings[i], key); has {
			note(value)
		}
	}
}
