package store

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// reservedTypes offers small machines of two reservations besides the ordinary ones.
func reservedTypes(one, two int, kindConsumers ...string) map[string][]catalog.InstanceType {
	types := testTypes()
	for id, left := range map[string]int{"cr-1": one, "cr-2": two} {
		types["general"][0].Offerings = append(types["general"][0].Offerings, catalog.Offering{
			Zone: "a", CapacityType: karpv1.CapacityTypeReserved, Available: true, Reservation: id, Remaining: left, Takers: kindConsumers,
			Labels: map[string]string{awsv1.LabelCapacityReservationID: id},
		})
	}
	return types
}

func pinned(name, provider string, ids ...string) *karpv1.NodeClaim {
	c := claimObject(name, provider, provider != "")
	c.Spec.Requirements = append(c.Spec.Requirements,
		karpv1.Requirement{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeReserved}},
		karpv1.Requirement{Key: awsv1.LabelCapacityReservationID, Operator: corev1.NodeSelectorOpIn, Values: ids})
	if provider != "" {
		c.Labels[awsv1.LabelCapacityReservationID] = ids[0]
	}
	return c
}

// SC-45, FM F08, decision 6: while a claim is on its way its slot is not reserved for another claim, and once
// the cloud counts it, it counts once.
func TestFM_F08_SlotsOfClaimsInFlight(t *testing.T) {
	t.Parallel()
	type left map[string]int
	for name, tc := range map[string]struct {
		do    func(s *Store)
		later time.Duration
		types map[string][]catalog.InstanceType
		want  left
	}{
		"no claim requests it": {do: func(*Store) {}, want: left{"cr-1": 1, "cr-2": 2}},
		"ordered, not launched": {
			do:   func(s *Store) { s.feedObject(pinned("c", "", "cr-1"), false) },
			want: left{"cr-1": 0, "cr-2": 2},
		},
		"created, before the watch reports it": {
			do:   func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-1"), nil) },
			want: left{"cr-1": 0, "cr-2": 2},
		},
		"either reservation will do": {
			do:   func(s *Store) { s.feedObject(pinned("c", "", "cr-1", "cr-2"), false) },
			want: left{"cr-1": 0, "cr-2": 1},
		},
		"two claims for one slot": {
			do: func(s *Store) {
				s.feedObject(pinned("c", "", "cr-1"), false)
				s.feedObject(pinned("d", "", "cr-1"), false)
			},
			want: left{"cr-1": 0, "cr-2": 2},
		},
		"requested to terminate, but it may be launched all the same": {
			do: func(s *Store) {
				c := pinned("c", "", "cr-1")
				c.DeletionTimestamp = new(metav1.NewTime(now()))
				s.feedObject(c, false)
			},
			want: left{"cr-1": 0, "cr-2": 2},
		},
		"refused and gone": {
			do: func(s *Store) {
				s.feedObject(pinned("c", "", "cr-1"), false)
				s.feedObject(pinned("c", "", "cr-1"), true)
			},
			want: left{"cr-1": 1, "cr-2": 2},
		},
		"launched, and the cloud has counted it before memory knows": {
			do:    func(s *Store) { s.feedObject(pinned("c", "", "cr-1", "cr-2"), false) },
			types: reservedTypes(0, 2, "claim-c"),
			want:  left{"cr-1": 0, "cr-2": 2},
		},
		"launched, but the types are of before": {
			do: func(s *Store) {
				s.feedObject(pinned("c", "", "cr-1", "cr-2"), false)
				s.feedObject(pinned("c", "p-1", "cr-1", "cr-2"), false)
			},
			want: left{"cr-1": 0, "cr-2": 2},
		},
		"launched, and everybody knows": {
			do: func(s *Store) {
				s.feedObject(pinned("c", "", "cr-2"), false)
				s.feedObject(pinned("c", "p-1", "cr-2"), false)
			},
			types: reservedTypes(1, 1, "claim-c"),
			want:  left{"cr-1": 1, "cr-2": 1},
		},
		"launched some time ago": {
			do: func(s *Store) {
				s.feedObject(pinned("c", "", "cr-2"), false)
				s.feedObject(pinned("c", "p-1", "cr-2"), false)
			},
			later: launchCountedFor,
			want:  left{"cr-1": 1, "cr-2": 2},
		},
		"launched by an earlier process": {
			do:   func(s *Store) { s.feedObject(pinned("c", "p-1", "cr-2"), false) },
			want: left{"cr-1": 1, "cr-2": 2},
		},
		"a claim that does not say which, as static pools write them": {
			do:   func(s *Store) { s.feedObject(claimObject("c", "", false), false) },
			want: left{"cr-1": 0, "cr-2": 1},
		},
		"a claim of a pool that cannot have them": {
			do: func(s *Store) {
				c := claimObject("c", "", false)
				c.Labels[karpv1.LabelNodePool] = "other"
				s.feedObject(c, false)
			},
			want: left{"cr-1": 1, "cr-2": 2},
		},
		"spot only": {
			do: func(s *Store) {
				c := claimObject("c", "", false)
				c.Spec.Requirements = append(c.Spec.Requirements, karpv1.Requirement{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}})
				s.feedObject(c, false)
			},
			want: left{"cr-1": 1, "cr-2": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := now()
			o := testOptions()
			o.ReservationLabel, o.Now = awsv1.LabelCapacityReservationID, func() time.Time { return at }
			s := New(o)
			s.feedObject(poolObject("general"), false)
			tc.do(s)
			at = at.Add(tc.later)
			types := tc.types
			if types == nil {
				types = reservedTypes(1, 2)
			}
			for _, o := range s.Disruption(types).Cluster.Pools[0].Types[0].Offerings {
				if o.Reservation != "" && o.Remaining != tc.want[o.Reservation] {
					t.Errorf("%s has %d left for the next plan, want %d", o.Reservation, o.Remaining, tc.want[o.Reservation])
				}
			}
		})
	}
}

