package check_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// mutation is a plan that obeys a rule and one change that breaks it.
type mutation struct {
	valid  func(w *world)
	broken func(w *world)
	want   check.Code
}

// Every rule: the plan passes, the mutant is caught.
func runMutations(t *testing.T, table map[string]mutation) {
	t.Helper()
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.valid(w)
			if found := check.Plan(w.Problem, w.plan); len(found) > 0 {
				t.Fatalf("a valid plan is flagged: %v", found)
			}
			tc.broken(w)
			found := check.Plan(w.Problem, w.plan)
			if !slices.ContainsFunc(found, func(v check.Violation) bool { return v.Code == tc.want }) {
				t.Fatalf("want %s, found %v", tc.want, found)
			}
		})
	}
}

func lone(w *world) { w.buy(nil, pod("p", shape("web", nil))) }

func one(change func(*cluster.Shape)) func(*world) {
	return func(w *world) { w.buy(nil, pod("p", shape("web", change))) }
}

func onNode(w *world) {
	w.node("n1", "a", pod("old", shape("old", nil)))
	w.bind(pod("p", shape("web", nil)), "n1")
}

func moved(w *world) {
	w.node("n1", "a")
	w.bind(pod("p", shape("web", nil)), "n1")
	w.Pods, w.Moved = nil, w.Pods
}

func TestWhoIsWhere(t *testing.T) {
	t.Parallel()
	runMutations(t, map[string]mutation{
		"a pod is nowhere":                         {lone, func(w *world) { w.Pods = append(w.Pods, pod("q", shape("web", nil))) }, check.PodLost},
		"a pod is in two places":                   {lone, func(w *world) { w.plan.Create[0].Pods = append(w.plan.Create[0].Pods, key("p")) }, check.PodTwice},
		"a pod is placed and unplaced":             {lone, func(w *world) { w.skip(pod("p", nil)); w.Pods = w.Pods[:1] }, check.PodTwice},
		"an unknown pod":                           {lone, func(w *world) { w.plan.Create[0].Pods = append(w.plan.Create[0].Pods, key("ghost")) }, check.PodUnknown},
		"6.3 no reason":                            {func(w *world) { w.skip(pod("p", shape("web", nil))) }, func(w *world) { w.plan.Unplaced[0].Why = nil }, check.ReasonMissing},
		"SC-46 deferred in fallback mode":          {func(w *world) { w.skip(pod("p", shape("web", nil))); w.plan.Unplaced[0].Deferred = true }, func(w *world) { w.Policy.ReservedFallback = true }, check.DeferredWrong},
		"3.4 an invalid pod has a place":           {lone, func(w *world) { w.Pods[0].Shape.Invalid = []reason.Reason{{Code: "Bad"}} }, check.PodInvalid},
		"3.4 a pod that wants to be left":          {lone, func(w *world) { w.Pods[0].Shape.Refuses = true }, check.PodInvalid},
		"6.1 an unknown node":                      {onNode, func(w *world) { w.plan.Bind[0].Node = "ghost" }, check.NodeUnknown},
		"3.2 a terminating node":                   {onNode, func(w *world) { w.View.Nodes[0].Deleting = true }, check.NodeLeaving},
		"the plan is of another snapshot":          {lone, func(w *world) { w.plan.Version++ }, check.VersionWrong},
		"binds are by pod":                         {func(w *world) { onNode(w); w.bind(pod("q", shape("web", nil)), "n1") }, func(w *world) { slices.Reverse(w.plan.Bind) }, check.Disordered},
		"unplaced pods are by pod":                 {func(w *world) { w.skip(pod("p", shape("web", nil))); w.skip(pod("q", shape("web", nil))) }, func(w *world) { slices.Reverse(w.plan.Unplaced) }, check.Disordered},
		"6.1 a moved pod on a settling node":       {moved, func(w *world) { w.View.Nodes[0].Settling = true }, check.NodeSettling},
		"6.1 a moved pod on a node that is not up": {moved, func(w *world) { w.View.Nodes[0].Initialized = false }, check.NodeSettling},
		"a moved pod is nowhere":                   {moved, func(w *world) { w.plan.Bind = nil }, check.PodLost},
	})
	t.Run("6.1 a settling node takes pending pods and pods of deleting nodes", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.node("n1", "a").Settling = true
		w.node("n2", "a", pod("p", shape("web", nil))).Deleting = true
		w.bind(pod("p", shape("web", nil)), "n1")
		w.bind(pod("q", shape("web", nil)), "n1")
		if found := check.Plan(w.Problem, w.plan); len(found) > 0 {
			t.Error(found)
		}
	})
}

