package pool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

// LC-53: two failures among the last four make a pool unhealthy.
func TestRing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		results string // s: registered, f: failed
		want    metav1.ConditionStatus
	}{
		"nothing happened yet":                      {"", isUnknown},
		"one success":                               {"s", isTrue},
		"one failure is no pattern":                 {"f", isTrue},
		"two failures are":                          {"ff", isFalse},
		"half of four":                              {"sfsf", isFalse},
		"one of four":                               {"sssf", isTrue},
		"successes push failures out one by one":    {"ffss", isFalse},
		"until one is left":                         {"ffsss", isTrue},
		"and none":                                  {"ffssss", isTrue},
		"long ago does not count":                   {"ffffffssss", isTrue},
		"new failures push out successes just so":   {"ssssff", isFalse},
		"a failure every fourth time is not enough": {"fsssfsssfsss", isTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring := pool.Ring{}
			for _, r := range tc.results {
				ring = ring.Add(r == 's')
			}
			if got := ring.Status(); got != tc.want {
				t.Errorf("status %s, want %s", got, tc.want)
			}
		})
	}
	for _, status := range []metav1.ConditionStatus{isTrue, isFalse, isUnknown} {
		if got := pool.Seed(status).Status(); got != status {
			t.Errorf("seeded from %s it says %s", status, got)
		}
	}
	if got := pool.Seed(isTrue).Add(false).Add(false).Status(); got != isFalse {
		t.Errorf("a seeded success outweighs two failures: %s", got)
	}
	if got := pool.Seed(isFalse).Add(true).Add(true).Add(true).Status(); got != isTrue {
		t.Errorf("three successes do not outweigh two seeded failures: %s", got)
	}
}

// healthy is a pool whose condition has been seen at this generation, with a class of generation 7.
func observed(status metav1.ConditionStatus, results ...pool.Result) pool.Facts {
	f := facts(func(p *karpv1.NodePool) {
		p.Status.NodeClassObservedGeneration = 7
		p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionNodeRegistrationHealthy, Status: status, Reason: "Before", Message: "as before", ObservedGeneration: 1}}
	})
	f.Class = &pool.Class{Generation: 7}
	f.Launches.Results = results
	return f
}

// LC-53: what results make of the condition, and what a change of generation does to them.
func TestRegistrationHealth(t *testing.T) {
	t.Parallel()
	success, failure := pool.Result{Registered: true}, pool.Result{Message: "never joined"}
	noCapacity := pool.Result{Reason: "LaunchFailed", Message: "quota"}
	type condition3 struct{ Status, Reason, Message string }
	for name, tc := range map[string]struct {
		facts    pool.Facts
		change   func(*pool.Facts)
		want     condition3
		wantRing metav1.ConditionStatus
	}{
		"nothing new leaves it alone":         {facts: observed(isTrue), want: condition3{"True", "Before", "as before"}, wantRing: isTrue},
		"a success":                           {facts: observed(isUnknown, success), want: condition3{"True", "NodeRegistrationHealthy", ""}, wantRing: isTrue},
		"one failure says nothing":            {facts: observed(isUnknown, failure), want: condition3{"Unknown", "Before", "as before"}, wantRing: isTrue},
		"two failures":                        {facts: observed(isUnknown, failure, failure), want: condition3{"False", "RegistrationFailed", "never joined"}, wantRing: isFalse},
		"a launch that failed gives its own":  {facts: observed(isUnknown, failure, noCapacity), want: condition3{"False", "LaunchFailed", "quota"}, wantRing: isFalse},
		"what is false keeps its first cause": {facts: observed(isFalse, noCapacity), want: condition3{"False", "Before", "as before"}, wantRing: isFalse},
		"one success does not mend it":        {facts: observed(isFalse, success), want: condition3{"False", "Before", "as before"}, wantRing: isFalse},
		"three do":                            {facts: observed(isFalse, success, success, success), want: condition3{"True", "NodeRegistrationHealthy", ""}, wantRing: isTrue},
		"a ring that is known counts, not the condition": {
			facts:    observed(isTrue, failure),
			change:   func(f *pool.Facts) { f.Launches.Known, f.Launches.Ring = true, pool.Ring{}.Add(false) },
			want:     condition3{"False", "RegistrationFailed", "never joined"},
			wantRing: isFalse,
		},
		"FM M15 the pool was mended": {
			facts: observed(isFalse, failure), change: func(f *pool.Facts) { f.Pool.Generation++ },
			want: condition3{"Unknown", "AwaitingReconciliation", ""}, wantRing: isUnknown,
		},
		"FM M15 the class was mended": {
			facts: observed(isFalse, failure), change: func(f *pool.Facts) { f.Class.Generation++ },
			want: condition3{"Unknown", "AwaitingReconciliation", ""}, wantRing: isUnknown,
		},
		"a class that is gone changes nothing": {
			facts: observed(isFalse), change: func(f *pool.Facts) { f.Class = nil },
			want: condition3{"False", "Before", "as before"}, wantRing: isFalse,
		},
		"a new pool": {
			facts: observed(isFalse), change: func(f *pool.Facts) { f.Pool.Status = karpv1.NodePoolStatus{} },
			want: condition3{"Unknown", "AwaitingReconciliation", ""}, wantRing: isUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change != nil {
				tc.change(&tc.facts)
			}
			step := next(t, tc.facts)
			c := condition.Find(step.Conditions, karpv1.ConditionNodeRegistrationHealthy)
			if diff := cmp.Diff(tc.want, condition3{string(c.Status), c.Reason, c.Message}); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if c.ObservedGeneration != tc.facts.Pool.Generation {
				t.Errorf("observed generation %d", c.ObservedGeneration)
			}
			if got := step.Launches.Status(); got != tc.wantRing {
				t.Errorf("the ring says %s, want %s", got, tc.wantRing)
			}
			if ready := condition.Find(step.Conditions, karpv1.ConditionReady); ready.Message == "NodeRegistrationHealthy=False" {
				t.Error("health of registration decides whether the pool is ready")
			}
		})
	}
}

// RH-02, RH-03: what the launch back-off learns from a decision about a pool.
func TestRegistrationOf(t *testing.T) {
	t.Parallel()
	success, failure := pool.Result{Registered: true}, pool.Result{}
	for name, tc := range map[string]struct {
		status  metav1.ConditionStatus // empty: there is no such condition
		results []pool.Result
		want    pool.Registration
	}{
		"a new pool":                         {want: pool.RegistrationHealthy},
		"nothing is known yet":               {status: isUnknown, results: []pool.Result{failure}, want: pool.RegistrationHealthy},
		"its nodes register":                 {status: isTrue, results: []pool.Result{failure}, want: pool.RegistrationHealthy},
		"another failure":                    {status: isFalse, results: []pool.Result{success, failure}, want: pool.RegistrationFailing},
		"a success that does not make it up": {status: isFalse, results: []pool.Result{success}, want: pool.RegistrationOpen},
		"nothing new of one that fails":      {status: isFalse, want: pool.RegistrationOpen},
	} {
		var conditions []metav1.Condition
		if tc.status != "" {
			conditions = []metav1.Condition{{Type: karpv1.ConditionNodeRegistrationHealthy, Status: tc.status}}
		}
		if got := pool.RegistrationOf(conditions, tc.results); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