// What one loop is ordering takes its slot for the others before its claim is in memory.
func TestFM_F08_SlotsOfClaimsBeingWritten(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	left := func() int {
		for _, o := range s.Snapshot(reservedTypes(1, 2)).Pools[0].Types[0].Offerings {
			if o.Reservation == "cr-1" {
				return o.Remaining
			}
		}
		return -1
	}
	if got := left(); got != 1 {
		t.Fatalf("%d left", got)
	}
	node := wanted("small")
	node.Pods = []podKey{{Namespace: "default", Name: "p"}}
	node.Needs, _ = reqs.FromEntries(karpv1.Entries(pinned("c", "", "cr-1").Spec.Requirements), awsv1.Vocabulary())
	refused, give := s.Reserve([]solve.NewNode{node}, nil, 0)
	if got := left(); len(refused) != 0 || got != 0 {
		t.Errorf("%d left while the claim is written, %v", got, refused)
	}
	give(0)
	if got := left(); got != 1 {
		t.Errorf("%d left after it came to nothing", got)
	}
}

// Pools that share a list of types go on sharing it, and the cloud's own list is not written to.
func TestSlotsLeaveListsAlone(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	s.feedObject(poolObject("twin"), false)
	s.feedObject(pinned("c", "", "cr-2"), false)
	types := reservedTypes(1, 2)
	types["twin"] = types["general"]
	pools := s.Snapshot(types).Pools
	if &pools[0].Types[0] != &pools[1].Types[0] {
		t.Error("the pools do not share their types any more")
	}
	for _, o := range types["general"][0].Offerings {
		if o.Reservation == "cr-2" && o.Remaining != 2 {
			t.Errorf("the cloud's own count is %d now", o.Remaining)
		}
	}
}

// Trust A16: a node on reserved capacity frees what it costs on demand, whether that has capacity at present or not.
func TestTrust_A16_WhatAReservedNodeFrees(t *testing.T) {
	t.Parallel()
	for capacityType, want := range map[string]float64{karpv1.CapacityTypeReserved: 0.1, karpv1.CapacityTypeOnDemand: 0} {
		s := New(testOptions())
		s.feedObject(poolObject("general"), false)
		c := pinned("c", "p-1", "cr-1")
		c.Labels[karpv1.LabelCapacityType], c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone] = capacityType, "small", "a"
		node := nodeObject("n", "p-1", true)
		maps.Copy(node.Labels, c.Labels)
		s.feedObject(c, false)
		s.feedObject(node, false)
		types := reservedTypes(1, 2)
		types["general"][0].Offerings[0].Available = false
		got := s.Disruption(types).Nodes
		if len(got) != 1 || got[0].Frees != want {
			t.Errorf("%s: nodes %+v, want one that frees %v", capacityType, got, want)
		}
	}
}