func TestExistingNodes(t *testing.T) {
	t.Parallel()
	ports := func(s *cluster.Shape) { s.HostPorts = []cluster.HostPort{{IP: "0.0.0.0", Port: 80, Protocol: "TCP"}} }
	volumes := func(claims ...string) func(*cluster.Shape) {
		return func(s *cluster.Shape) {
			for _, c := range claims {
				s.Volumes = append(s.Volumes, cluster.Volume{Driver: "ebs", Claim: c})
			}
		}
	}
	shared := func(w *world) { // two pods share a claim: three claims in all
		w.node("n1", "a", pod("old", shape("old", volumes("x", "y")))).VolumeLimits = map[string]int{"ebs": 3}
		w.bind(pod("p", shape("web", volumes("y", "z"))), "n1")
	}
	daemon := func(w *world) {
		onNode(w)
		w.View.Daemons = []cluster.Daemon{{Key: key("d"), Shape: shape("d", nil)}}
	}
	taint := []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	runMutations(t, map[string]mutation{
		"6.1 a taint": {onNode, func(w *world) { w.View.Nodes[0].Taints = taint }, check.TaintNotTolerated},
		"6.1 NoExecute": {onNode, func(w *world) {
			w.View.Nodes[0].Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}
		}, check.TaintNotTolerated},
		"6.1 requirements need the label":       {onNode, func(w *world) { w.Pods[0].Shape.Required = []reqs.Set{{"custom": {Not: true}}} }, check.RequiredUnmet},
		"6.1 requirements hold":                 {onNode, func(w *world) { w.Pods[0].Shape.Required = []reqs.Set{{zone: in("b")}, {zone: in("c")}} }, check.RequiredUnmet},
		"SC-38 no volume can be here":           {onNode, func(w *world) { w.Pods[0].Shape.Zones = []reqs.Set{{zone: in("b")}} }, check.VolumeZoneUnmet},
		"SC-11 too much for the remainder":      {onNode, func(w *world) { w.Pods[0].Shape.Requests = vec(3001, 1) }, check.TooSmall},
		"SC-11 something available is negative": {onNode, func(w *world) { w.View.Nodes[0].Allocatable = vec(4000, 0) }, check.TooSmall},
		"6.1 room for an expected DaemonSet":    {daemon, func(w *world) { w.Pods[0].Shape.Requests = vec(2001, 1) }, check.TooSmall},
		"SC-25 a port taken before":             {func(w *world) { onNode(w); ports(w.Pods[0].Shape) }, func(w *world) { ports(w.View.Nodes[0].Pods[0].Shape) }, check.PortConflict},
		"SC-25 a port taken by another of us":   {func(w *world) { onNode(w); ports(w.Pods[0].Shape); w.bind(pod("q", shape("q", nil)), "n1") }, func(w *world) { ports(w.Pods[1].Shape) }, check.PortConflict},
		"SC-41 one claim too many":              {shared, func(w *world) { volumes("w")(w.Pods[0].Shape) }, check.VolumeLimit},
		"SC-41 another limit":                   {shared, func(w *world) { w.View.Nodes[0].VolumeLimits["ebs"] = 2 }, check.VolumeLimit},
		"6.1 a DaemonSet pod on the node credits": {func(w *world) {
			daemon(w)
			d := pod("d-1", shape("d", nil))
			d.Daemon = true
			w.View.Nodes[0].Pods = append(w.View.Nodes[0].Pods, d)
			w.Pods[0].Shape.Requests = vec(2000, 1)
		}, func(w *world) { w.View.Nodes[0].Pods[1].Daemon = false }, check.TooSmall},
		"SC-23 a DaemonSet that cannot run here": {func(w *world) {
			daemon(w)
			w.View.Daemons[0].Shape.Required = []reqs.Set{{zone: in("b")}}
			w.Pods[0].Shape.Requests = vec(3000, 1)
		}, func(w *world) { w.View.Daemons[0].Shape.Required = []reqs.Set{{zone: in("b")}, {zone: in("a")}} }, check.TooSmall},
		"SC-14 PreferNoSchedule is no obstacle": {func(w *world) {
			onNode(w)
			w.View.Nodes[0].Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, func(w *world) { w.View.Nodes[0].Taints[0].Effect = corev1.TaintEffectNoSchedule }, check.TaintNotTolerated},
		"6.1 a toleration counts": {func(w *world) {
			onNode(w)
			w.View.Nodes[0].Taints = taint
			w.Pods[0].Shape.Tolerations = []corev1.Toleration{{Key: "team", Value: "x"}}
		}, func(w *world) { w.Pods[0].Shape.Tolerations[0].Value = "y" }, check.TaintNotTolerated},
		"a node over its limits before stays used": {func(w *world) {
			onNode(w)
			volumes("x", "y")(w.View.Nodes[0].Pods[0].Shape)
			w.View.Nodes[0].VolumeLimits = map[string]int{"ebs": 1}
		}, func(w *world) { volumes("z")(w.Pods[0].Shape) }, check.VolumeLimit},
	})
}

