package provision

import (
	"hash/fnv"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// podPartitions shares pods out over several plans when one plan takes too long for all of them (FM I13). Pods
// are planned in a fixed order, so without it the last ones might never be planned. It starts with one
// partition. Each plan that is cut off doubles the number of partitions. Once each of them was planned in full
// there is one again.
type podPartitions struct {
	count, turn uint32 // count 0: one
	whole       uint32 // plans in a row that were not cut off
}

const maxPartitions = 1 << 10

// inTurn reports whether a pod belongs to the current partition.
func (s *podPartitions) inTurn(key cluster.PodKey) bool {
	if s.count <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(key.String()))
	return h.Sum32()%s.count == s.turn
}

// next moves on after a plan.
func (s *podPartitions) next(partial bool) {
	s.whole++
	if partial {
		s.count, s.whole = min(2*max(s.count, 1), maxPartitions), 0
	}
	if s.whole >= s.count {
		*s = podPartitions{}
		return
	}
	s.turn = (s.turn + 1) % s.count
}

// split separates the pods of the current partition from the others. Pods with a reserved place are always in
// the current one.
func (s *podPartitions) split(pods []cluster.Pod, planned map[cluster.PodKey]string) (now, later []cluster.Pod) {
	if s.count <= 1 {
		return pods, nil
	}
	now = slices.DeleteFunc(slices.Clone(pods), func(p cluster.Pod) bool {
		_, has := planned[p.Key]
		wait := !has && !s.inTurn(p.Key)
		if wait {
			later = append(later, p)
		}
		return wait
	})
	return now, later
}

// postponed lists pods of later partitions as unplaced, out of time.
func postponed(pods []cluster.Pod) []solve.Unplaced {
	list := make([]solve.Unplaced, len(pods))
	for i := range pods {
		list[i] = solve.Unplaced{Pod: pods[i].Key, Why: []reason.Reason{{Code: reason.OutOfTime}}}
	}
	return list
}
