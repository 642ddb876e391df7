package check_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// inZones launches one node for one pod in each zone named.
func inZones(s *cluster.Shape, zones ...string) func(*world) {
	return func(w *world) {
		for i, p := range several(len(zones), s.Key, s) {
			w.buy(reqs.Set{zone: in(zones[i])}, p)
		}
	}
}

// every selects all pods.
func every() cluster.Selector { return cluster.Selector{Text: "*", Is: labels.Everything()} }

func spread(over string, skew int32, change func(*cluster.Spread)) *cluster.Shape {
	return shape("web", func(s *cluster.Shape) {
		s.Spread = []cluster.Spread{spreadOver(over, "web", skew)}
		if change != nil {
			change(&s.Spread[0])
		}
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()
	move := func(i int, to string) func(*world) {
		return func(w *world) { w.plan.Create[i].Needs[zone] = in(to); w.plan.Create[i].Offer.Zone = to }
	}
	web := shape("web", nil)
	both := func(first func(*world), more ...func(*world)) func(*world) {
		return func(w *world) {
			first(w)
			for _, f := range more {
				f(w)
			}
		}
	}
	bound := func(zones ...string) func(*world) {
		return func(w *world) {
			for i, p := range several(len(zones), "old", web) {
				w.node("n"+p.Key.Name, zones[i], p)
			}
		}
	}
	runMutations(t, map[string]mutation{
		"SC-32 skew between new nodes":        {inZones(spread(zone, 1, nil), "a", "b", "c", "a"), move(1, "a"), check.SpreadUnmet},
		"SC-32 the node is not pinned":        {inZones(spread(zone, 1, nil), "a"), func(w *world) { delete(w.plan.Create[0].Needs, zone) }, check.SpreadUnmet},
		"SC-32 skew over bound pods":          {both(bound("a"), inZones(spread(zone, 1, nil), "b", "c", "a")), move(1, "a"), check.SpreadUnmet},
		"SC-32 domains of other pools' types": {inZones(spread(zone, 1, nil), "a", "b"), func(w *world) { w.plan.Create[1].Needs[zone], w.plan.Create[1].Offer.Zone = in("a"), "a" }, check.SpreadUnmet},
		"SC-32 minDomains":                    {inZones(spread(zone, 1, func(s *cluster.Spread) { s.MinDomains = 3 }), "a", "b", "c", "a"), func(w *world) { w.Pods[0].Shape.Spread[0].MinDomains = 4 }, check.SpreadUnmet},
		"SC-32 hosts":                         {func(w *world) { w.buy(nil, several(2, "p", spread(host, 2, nil))...) }, func(w *world) { w.Pods[0].Shape.Spread[0].MaxSkew = 1 }, check.SpreadUnmet},
		"SC-32 hosts that exist":              {func(w *world) { w.node("n1", "a", pod("old", web)); w.bind(pod("p", spread(host, 2, nil)), "n1") }, func(w *world) { w.Pods[0].Shape.Spread[0].MaxSkew = 1 }, check.SpreadUnmet},
		"SC-32 capacity types": {func(w *world) {
			w.buy(reqs.Set{capacity: in("spot")}, pod("p", spread(capacity, 1, nil)))
			w.buy(reqs.Set{capacity: in("on-demand")}, pod("q", w.Pods[0].Shape))
		}, func(w *world) { w.buy(reqs.Set{capacity: in("spot")}, several(2, "r", w.Pods[0].Shape)...) }, check.SpreadUnmet},
		"SC-26 a custom key": {func(w *world) {
			w.pool().Requirements[rack] = in("r1", "r2")
			w.buy(reqs.Set{rack: in("r1")}, pod("p", spread(rack, 1, nil)))
			w.buy(reqs.Set{rack: in("r2")}, several(2, "q", w.Pods[0].Shape)...)
		}, func(w *world) { w.plan.Create[0].Needs[rack] = in("r2") }, check.SpreadUnmet},
		"SC-26 a node without the label": {func(w *world) { w.node("n1", "a"); w.bind(pod("p", spread(zone, 1, nil)), "n1") }, func(w *world) { delete(w.View.Nodes[0].Labels, zone) }, check.SpreadUnmet},
		"SC-13 each pod by the alternative it went by": {func(w *world) {
			w.pool().Requirements[rack] = in("r1", "r2")
			s := spread(zone, 1, nil)
			s.Required = []reqs.Set{{capacity: in("spot")}, {zone: in("a"), rack: in("r1")}}
			w.buy(reqs.Set{zone: in("a"), rack: in("r2"), capacity: in("spot")}, pod("p", s))
			w.buy(reqs.Set{zone: in("a"), rack: in("r1"), capacity: in("on-demand")}, several(3, "q", s)...)
		}, func(w *world) { w.plan.Create[1].Needs[rack], w.plan.Create[1].Needs[capacity] = in("r2"), in("spot") }, check.SpreadUnmet},
		"SC-13 domains that the pod allows": {func(w *world) {
			s := spread(zone, 1, nil)
			s.Required = []reqs.Set{{zone: in("a", "b")}}
			inZones(s, "a", "a", "b")(w)
		}, func(w *world) { w.Pods[0].Shape.Required[0][zone] = in("a", "b", "c") }, check.SpreadUnmet},
		"SC-27 terminating pods do not count": {func(w *world) {
			old := pod("old", web)
			old.Terminating = true
			w.node("n1", "a", old)
			inZones(spread(zone, 1, nil), "a")(w)
		}, func(w *world) { w.View.Nodes[0].Pods[0].Terminating = false }, check.SpreadUnmet},
		"SC-27 pods of the batch do not count": {func(w *world) {
			s := spread(zone, 1, nil)
			w.node("n1", "a", pod("web-0", s)).Deleting = true
			inZones(s, "a")(w)
		}, func(w *world) { w.View.Nodes[0].Pods[0].Key.Name = "other" }, check.SpreadUnmet},
		"SC-28 nodes the pod cannot use": {func(w *world) {
			w.node("n1", "a", pod("old", web)).Labels[rack] = "r1"
			s := spread(zone, 1, nil)
			s.Required = []reqs.Set{{rack: reqs.Req{}}}
			inZones(s, "a")(w)
		}, func(w *world) { w.Pods[0].Shape.Spread[0].AnyNode = true }, check.SpreadUnmet},
		"SC-28 tainted nodes, honoured": {func(w *world) {
			w.node("n1", "a", pod("old", web)).Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
			inZones(spread(zone, 1, func(s *cluster.Spread) { s.HonorTaint = true }), "a")(w)
		}, func(w *world) { w.Pods[0].Shape.Spread[0].HonorTaint = false }, check.SpreadUnmet},
		"SC-30 no selector is inert": {func(w *world) {
			inZones(spread(zone, 1, func(s *cluster.Spread) { s.Selector = cluster.Selector{} }), "a", "a")(w)
		}, func(w *world) { w.Pods[0].Shape.Spread[0].Selector = cluster.Selector{Is: labels.Everything()} }, check.SpreadUnmet},
		"SC-36 spread counts its own namespace": {func(w *world) {
			old := pod("old", web)
			old.Key.Namespace = "else"
			w.node("n1", "a", old)
			inZones(spread(zone, 1, nil), "a")(w)
		}, func(w *world) { w.View.Nodes[0].Pods[0].Key.Namespace = "default" }, check.SpreadUnmet},
		"SC-14 ScheduleAnyway may be given up": {func(w *world) { inZones(spread(zone, 1, func(s *cluster.Spread) { s.Soft = true }), "a", "a")(w) }, func(w *world) { w.Pods[0].Shape.Spread[0].Soft = false }, check.SpreadUnmet},
		"SC-26 a zone that only a closed pool has": {func(w *world) {
			w.pool().Requirements[zone] = in("a", "b")
			other := w.View.Pools[0]
			other.Name, other.Closed, other.Requirements = "other", true, reqs.Set{}
			w.View.Pools = append(w.View.Pools, other)
			inZones(spread(zone, 1, nil), "a", "b", "b")(w)
		}, func(w *world) { w.View.Pools[1].Closed = false }, check.SpreadUnmet},
	})
}

func TestSpreadLeavesAlone(t *testing.T) {
	t.Parallel()
	web := shape("web", nil)
	for name, build := range map[string]func(w *world){
		"SC-32 skew from before in a zone the plan does not touch": func(w *world) {
			w.node("n1", "a", several(3, "old", web)...)
			inZones(spread(zone, 1, nil), "b")(w)
		},
		"SC-32 pods that match but are not constrained may come later": func(w *world) {
			inZones(spread(zone, 1, nil), "a")(w)
			w.buy(reqs.Set{zone: in("a")}, pod("plain", web))
		},
		"SC-34 a pod on an open node counts nowhere": func(w *world) {
			inZones(spread(zone, 1, nil), "a")(w)
			w.buy(nil, pod("plain", web))
		},
		"SC-32 a pod that does not match itself": func(w *world) {
			s := spread(zone, 1, nil)
			s.Labels = nil
			inZones(s, "a", "a", "a")(w)
		},
		"SC-26 a zone that is out of capacity is not waited for": func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) { t.Offerings[4].Available, t.Offerings[5].Available = false, false })
			inZones(spread(zone, 1, nil), "a", "a", "b")(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			build(w)
			if found := check.Plan(w.Problem, w.plan); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	db, web := shape("db", nil), shape("web", func(s *cluster.Shape) { s.Affinity = term(zone, "db") })
	group := func(over string) *cluster.Shape {
		return shape("web", func(s *cluster.Shape) { s.Affinity = term(over, "web") })
	}
	move := func(i int, to string) func(*world) {
		return func(w *world) { w.plan.Create[i].Needs[zone] = in(to); w.plan.Create[i].Offer.Zone = to }
	}
	runMutations(t, map[string]mutation{
		"SC-33 a pod of the batch is followed": {func(w *world) { inZones(web, "a")(w); inZones(db, "a")(w) }, move(1, "b"), check.AffinityUnmet},
		"SC-33 a bound pod is followed":        {func(w *world) { w.node("n1", "b", pod("db", db)); inZones(web, "b")(w) }, move(0, "a"), check.AffinityUnmet},
		"SC-33 each domain left has a match": {func(w *world) {
			w.node("n1", "a", pod("db", db))
			w.node("n2", "b", pod("db2", db))
			w.buy(reqs.Set{zone: in("a", "b")}, pod("p", web))
		}, func(w *world) { w.plan.Create[0].Needs[zone] = in("a", "b", "c") }, check.AffinityUnmet},
		"SC-33 a group starts once":                   {inZones(group(zone), "a", "a"), move(1, "b"), check.AffinityUnmet},
		"SC-33 a group does not start beside another": {func(w *world) { w.node("n1", "b", pod("old", group(zone))); inZones(group(zone), "b")(w) }, move(0, "a"), check.AffinityUnmet},
		"SC-33 a pod follows by one term and starts by another": {func(w *world) {
			start := shape("web", func(s *cluster.Shape) { s.Affinity = append(term(host, "web"), term(host, "base")...) })
			w.buy(nil, pod("p", shape("base", nil)), pod("q", start))
			w.buy(nil, pod("r", shape("web", nil)))
		}, func(w *world) { w.Pods[0].Shape = shape("other", nil) }, check.AffinityUnmet},
		"SC-33 the second of a group starts it": {func(w *world) {
			group := shape("web", func(s *cluster.Shape) {
				s.Affinity = []cluster.PodTerm{term(zone, "web")[0], {Key: host, Everywhere: true, Selector: every()}}
			})
			w.buy(reqs.Set{zone: in("a")}, pod("p", shape("base", nil)), pod("q", group))
			w.buy(reqs.Set{zone: in("a")}, pod("r", group))
			w.buy(reqs.Set{zone: in("a")}, pod("s", shape("base", nil)), pod("t", group))
		}, func(w *world) { w.plan.Create[1].Needs[zone] = in("b"); w.plan.Create[1].Offer.Zone = "b" }, check.AffinityUnmet},
		"SC-33 no pod starts a circle": {func(w *world) { w.buy(nil, pod("p", web), pod("q", db)) }, func(w *world) {
			w.Pods[1].Shape = shape("db", func(s *cluster.Shape) { s.Affinity = term(zone, "web") })
		}, check.AffinityUnmet},
		"SC-33 hosts": {func(w *world) { w.buy(nil, several(2, "p", group(host))...) }, func(w *world) {
			w.plan.Create[0].Pods = w.plan.Create[0].Pods[:1]
			w.Pods = w.Pods[:1]
			w.buy(nil, pod("q", w.Pods[0].Shape))
		}, check.AffinityUnmet},
		"SC-27 a terminating pod is not followed": {func(w *world) { w.node("n1", "a", pod("db", db)); inZones(web, "a")(w) }, func(w *world) { w.View.Nodes[0].Pods[0].Terminating = true }, check.AffinityUnmet},
		"SC-36 another namespace":                 {func(w *world) { w.node("n1", "a", pod("db", db)); inZones(web, "a")(w) }, func(w *world) { w.View.Nodes[0].Pods[0].Key.Namespace = "else" }, check.AffinityUnmet},
		"SC-36 all namespaces": {func(w *world) {
			w.node("n1", "a", pod("db", db)).Pods[0].Key.Namespace = "else"
			inZones(shape("web", func(s *cluster.Shape) {
				s.Affinity = []cluster.PodTerm{{Key: zone, Selector: app("db"), Everywhere: true}}
			}), "a")(w)
		}, func(w *world) { w.Pods[0].Shape.Affinity[0].Everywhere = false }, check.AffinityUnmet},
		"SC-33 preferred terms may be given up": {func(w *world) { s := group(zone); s.Affinity[0].Weight = 1; inZones(s, "a", "b")(w) }, func(w *world) { w.Pods[0].Shape.Affinity[0].Weight = 0 }, check.AffinityUnmet},
		"SC-33 a group whose domain is forbidden starts anew": {func(w *world) {
			w.node("n1", "a", pod("old", shape("web", nil)))
			s := group(zone)
			s.Required = []reqs.Set{{zone: in("b", "c")}}
			inZones(s, "b")(w)
		}, func(w *world) { delete(w.Pods[0].Shape.Required[0], zone) }, check.AffinityUnmet},
	})
}

func TestAntiAffinity(t *testing.T) {
	t.Parallel()
	lonely := func(over string) *cluster.Shape {
		return shape("web", func(s *cluster.Shape) { s.AntiAffinity = term(over, "web") })
	}
	away := shape("away", func(s *cluster.Shape) { s.AntiAffinity = term(zone, "web") })
	move := func(i int, to string) func(*world) {
		return func(w *world) { w.plan.Create[i].Needs[zone] = in(to); w.plan.Create[i].Offer.Zone = to }
	}
	runMutations(t, map[string]mutation{
		"SC-34 two on one host": {func(w *world) { w.buy(nil, pod("p", lonely(host))); w.buy(nil, pod("q", lonely(host))) }, func(w *world) {
			w.plan.Create[0].Pods, w.plan.Create = append(w.plan.Create[0].Pods, key("q")), w.plan.Create[:1]
		}, check.AntiAffinityUnmet},
		"SC-34 two in one zone":        {inZones(lonely(zone), "a", "b"), move(1, "a"), check.AntiAffinityUnmet},
		"SC-34 every zone left counts": {inZones(lonely(zone), "a", "b"), func(w *world) { w.plan.Create[1].Needs[zone] = in("a", "b") }, check.AntiAffinityUnmet},
		"SC-34 a zone out of capacity for now counts too": {func(w *world) {
			w.changeTypes(func(t *catalog.InstanceType) { t.Offerings[0].Available, t.Offerings[1].Available = false, false })
			w.node("n1", "a", pod("old", shape("web", nil)))
			w.buy(reqs.Set{zone: in("b", "c")}, pod("p", lonely(zone)))
		}, func(w *world) { delete(w.plan.Create[0].Needs, zone) }, check.AntiAffinityUnmet},
		"SC-34 a bound pod": {func(w *world) { w.node("n1", "b", pod("old", shape("web", nil))); inZones(lonely(zone), "a")(w) }, move(0, "b"), check.AntiAffinityUnmet},
		"SC-34 custom labels": {func(w *world) {
			w.pool().Requirements[rack] = in("r1", "r2")
			w.buy(reqs.Set{rack: in("r1")}, pod("p", lonely(rack)))
			w.buy(reqs.Set{rack: in("r2")}, pod("q", lonely(rack)))
		}, func(w *world) { w.plan.Create[1].Needs[rack] = in("r1", "r2") }, check.AntiAffinityUnmet},
		"SC-35 a bound pod's own term":       {func(w *world) { w.node("n1", "b", pod("old", away)); inZones(shape("web", nil), "a")(w) }, move(0, "b"), check.AntiAffinityUnmet},
		"SC-35 a term of a pod of the batch": {func(w *world) { inZones(away, "b")(w); inZones(shape("web", nil), "a")(w) }, move(1, "b"), check.AntiAffinityUnmet},
		"SC-35 on a node that exists": {func(w *world) {
			w.node("n1", "b", pod("old", away))
			w.node("n2", "a")
			w.bind(pod("p", shape("web", nil)), "n2")
		}, func(w *world) { w.View.Nodes[1].Labels[zone] = "b" }, check.AntiAffinityUnmet},
		"SC-27 a terminating pod repels no pod": {func(w *world) {
			old := pod("old", away)
			old.Terminating = true
			w.node("n1", "a", old)
			inZones(shape("web", nil), "a")(w)
		}, func(w *world) { w.View.Nodes[0].Pods[0].Terminating = false }, check.AntiAffinityUnmet},
		"SC-36 another namespace is not meant": {func(w *world) {
			old := pod("old", shape("web", nil))
			old.Key.Namespace = "else"
			w.node("n1", "a", old)
			inZones(lonely(zone), "a")(w)
		}, func(w *world) { w.Pods[0].Shape.AntiAffinity[0].Everywhere = true }, check.AntiAffinityUnmet},
		"SC-35 preferred terms repel no pod":        {func(w *world) { s := lonely(zone); s.AntiAffinity[0].Weight = 5; inZones(s, "a", "a")(w) }, func(w *world) { w.Pods[0].Shape.AntiAffinity[0].Weight = 0 }, check.AntiAffinityUnmet},
		"what was too close before stays unflagged": {func(w *world) { w.node("n1", "b", several(2, "old", lonely(zone))...); inZones(lonely(zone), "a")(w) }, move(0, "b"), check.AntiAffinityUnmet},
	})
}