func TestNewNodes(t *testing.T) {
	t.Parallel()
	created := func(change func(n *solve.NewNode)) func(*world) {
		return func(w *world) { change(&w.plan.Create[0]) }
	}
	limited := func(w *world) {
		left := int64(2)
		w.pool().NodeLimit, w.pool().Limits = &left, []cluster.Limit{{Resource: corev1.ResourceCPU, Remaining: 16000}}
		w.buy(nil, pod("p", shape("web", nil)))
		w.buy(nil, pod("q", shape("web", nil)))
	}
	withDaemon := func(w *world) {
		w.View.Daemons = []cluster.Daemon{{Key: key("d"), Shape: shape("d", func(s *cluster.Shape) {
			s.HostPorts = []cluster.HostPort{{IP: "0.0.0.0", Port: 90, Protocol: "TCP"}}
		})}}
		w.buy(nil, pod("p", shape("web", nil)))
	}
	minimum := func(n int) func(w *world) {
		return func(w *world) {
			w.pool().Requirements[size] = reqs.Req{Not: true, MinValues: n}
			w.buy(nil, pod("p", shape("web", nil)))
		}
	}
	relaxed := func(w *world) {
		minimum(4)(w)
		w.Policy.BestEffortMinimums = true
		w.plan.Create[0].Relaxed = true
		w.plan.Create[0].Needs[size] = reqs.Req{Not: true, MinValues: 3}
	}
	runMutations(t, map[string]mutation{
		"SC-06 an unknown pool":                   {lone, created(func(n *solve.NewNode) { n.Pool = "ghost" }), check.PoolUnknown},
		"SC-06 a closed pool":                     {lone, func(w *world) { w.pool().Closed = true }, check.PoolClosed},
		"SC-24 a node for no pod":                 {lone, func(w *world) { w.plan.Create = append(w.plan.Create, w.newNode(nil)) }, check.NodeEmpty},
		"6.2 needs omit the pool":                 {lone, created(func(n *solve.NewNode) { delete(n.Needs, "karpenter.sh/nodepool") }), check.NeedsTooWide},
		"6.2 needs are wider than the pool":       {func(w *world) { w.pool().Requirements[zone] = in("a", "b"); lone(w) }, created(func(n *solve.NewNode) { n.Needs[zone] = in("a", "c") }), check.NeedsTooWide},
		"6.2 a taint of the pool":                 {lone, func(w *world) { w.pool().Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} }, check.TaintNotTolerated},
		"SC-12 needs leave a forbidden zone open": {lone, func(w *world) { w.Pods[0].Shape.Required = []reqs.Set{{zone: in("a")}} }, check.RequiredUnmet},
		"SC-12 a custom label that no node has":   {lone, func(w *world) { w.Pods[0].Shape.Required = []reqs.Set{{"custom": in("x")}} }, check.RequiredUnmet},
		"SC-12 a type the pod forbids": {func(w *world) {
			w.Pods = nil
			w.buy(reqs.Set{size: in("small")}, pod("p", shape("web", func(s *cluster.Shape) { s.Required = []reqs.Set{{size: in("tiny")}, {size: in("small")}} })))
		}, created(func(n *solve.NewNode) { delete(n.Needs, size); n.Types = []string{"small", "medium"} }), check.RequiredUnmet},
		"SC-38 the volume is elsewhere":      {lone, func(w *world) { w.Pods[0].Shape.Zones = []reqs.Set{{zone: in("a")}, {zone: in("b")}} }, check.VolumeZoneUnmet},
		"SC-08 an unknown type":              {lone, created(func(n *solve.NewNode) { n.Types = append(n.Types, "ghost") }), check.TypeUnknown},
		"SC-19 no type at all":               {lone, created(func(n *solve.NewNode) { n.Types = nil }), check.TypeUnknown},
		"SC-48 a type twice":                 {lone, created(func(n *solve.NewNode) { n.Types = append(n.Types, "large") }), check.TypeTwice},
		"SC-19 a type outside the needs":     {lone, created(func(n *solve.NewNode) { n.Needs[size] = in("small") }), check.TypeMismatch},
		"SC-19 no offering within the needs": {lone, created(func(n *solve.NewNode) { n.Needs[zone] = in("z") }), check.OfferingMissing},
		"SC-19 nothing available": {lone, func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) {
				for i := range t.Offerings {
					t.Offerings[i].Available = t.Name != "large"
				}
			})
		}, check.OfferingMissing},
		"SC-19 pods do not fit a type":         {lone, func(w *world) { w.Pods[0].Shape.Requests = vec(2001, 1) }, check.TooSmall},
		"SC-19 pods and DaemonSets do not fit": {withDaemon, func(w *world) { w.View.Daemons[0].Shape.Requests = vec(1001, 1) }, check.TooSmall},
		"SC-19 the overhead is gone":           {lone, func(w *world) { w.changeTypes(func(t *catalog.InstanceType) { t.Overhead = vec(1001, 0) }) }, check.TooSmall},
		"SC-10 an offering of another size": {lone, func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) {
				for i := range t.Offerings {
					t.Offerings[i].Size = &catalog.Size{Capacity: vec(900, 9)}
				}
			})
		}, check.TooSmall},
		"SC-25 a port of a DaemonSet": {withDaemon, func(w *world) {
			w.Pods[0].Shape.HostPorts = []cluster.HostPort{{IP: "10.0.0.1", Port: 90, Protocol: "TCP"}}
		}, check.PortConflict},
		"SC-25 a port twice": {func(w *world) { w.buy(nil, several(2, "p", shape("web", nil))...) }, func(w *world) { w.Pods[0].Shape.HostPorts = []cluster.HostPort{{Port: 80, Protocol: "TCP"}} }, check.PortConflict},
		"V15-57 too many volumes for a type": {one(func(s *cluster.Shape) {
			s.Volumes = []cluster.Volume{{Driver: "ebs", Claim: "x"}, {Driver: "ebs", Claim: "y"}}
		}), func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) { t.VolumeLimits = map[string]int{"ebs": 1, "efs": 0} })
		}, check.VolumeLimit},
		"SC-48 too many types": {lone, created(func(n *solve.NewNode) { n.Types = append(n.Types, make([]string, 600)...) }), check.TooManyTypes},
		"SC-48 dearest first":  {lone, created(func(n *solve.NewNode) { slices.Reverse(n.Types) }), check.TypesDisordered},
		"SC-48 the offer is not the cheapest": {lone, created(func(n *solve.NewNode) {
			n.Offer = solve.Offer{Type: "medium", Zone: "a", CapacityType: "spot", Price: 0.1}
		}), check.OfferWrong},
		"SC-48 the offer is of no listed type":         {lone, created(func(n *solve.NewNode) { n.Types = n.Types[1:] }), check.OfferWrong},
		"V15-44 the offer cannot be launched":          {lone, created(func(n *solve.NewNode) { n.Offer.Zone = "z" }), check.OfferWrong},
		"SC-10 another price":                          {lone, created(func(n *solve.NewNode) { n.Offer.Price = 0.01 }), check.PriceWrong},
		"SC-49 requests omit a pod":                    {lone, created(func(n *solve.NewNode) { n.Requests = resources.Vec{} }), check.RequestsWrong},
		"SC-49 requests omit the DaemonSets":           {withDaemon, created(func(n *solve.NewNode) { n.Requests = vec(1000, 1) }), check.RequestsWrong},
		"SC-42 too few values":                         {minimum(3), created(func(n *solve.NewNode) { n.Types = n.Types[:2] }), check.MinValuesUnmet},
		"SC-42 the claim omits minValues":              {minimum(3), created(func(n *solve.NewNode) { n.Needs[size] = reqs.Req{Not: true} }), check.MinValuesUnmet},
		"V15-60 values the needs exclude":              {func(w *world) { w.pool().Requirements[zone] = reqs.Req{Not: true, MinValues: 2}; lone(w) }, created(func(n *solve.NewNode) { n.Needs[zone] = reqs.Req{Values: []string{"a"}, MinValues: 2} }), check.MinValuesUnmet},
		"SC-43 relaxed under Strict":                   {relaxed, func(w *world) { w.Policy.BestEffortMinimums = false }, check.RelaxedWrong},
		"SC-43 relaxed for nothing":                    {func(w *world) { minimum(3)(w); w.Policy.BestEffortMinimums = true }, created(func(n *solve.NewNode) { n.Relaxed = true }), check.RelaxedWrong},
		"SC-43 below the lowered value":                {relaxed, created(func(n *solve.NewNode) { n.Types = n.Types[:2] }), check.MinValuesUnmet},
		"SC-43 not said":                               {relaxed, created(func(n *solve.NewNode) { n.Relaxed = false }), check.MinValuesUnmet},
		"SC-50 an overlay of capacity is not said":     {lone, func(w *world) { w.pool().Types[1].CapacityOverlaid = true }, check.OverlaidWrong},
		"SC-50 an overlay is not said":                 {lone, func(w *world) { w.pool().Types[1].Overlaid = true }, check.OverlaidWrong},
		"SC-20 the largest candidates exceed cpu":      {limited, func(w *world) { w.pool().Limits[0].Remaining = 15999 }, check.LimitExceeded},
		"SC-20 a limit of a resource that no node has": {limited, func(w *world) { w.pool().Limits[0] = cluster.Limit{Resource: "example.com/gpu", Remaining: -1} }, check.LimitExceeded},
		"SC-20 one node too many":                      {limited, func(w *world) { *w.pool().NodeLimit = 1 }, check.LimitExceeded},
		"the cost is another sum":                      {lone, func(w *world) { w.plan.Cost++ }, check.CostWrong},
		"the bound is above the cost":                  {lone, func(w *world) { w.plan.Bound = 2 * w.plan.Cost }, check.BoundWrong},
		"SC-14 PreferNoSchedule is no obstacle": {func(w *world) {
			w.pool().Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
			lone(w)
		}, func(w *world) { w.pool().Taints[0].Effect = corev1.TaintEffectNoSchedule }, check.TaintNotTolerated},
		"SC-23 a DaemonSet of another type": {func(w *world) {
			withDaemon(w)
			w.View.Daemons[0].Shape.Required = []reqs.Set{{corev1.LabelInstanceTypeStable: in("tiny")}}
			w.plan.Create[0].Requests = vec(1000, 1)
		}, func(w *world) {
			w.View.Daemons[0].Shape.Required = []reqs.Set{{corev1.LabelInstanceTypeStable: in("small", "medium", "large")}}
		}, check.RequestsWrong},
		"SC-23 a DaemonSet waits for registration": {func(w *world) {
			withDaemon(w)
			w.View.Daemons[0].Shape.Required = []reqs.Set{{"karpenter.sh/registered": in("true")}}
		}, created(func(n *solve.NewNode) { n.Requests = vec(1000, 1) }), check.RequestsWrong},
		"SC-24 the least overhead of the groups": {func(w *world) {
			withDaemon(w)
			w.View.Daemons[0].Shape.Required = []reqs.Set{{corev1.LabelInstanceTypeStable: in("large")}}
			w.plan.Create[0].Requests = vec(1000, 1)
		}, created(func(n *solve.NewNode) { n.Requests = vec(2000, 2) }), check.RequestsWrong},
	})
}

