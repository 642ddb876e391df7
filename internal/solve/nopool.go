package solve

import (
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// NoTypes reports whether the requirements of a pool leave no instance type whatever pods ask for, or
// too few for its minValues, and which of the two it is (SC-09). What can be had at the moment plays
// no role: capacity comes back, requirements do not.
func NoTypes(pool *cluster.Pool, policy Policy) (reason.Reason, bool) {
	subject := "nodepool/" + pool.Name
	values := map[string]map[string]bool{}
	left := 0
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := pool.Requirements.Conflict(t.Labels); conflict || !offered(pool, t) {
			continue
		}
		left++
		for key, r := range pool.Requirements {
			if r.MinValues > 0 {
				collect(values, key, r, t)
			}
		}
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

// meets reports whether some type meets the requirements of a pool, whether it can be had or not.
func meets(pool *cluster.Pool) bool {
	for i := range pool.Types {
		if _, conflict := pool.Requirements.Conflict(pool.Types[i].Labels); !conflict && offered(pool, &pool.Types[i]) {
			return true
		}
	}
	return false
}

// offered reports whether any offering of a type agrees with the pool.
func offered(pool *cluster.Pool, t *catalog.InstanceType) bool {
	for i := range t.Offerings {
		if _, conflict := pool.Requirements.Conflict(offeringNeeds(&t.Offerings[i])); !conflict {
			return true
		}
	}
	return false
}

// collect adds the values of a key that a type has and the pool allows.
func collect(values map[string]map[string]bool, key string, allowed reqs.Req, t *catalog.InstanceType) {
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
		for _, value := range offeringNeeds(&t.Offerings[i])[key].Values {
			note(value)
		}
	}
}

// offeringNeeds are the labels of an offering as requirements.
func offeringNeeds(o *catalog.Offering) reqs.Set {
	set := reqs.Set{}
	for _, l := range offeringLabels(o) {
		set[l.key] = reqs.Req{Values: []string{l.value}}
	}
	return set
}