// reservedNode is a planned node that is launched from reservations.
func reservedNode(pod string, ids ...string) solve.NewNode {
	n := wanted("small")
	n.Pods = []podKey{{Namespace: "default", Name: pod}}
	n.Needs, _ = reqs.FromEntries(karpv1.Entries(pinned("c", "", ids...).Spec.Requirements), awsv1.Vocabulary())
	n.Offer.Reservation = ids[0]
	return n
}

// Trust A13: two loops plan with the same count of a reservation, and one of them gets the last slot. The other is informed before its
// claim is written.
func TestTrust_A13_OneSlotForTwoLoops(t *testing.T) {
	t.Parallel()
	mine := reservedNode("mine", "cr-1")
	template := solve.NewNode{Pool: "general", Needs: mine.Needs} // of a static pool
	ordinary := wanted("small")
	for name, tc := range map[string]struct {
		others func(s *Store)
		nodes  []solve.NewNode
		types  map[string][]catalog.InstanceType // of a later look
		want   []int                             // nodes that are refused
	}{
		"no other caller":       {nodes: []solve.NewNode{mine}},
		"it is being written":   {others: func(s *Store) { s.Reserve([]solve.NewNode{reservedNode("other", "cr-1")}, nil, 0) }, nodes: []solve.NewNode{mine}, want: []int{0}},
		"of a static pool":      {others: func(s *Store) { s.Reserve([]solve.NewNode{template}, nil, 0) }, nodes: []solve.NewNode{mine}, want: []int{0}},
		"it was written":        {others: func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-1"), nil) }, nodes: []solve.NewNode{mine}, want: []int{0}},
		"another is left":       {others: func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-2"), nil) }, nodes: []solve.NewNode{reservedNode("mine", "cr-2")}},
		"another will do":       {others: func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-1"), nil) }, nodes: []solve.NewNode{reservedNode("mine", "cr-1", "cr-2")}},
		"nothing is reserved":   {others: func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-1"), nil) }, nodes: []solve.NewNode{ordinary}},
		"both in one plan":      {nodes: []solve.NewNode{mine, reservedNode("more", "cr-1"), ordinary}, want: []int{1}},
		"the cloud counts it":   {others: func(s *Store) { s.RecordCreatedClaim(pinned("c", "", "cr-1", "cr-2"), nil) }, types: reservedTypes(1, 1, "claim-c"), nodes: []solve.NewNode{mine}},
		"the cloud has no more": {types: reservedTypes(0, 1), nodes: []solve.NewNode{mine, reservedNode("more", "cr-2")}, want: []int{0}},
		"it came to nothing": {
			others: func(s *Store) {
				_, give := s.Reserve([]solve.NewNode{reservedNode("other", "cr-1")}, nil, 0)
				give(0)
			},
			nodes: []solve.NewNode{mine},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.ReservationLabel = awsv1.LabelCapacityReservationID
			s := New(o)
			s.feedObject(poolObject("general"), false)
			s.Snapshot(reservedTypes(1, 2)) // both plan on this
			if tc.others != nil {
				tc.others(s)
			}
			if tc.types != nil {
				s.Snapshot(tc.types)
			}
			refused, give := s.Reserve(tc.nodes, nil, s.revision)
			if got := slices.Sorted(maps.Keys(refused)); !slices.Equal(got, tc.want) {
				t.Errorf("refused %v, want %v", refused, tc.want)
			}
			for i := range tc.nodes {
				give(i)
			}
		})
	}
}

// Trust A13: a command gets the slots of all its replacements or none.
func TestTrust_A13_ACommandTakesAllOfItsSlotsOrNone(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	s.Snapshot(reservedTypes(1, 2))
	marks := marksFor("one", "general-x")
	nodes := []solve.NewNode{reservedNode("a", "cr-2"), reservedNode("b", "cr-1"), reservedNode("c", "cr-1")}
	if refused, _ := s.Reserve(nodes, marks, s.revision); len(refused) != len(nodes) {
		t.Errorf("refused %v, want all", refused)
	}
	if refused, _ := s.Reserve(nodes[:2], marks, s.revision); len(refused) > 0 {
		t.Errorf("refused %v: slots are still taken", refused)
	}
}