func TestReservations(t *testing.T) {
	t.Parallel()
	reserve := func(w *world, remaining int) {
		for _, i := range []int{0, 1} {
			t := &w.pool().Types[i]
			t.Offerings = append(t.Offerings, catalog.Offering{Zone: "a", CapacityType: "reserved", Reservation: "r-" + t.Name, Remaining: remaining, Price: 0.0001, Available: true})
		}
	}
	pair := func(w *world) {
		reserve(w, 2)
		w.buy(reqs.Set{capacity: in("reserved")}, pod("p", shape("web", nil)))
		w.buy(reqs.Set{capacity: in("reserved")}, pod("q", shape("web", nil)))
	}
	runMutations(t, map[string]mutation{
		"SC-45 more nodes than units": {pair, func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) { t.Offerings[len(t.Offerings)-1].Remaining = 1 })
		}, check.ReservationExceeded},
		"SC-45 the smallest count of an id": {pair, func(w *world) {
			o := w.pool().Types[0].Offerings[6]
			o.Remaining = 1
			w.pool().Types[2].Offerings = append(w.pool().Types[2].Offerings, o)
		}, check.ReservationExceeded},
		"SC-47 reserved and other ways":    {pair, func(w *world) { delete(w.plan.Create[0].Needs, capacity) }, check.ReservedMixed},
		"V15-45 a reservation passed over": {func(w *world) { reserve(w, 0); w.buy(reqs.Set{capacity: in("spot")}, pod("p", shape("web", nil))) }, func(w *world) { w.pool().Types[0].Offerings[6].Remaining = 1 }, check.ReservedPassedOver},
		"V15-44 a full reservation is launched": {pair, func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) { t.Offerings[len(t.Offerings)-1].Remaining = 0 })
		}, check.OfferWrong},
	})
	for name, change := range map[string]func(w *world){
		"V15-46 in fallback mode":                func(w *world) { w.Policy.ReservedFallback = true },
		"17 a pod that wants on-demand":          func(w *world) { w.Pods[0].Shape.Required = []reqs.Set{{capacity: in("spot", "on-demand")}} },
		"V15-45 c a full one falls back at once": func(w *world) { w.changeTypes(func(t *catalog.InstanceType) { t.Offerings[6].Remaining = 0 }) },
		"SC-12 a preference is kept while it may": func(w *world) {
			w.Pods[0].Shape.Preferred = []cluster.Preference{{Weight: 1, Needs: reqs.Set{capacity: in("spot")}}}
		},
	} {
		t.Run(name+" a reservation may be passed over", func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pool().Types = w.pool().Types[:2]
			reserve(w, 1)
			w.buy(reqs.Set{capacity: in("spot")}, pod("p", shape("web", nil)))
			change(w)
			if found := check.Plan(w.Problem, w.plan); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}
