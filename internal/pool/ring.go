package pool

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	ringSize  = 4 // launches recorded per pool
	unhealthy = 2 // failures among them that make a pool unhealthy
)

// Result is how one launch ended: its node registered, or it did not in time.
type Result struct {
	Registered bool
	Reason     string // of a failure; for the condition
	Message    string
}

// Ring is how the last launches of a pool ended (LC-53). The zero value has none.
type Ring struct {
	failed [ringSize]bool
	added  int
}

// Seed is the ring of a controller that just started and has only the condition to go by.
func Seed(status metav1.ConditionStatus) Ring {
	switch status {
	case metav1.ConditionTrue:
		return Ring{}.Add(true)
	case metav1.ConditionFalse:
		return Ring{}.Add(false).Add(false)
	default:
		return Ring{}
	}
}

// Add returns the ring with one more result, which pushes out the oldest of four.
func (r Ring) Add(registered bool) Ring {
	r.failed[r.added%ringSize] = !registered
	r.added++
	return r
}

// Status is Unknown without results, False from two failures on, and True otherwise.
func (r Ring) Status() metav1.ConditionStatus {
	failures := 0
	for _, failed := range r.failed {
		if failed {
			failures++
		}
	}
	switch {
	case r.added == 0:
		return metav1.ConditionUnknown
	case failures >= unhealthy:
		return metav1.ConditionFalse
	default:
		return metav1.ConditionTrue
	}
}
