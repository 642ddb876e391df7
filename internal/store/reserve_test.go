package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// limitedStore holds a pool that may have so many cores and nodes; small nodes have 4 cores, large ones 16.
func limitedStore(cpu, nodes int) *Store {
	s := New(testOptions())
	pool := poolObject("general")
	pool.Spec.Limits = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), karpv1.LimitNodes: *resource.NewQuantity(int64(nodes), resource.DecimalSI),
	}
	s.feedObject(pool, false)
	s.Snapshot(testTypes())
	return s
}

func wanted(types ...string) solve.NewNode { return solve.NewNode{Pool: "general", Types: types} }

// ordered is the claim of a node that was reserved.
func ordered(name string, marks map[string]string, types ...string) *karpv1.NodeClaim {
	c := claimObject(name, "", false)
	c.Spec.Requirements[0].Values, c.Annotations = types, marks
	return c
}

func marksFor(id string, replaced ...string) map[string]string {
	c := disrupt.Command{ID: id, Reason: karpv1.ReasonDrifted, Decided: now(), Create: make([]solve.NewNode, 1)}
	for _, name := range replaced {
		c.Remove = append(c.Remove, disrupt.Candidate{Claim: name})
	}
	return c.Marks()
}

// G10: what is being written counts, for those who write and for those who plan, until it is in memory or
// came to nothing.
func TestG10_ReservationsCount(t *testing.T) {
	t.Parallel()
	s := limitedStore(20, 100)
	refused, give := s.Reserve([]solve.NewNode{wanted("small", "large"), wanted("small"), wanted("small")}, nil, 0)
	if len(refused) != 1 || refused[2] == nil || !strings.Contains(refused[2].Error(), "nodepool general: its limit 20 of cpu") {
		t.Fatalf("refused %v, want the third: the first can become 16 of 20 cores", refused)
	}
	if left := s.Snapshot(testTypes()).Pools[0].Limits[0].Remaining; left != 0 {
		t.Errorf("plans find %d left, want nothing", left)
	}
	if refused, _ := s.Reserve([]solve.NewNode{wanted("small")}, nil, 0); len(refused) != 1 {
		t.Error("what others reserved is had twice")
	}
	s.RecordCreatedClaim(ordered("general-1", nil, "small", "large"), nil)
	give(0)
	give(1) // could not be written
	give(2) // was refused
	if refused, _ := s.Reserve([]solve.NewNode{wanted("small"), wanted("small")}, nil, 0); len(refused) != 1 || refused[1] == nil {
		t.Errorf("refused %v, want one of two small ones next to a claim of 16 cores", refused)
	}
}

// Static pools and those without limits reserve nothing.
func TestReserveLeavesOut(t *testing.T) {
	t.Parallel()
	s := limitedStore(0, 0)
	static, free := poolObject("static"), poolObject("free")
	static.Spec.Replicas, free.Spec.Limits = new(int64(3)), nil
	s.feedObject(static, false)
	s.feedObject(free, false)
	refused, give := s.Reserve([]solve.NewNode{{Pool: "static"}, {Pool: "free", Types: []string{"large"}}, {Pool: "unknown"}, wanted("small")}, nil, 0)
	if len(refused) != 1 || refused[3] == nil || len(s.reserved) != 0 {
		t.Errorf("refused %v, %d reserved; want the one of the pool that may have nothing", refused, len(s.reserved))
	}
	give(0)
}

// A command may use the room of the nodes that it replaces, and no more; what other commands give back is
// not counted on, since they may fail. It gets all of its nodes or none.
func TestG10_ReplacementsUseTheRoomOfTheirNodes(t *testing.T) {
	t.Parallel()
	replacing := marksFor("one", "general-x")
	for name, tc := range map[string]struct {
		held  bool
		other bool // a large node is being replaced by a small one
		nodes []solve.NewNode
		want  int // are refused
	}{
		"as large":                         {held: true, nodes: []solve.NewNode{wanted("small")}},
		"larger":                           {held: true, nodes: []solve.NewNode{wanted("large")}, want: 1},
		"two for one":                      {held: true, nodes: []solve.NewNode{wanted("small"), wanted("small")}, want: 2},
		"its node is not held":             {nodes: []solve.NewNode{wanted("small")}, want: 1},
		"as large, next to another":        {held: true, other: true, nodes: []solve.NewNode{wanted("small")}},
		"in what another will give back":   {held: true, other: true, nodes: []solve.NewNode{wanted("small"), wanted("small")}, want: 2},
		"larger, with room from elsewhere": {held: true, other: true, nodes: []solve.NewNode{wanted("large")}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := limitedStore(20, 2)
			joined(s, "general-x") // small
			big := ordered("general-big", nil, "large")
			s.feedObject(big, false)
			if tc.other {
				marks := marksFor("other", "general-big")
				s.SetCommanded("general-big", true)
				_, give := s.Reserve([]solve.NewNode{wanted("small")}, marks, 0)
				s.RecordCreatedClaim(ordered("general-slim", marks, "small"), nil)
				give(0)
				s.SetRemoving("general-big", true)
			}
			s.SetCommanded("ip-1", tc.held)
			refused, _ := s.Reserve(tc.nodes, replacing, 0)
			if len(refused) != tc.want {
				t.Errorf("refused %v, want %d", refused, tc.want)
			}
			if left := len(s.reserved); left != len(tc.nodes)-tc.want {
				t.Errorf("%d are reserved", left)
			}
		})
	}
}

