package provision

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func somePods(n int) []cluster.Pod {
	pods := make([]cluster.Pod, n)
	for i := range pods {
		pods[i].Key = cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("p%03d", i)}
	}
	return pods
}

// FM I13: as long as plans for more than a few pods are cut off, every pod is in a plan that is not.
func TestFM_I13_EveryPodHasItsTurn(t *testing.T) {
	t.Parallel()
	const pods, most, plans = 400, 30, 200
	s := &podPartitions{}
	all := somePods(pods)
	planned := map[cluster.PodKey]string{all[7].Key: "general-x"}
	tried := map[cluster.PodKey]bool{}
	for range plans {
		now, later := s.split(all, planned)
		if len(now)+len(later) != pods {
			t.Fatalf("%d pods now and %d later, of %d", len(now), len(later), pods)
		}
		seen := false
		for _, p := range now {
			seen = seen || p.Key == all[7].Key
			tried[p.Key] = tried[p.Key] || len(now) <= most
		}
		if !seen {
			t.Fatal("a pod that was promised a claim is left out; its place would be given away")
		}
		s.next(len(now) > most)
	}
	for _, p := range all {
		if !tried[p.Key] {
			t.Errorf("pod %s never had its turn", p.Key)
		}
	}
}

// Plans that are not cut off are for all pods, and so are those after each portion had its turn.
func TestPortionsEnd(t *testing.T) {
	t.Parallel()
	s, all := &podPartitions{}, somePods(100)
	for range 3 {
		if _, later := s.split(all, nil); len(later) > 0 {
			t.Fatalf("%d pods wait although no plan was cut off", len(later))
		}
		s.next(false)
	}
	s.next(true)
	if _, later := s.split(all, nil); len(later) == 0 || len(later) == len(all) {
		t.Fatalf("%d pods wait after a plan that was cut off, want about half", len(later))
	}
	s.next(false)
	if _, later := s.split(all, nil); len(later) == 0 {
		t.Fatal("the second half had no turn of its own")
	}
	s.next(false)
	if _, later := s.split(all, nil); len(later) > 0 {
		t.Errorf("%d pods still wait after both halves had their turn", len(later))
	}
	for range 100 {
		s.next(true)
	}
	if s.count != maxPartitions {
		t.Errorf("%d portions, want no more than %d", s.count, maxPartitions)
	}
}