// Many reserve at once while others plan: the race detector looks on, and no core is had twice.
func TestG10_ReserveAtOnce(t *testing.T) {
	t.Parallel()
	s := limitedStore(40, 100)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 4 {
				refused, give := s.Reserve([]solve.NewNode{wanted("small")}, nil, 0)
				if len(refused) == 0 {
					s.RecordCreatedClaim(ordered(fmt.Sprintf("general-%d-%d", i, j), nil, "small"), nil)
				}
				give(0)
				s.Snapshot(testTypes())
			}
		})
	}
	all.Wait()
	had := s.Claims("general") // some may be missing: a claim counts twice for the moment until its room is given back
	refused, _ := s.Reserve(slices.Repeat([]solve.NewNode{wanted("small")}, 10), nil, 0)
	if had > 10 || int64(len(refused)) != had {
		t.Errorf("%d claims of four cores, %d of ten more are refused; the limit is 40", had, len(refused))
	}
}

// G8: a caller that planned before another caller ordered a node for one of the same pods gets none, be that one written
// already or not. Who planned later knows of it, and one that goes or came to nothing is no reason.
func TestG8_NoPodIsServedTwice(t *testing.T) {
	t.Parallel()
	web, api := podKey{Namespace: "default", Name: "web"}, podKey{Namespace: "default", Name: "api"}
	both := solve.NewNode{Pool: "free", Pods: []podKey{web, api}}
	other := solve.NewNode{Pool: "free", Pods: []podKey{{Namespace: "default", Name: "db"}}}
	for name, tc := range map[string]struct {
		do    func(s *Store)
		marks map[string]string
		want  map[int]string
	}{
		"nothing happened": {},
		"a claim was written for one of its pods": {
			do: func(s *Store) { s.RecordCreatedClaim(ordered("free-1", nil, "small"), []podKey{web}) }, want: map[int]string{0: "nodeclaim free-1 was ordered for pod default/web"},
		},
		"of a command it is all or none": {
			do: func(s *Store) { s.RecordCreatedClaim(ordered("free-1", nil, "small"), []podKey{web}) }, marks: marksFor("c1", "old"),
			want: map[int]string{0: "nodeclaim free-1 was ordered for pod default/web", 1: "nodeclaim free-1 was ordered for pod default/web"},
		},
		"one is being written": {
			do:   func(s *Store) { s.Reserve([]solve.NewNode{{Pool: "free", Pods: []podKey{api}}}, nil, s.revision) },
			want: map[int]string{0: "a nodeclaim of others is being written for pod default/api"},
		},
		"one could not be written": {do: func(s *Store) {
			_, give := s.Reserve([]solve.NewNode{{Pool: "free", Pods: []podKey{api}}}, nil, s.revision)
			give(0)
		}},
		"the claim is gone": {do: func(s *Store) {
			s.RecordCreatedClaim(ordered("free-1", nil, "small"), []podKey{web})
			s.feedObject(ordered("free-1", nil, "small"), true)
		}},
		"the claim goes": {do: func(s *Store) {
			going := ordered("free-1", nil, "small")
			going.DeletionTimestamp = new(metav1.NewTime(now()))
			s.RecordCreatedClaim(going, []podKey{web})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("free"), false)
			version := s.Snapshot(testTypes()).Version
			if tc.do != nil {
				tc.do(s)
			}
			refused, give := s.Reserve([]solve.NewNode{both, other}, tc.marks, version)
			got := map[int]string{}
			for i, err := range refused {
				got[i] = err.Error()
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			give(0)
			give(1)
			if refused, _ := s.Reserve([]solve.NewNode{both, other}, tc.marks, s.Snapshot(testTypes()).Version); len(refused) > 0 && name != "one is being written" {
				t.Errorf("refused %v although the plan is younger", refused)
			}
		})
	}
}
